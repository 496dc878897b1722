"""A federation that is deleted: what a request gets does not depend on when that happened."""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from elmgrove.federation.charter import address_of
from elmgrove.federation.contribution import Contribution, unbundle
from elmgrove.server import auth, contributions, federations, reports
from elmgrove.server.store.contributions import Contributions
from elmgrove.server.store.federations import Federations
from support.reports import report
from support.serving import ADMIN, Federation, Server, contents, enrol, put, seeded_contribution

ME = "fan-1"
BLOB = seeded_contribution(ME, 1).to_bytes()
Asked = tuple[str, str, str, dict[str, Any]]


def asked(who: str, *requests: str, **body: Any) -> list[Asked]:
    return [(who, *request.split(" "), body) for request in requests]


# Everything inside a federation that is asked of the store after the caller was let in.
READ = "devices entries contributions/fan-1 merged merged?merge=group others?merge=quality"
READING = [f"GET /{path}" for path in READ.split()]
CHANGING = [
    *asked("key", "PUT /contributions/fan-1", content=BLOB),
    *asked("key", "PUT /reports/fan-1", json=report(ME).fields),
    *asked("key", "DELETE /contributions/fan-1", "DELETE /contributions/fan-1?epoch=21"),
    *asked("admin", "DELETE /contributions/fan-1", "DELETE /entries/fan-1", "DELETE "),
    *asked("admin", "POST /token", "DELETE /devices/fan-1"),
    *asked("admin", "POST /devices", json={"name": "fan-9"}),
    *asked("admin", "POST /commands/fan-1", json={"action": "accept"}),
    *asked("token", "POST /devices", json={"name": "fan-9"}),
]
ALL = [
    *asked("key", *READING),
    *asked("admin", *READING, "GET /contributions", "GET /reports", "GET /reports/fan-1"),
    *CHANGING,
]
#: What each is told of a federation that is gone.
GONE = {
    "key": (401, auth.KEY_NEEDED),
    "token": (401, auth.TOKEN_NEEDED),
    "admin": (404, "there is no federation of this name"),
}


def answered(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["detail"]


def during(
    monkeypatch: pytest.MonkeyPatch, happens: Callable[[auth.Caller], Awaitable[None]]
) -> None:
    """Lets something happen as soon as the next request's secret was found to be right."""

    async def caller_of(request: Request, *admitted: auth.Role) -> auth.Caller:
        caller = await auth.caller_of(request, *admitted)
        await happens(caller)
        return caller

    for module in (contributions, federations, reports):
        monkeypatch.setattr(module, "caller_of", caller_of)


def secret_of(fans: Federation, who: str) -> str:
    return {"key": fans.keys[ME], "token": fans.token, "admin": ADMIN}[who]


@pytest.mark.parametrize(("who", "method", "path", "body"), ALL)
def test_a_federation_goes_during_a_request(
    fans: Federation,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    method: str,
    path: str,
    body: dict[str, Any],
) -> None:
    assert fans.put(seeded_contribution(ME, 1)).status_code == 200

    async def delete(caller: auth.Caller) -> None:
        await caller.service.store.federations.delete(caller.charter.name)

    during(monkeypatch, delete)
    assert answered(fans.ask(method, path, secret_of(fans, who), **body)) == GONE[who]
    assert fans.charter.name not in str(contents(fans.server.store))


@pytest.mark.parametrize(("who", "method", "path", "body"), CHANGING)
def test_what_is_asked_of_a_federation_is_not_done_to_the_next_of_its_name(
    fans: Federation,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    method: str,
    path: str,
    body: dict[str, Any],
) -> None:
    async def make_again(caller: auth.Caller) -> None:
        store, row = caller.service.store, caller.federation
        await store.federations.delete(row.name)
        await store.federations.create(replace(row, created=row.created + 1.0))
        await enrol(store, ME, federation=row.name)
        await put(store, ME, BLOB, federation=row.name)

    during(monkeypatch, make_again)
    assert answered(fans.ask(method, path, secret_of(fans, who), **body)) == GONE[who]
    monkeypatch.undo()
    assert [name for name, entry in fans.entries().items() if not entry["left"]] == [ME]
    assert fans.ask("GET", "", fans.token).status_code == 200, "nor has it another token"
    devices = fans.ask("GET", "/devices", ADMIN).json()["devices"]
    assert [(one["name"], one["revoked"]) for one in devices] == [(ME, False)]


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


def test_a_federation_that_is_made_again_while_a_contribution_comes(
    server: Server, fans: Federation, let_in: threading.Event
) -> None:
    """The new one has nothing of the old one's devices, and nobody left it."""

    def make_again() -> None:
        assert let_in.wait(60)
        assert fans.ask("DELETE", "", ADMIN).status_code == 204
        server.found(fans.charter)

    assert answered(put_slowly(fans, ME, BLOB, make_again)) == GONE["key"]
    assert fans.entries() == {}


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
