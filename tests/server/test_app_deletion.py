"""A federation that is deleted: what a request gets does not depend on when that happened."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from elmgrove.federation.charter import address_of
from elmgrove.federation.contribution import Contribution, unbundle
from elmgrove.server import auth, contributions, federations
from elmgrove.server.store.contributions import Contributions
from elmgrove.server.store.federations import DeviceRow, Federations
from support.serving import ADMIN, Federation, Server, charter, contents, seeded_contribution

ME = "fan-1"
BLOB = seeded_contribution(ME, 1).to_bytes()
# Everything inside a federation that is asked of the store after the caller was let in.
BY_KEY: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/devices", {}),
    ("GET", "/entries", {}),
    ("GET", "/contributions/fan-1", {}),
    ("PUT", "/contributions/fan-1", {"content": BLOB}),
    ("DELETE", "/contributions/fan-1", {}),
    ("DELETE", "/contributions/fan-1?epoch=21", {}),
    ("GET", "/merged", {}),
    ("GET", "/merged?merge=group", {}),
    ("GET", "/others?merge=quality", {}),
]
BY_ADMIN: list[tuple[str, str, dict[str, Any]]] = [
    *(asked for asked in BY_KEY if asked[0] == "GET"),
    ("GET", "/contributions", {}),
    ("DELETE", "/contributions/fan-1", {}),
    ("DELETE", "", {}),
    ("POST", "/token", {}),
    ("POST", "/devices", {"json": {"name": "fan-9"}}),
    ("DELETE", "/devices/fan-1", {}),
]


def as_text(asked: object) -> str:
    return str(asked) if isinstance(asked, str) else ""


def answered(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["detail"]


UNAUTHORIZED = 401, auth.KEY_NEEDED
NO_TOKEN = 401, auth.TOKEN_NEEDED
NOT_FOUND = 404, "there is no federation of this name"


@pytest.fixture(name="fans")
def fans_fixture(server: Server) -> Federation:
    """A federation of three."""
    made = server.found(charter())
    made.enrol(ME, "fan-2", "fan 3/ü")
    return made


@pytest.fixture
def vanishing(fans: Federation, monkeypatch: pytest.MonkeyPatch) -> Federation:
    """A federation that is deleted as soon as the next request's secret was found to be right."""
    assert fans.put(seeded_contribution(ME, 1)).status_code == 200

    async def caller_of(request: Request, *admitted: auth.Role) -> auth.Caller:
        caller = await auth.caller_of(request, *admitted)
        await caller.service.store.federations.delete(caller.charter.name)
        return caller

    monkeypatch.setattr(contributions, "caller_of", caller_of)
    monkeypatch.setattr(federations, "caller_of", caller_of)
    return fans


@pytest.mark.parametrize(("method", "path", "body"), BY_KEY, ids=as_text)
def test_to_a_device_it_is_gone_before_its_request(
    fans: Federation, method: str, path: str, body: dict[str, Any]
) -> None:
    fans.put(seeded_contribution(ME, 1))
    assert fans.ask("DELETE", "", ADMIN).status_code == 204
    assert answered(fans.ask(method, path, fans.keys[ME], **body)) == UNAUTHORIZED


@pytest.mark.parametrize(("method", "path", "body"), BY_KEY, ids=as_text)
def test_to_a_device_it_goes_during_its_request(
    server: Server, vanishing: Federation, method: str, path: str, body: dict[str, Any]
) -> None:
    assert answered(vanishing.ask(method, path, vanishing.keys[ME], **body)) == UNAUTHORIZED
    assert vanishing.charter.name not in str(contents(server.store))


@pytest.mark.parametrize(("method", "path", "body"), BY_ADMIN, ids=as_text)
def test_to_the_administrator_it_is_gone_before_the_request(
    fans: Federation, method: str, path: str, body: dict[str, Any]
) -> None:
    assert fans.ask("DELETE", "", ADMIN).status_code == 204
    assert answered(fans.ask(method, path, ADMIN, **body)) == NOT_FOUND


@pytest.mark.parametrize(("method", "path", "body"), BY_ADMIN, ids=as_text)
def test_to_the_administrator_it_goes_during_the_request(
    vanishing: Federation, method: str, path: str, body: dict[str, Any]
) -> None:
    assert answered(vanishing.ask(method, path, ADMIN, **body)) == NOT_FOUND


def test_to_a_device_that_wants_to_join_it_is_gone_before_its_request(fans: Federation) -> None:
    assert fans.ask("DELETE", "", ADMIN).status_code == 204
    joining = fans.ask("POST", "/devices", fans.token, json={"name": "fan-9"})
    assert answered(joining) == NO_TOKEN


def test_to_a_device_that_wants_to_join_it_goes_during_its_request(vanishing: Federation) -> None:
    joining = vanishing.ask("POST", "/devices", vanishing.token, json={"name": "fan-9"})
    assert answered(joining) == NO_TOKEN


# While a contribution is under way


def put_slowly(fans: Federation, name: str, blob: bytes, between: Callable[[], None]) -> Any:
    """Does something after the beginning of the body was sent and before the rest is."""

    def body() -> Any:
        yield blob[:100]
        between()
        yield blob[100:]

    with fans.client(name) as slow:
        return slow.put(f"{fans.path}/contributions/{address_of(name)}", content=body())


@pytest.fixture
def let_in(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set once the server has begun to read a contribution: its caller was let in by then."""
    event, body_of = threading.Event(), contributions.body_of

    async def reading(request: Request, limit: int) -> bytes:
        event.set()
        return await body_of(request, limit)

    monkeypatch.setattr(contributions, "body_of", reading)
    return event


def test_a_federation_that_goes_while_a_contribution_comes(
    fans: Federation, let_in: threading.Event
) -> None:
    def delete() -> None:
        assert let_in.wait(60)
        assert fans.ask("DELETE", "", ADMIN).status_code == 204

    assert answered(put_slowly(fans, ME, BLOB, delete)) == UNAUTHORIZED


def test_a_federation_that_is_made_again_while_a_contribution_comes(
    server: Server, fans: Federation, let_in: threading.Event
) -> None:
    """The new one has nothing of the old one's devices, and nobody left it."""

    def make_again() -> None:
        assert let_in.wait(60)
        assert fans.ask("DELETE", "", ADMIN).status_code == 204
        server.found(fans.charter)

    assert answered(put_slowly(fans, ME, BLOB, make_again)) == UNAUTHORIZED
    assert fans.entries() == {}


CHANGING = [asked for asked in (*BY_KEY, *BY_ADMIN) if asked[0] != "GET"]


@pytest.mark.parametrize(("method", "path", "body"), CHANGING, ids=as_text)
def test_what_is_asked_of_a_federation_is_not_done_to_the_next_of_its_name(
    server: Server,
    fans: Federation,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: dict[str, Any],
) -> None:
    later: list[Any] = []

    async def caller_of(request: Request, *admitted: auth.Role) -> auth.Caller:
        caller = await auth.caller_of(request, *admitted)
        store, row = caller.service.store, caller.federation
        await store.federations.delete(row.name)
        later.append(replace(row, created=row.created + 1.0))
        await store.federations.create(later[0])
        await store.federations.enrol(
            row.name, DeviceRow(ME, "another key", False, 1.0), again=False
        )
        await store.contributions.put(row.name, ME, 7, 2.5, BLOB, 1.0, successor=lambda held: True)
        return caller

    monkeypatch.setattr(contributions, "caller_of", caller_of)
    monkeypatch.setattr(federations, "caller_of", caller_of)
    by_key = (method, path, body) in BY_KEY
    secret = fans.keys[ME] if by_key else ADMIN
    assert answered(fans.ask(method, path, secret, **body)) == (
        UNAUTHORIZED if by_key else NOT_FOUND
    )
    monkeypatch.undo()
    assert [name for name, entry in fans.entries().items() if not entry["left"]] == [ME]
    assert fans.ask("GET", "", fans.token).status_code == 200, "nor has it another token"
    devices = fans.ask("GET", "/devices", ADMIN).json()["devices"]
    assert [(one["name"], one["revoked"]) for one in devices] == [(ME, False)]


def test_a_key_that_is_revoked_while_a_contribution_comes(
    fans: Federation, let_in: threading.Event
) -> None:
    """What arrives after its key was revoked is not stored."""
    fans.put(seeded_contribution("fan-2", 2))
    let_in.clear()

    def revoke() -> None:
        assert let_in.wait(60)
        assert fans.ask("DELETE", "/devices/fan-2", ADMIN).status_code == 204

    # At the epoch at which it was taken out: its being outdated is not what it is told.
    refused = put_slowly(fans, "fan-2", seeded_contribution("fan-2", 2, 21).to_bytes(), revoke)
    assert answered(refused) == (403, "the key of 'fan-2' was revoked")
    assert fans.entries()["fan-2"]["left"]
    assert fans.merged("fan-1").devices == 0


def test_a_federation_that_goes_while_a_bundle_is_sent(
    fans: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer has begun, so it ends with what was sent."""
    for seed, name in enumerate(fans.keys):
        fans.put(seeded_contribution(name, seed))
    blob = Contributions.blob

    async def blob_and_delete(stored: Contributions, federation: str, origin: str) -> Any:
        found = await blob(stored, federation, origin)
        await Federations(stored._database).delete(federation)
        return found

    monkeypatch.setattr(Contributions, "blob", blob_and_delete)
    answer = fans.ask("GET", "/contributions", ADMIN)
    assert answer.status_code == 200
    origins = [Contribution.from_bytes(blob).origin for blob in unbundle(answer.content)]
    assert origins == [min(fans.keys)]
