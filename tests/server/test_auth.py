"""Which caller may do what: every route with every secret, so that no new route is forgotten."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

import httpx
import pytest

from elmgrove.rounds import Agenda, AverageRule, Opening, SumRule
from elmgrove.server import FederationRow, Store, auth
from elmgrove.server.auth import Caller, Role
from elmgrove.server.limits import Limits
from elmgrove.server.problems import Problem
from elmgrove.server.routes import ADMIN as BY_ADMIN
from elmgrove.server.routes import JOIN as BY_TOKEN
from elmgrove.server.routes import KEY as BY_KEY
from elmgrove.server.routes import OFFERS, Offer
from elmgrove.server.service import Service
from support.held_rounds import BASIS, found_rounds, rows_of
from support.serving import ADMIN, Federation, Server, charter, contents, said, wait_until
from support.summaries import summary

_numbers = count(1)
#: What is asked of a federation in rounds, and what only after its last one.
ROUNDS = [offer.name for offer in OFFERS if "{federation}/rounds" in offer.path]
AFTER_ALL = ("rounds_gift", "rounds_model")


@dataclass
class World:
    """Two federations; in the first one are "me", "you", and "gone" whose key was revoked.

    And administrators: one that looks, one that manages, one whose token expired, one removed.
    """

    mine: Federation
    other: Federation
    administrators: dict[str, str]
    to_go: str = "nobody"

    @property
    def secrets(self) -> dict[str, str | None]:
        return {
            "none": None,
            "garbage": "garbage",
            "blank": "\u00a0",
            "hash of the key": auth.hashed(self.mine.keys["me"]),
            "hash of the admin's": auth.hashed(ADMIN),
            "token elsewhere": self.other.token,
            "key elsewhere": self.other.keys["me"],
            "revoked key": self.mine.keys["gone"],
            "another's key": self.mine.keys["you"],
            "key": self.mine.keys["me"],
            "token": self.mine.token,
            "admin": ADMIN,
            **self.administrators,
        }


@pytest.fixture(name="administrators", scope="module")
def administrators_fixture(server: Server) -> dict[str, str]:
    tokens = {role: server.administrator(f"by-{role}", role) for role in ("look", "manage")}
    tokens["expired"] = server.administrator("expired", "manage", days=1e-9)
    tokens["removed"] = server.administrator("removed", "manage")
    gone = server.ask("DELETE", "/v1/administrators/removed", ADMIN)
    assert gone.status_code == 204
    return tokens


def make_world(server: Server, administrators: dict[str, str], offer: Offer | None = None) -> World:
    in_rounds = offer is not None and offer.name in ROUNDS
    mine = in_round_one(server) if in_rounds else server.found(charter())
    other = server.found(charter())
    mine.enrol("me", "you", "gone")
    other.enrol("me")
    if offer is not None and in_rounds:
        wait_until(lambda: shown(mine)["number"] == 1)
        for name in ("me", "you", "gone") if offer.name in AFTER_ALL else ():
            reply = mine.ask("PUT", f"/rounds/1/replies/{name}", mine.keys[name], content=b"")
            assert reply.status_code == 200, reply.text
        wait_until(lambda: shown(mine)["number"] == 1 + (offer.name in AFTER_ALL))
    else:
        assert mine.put(said("me", 1)).status_code == 200
        told = summary("me").fields
        answer = mine.ask("PUT", "/summaries/me", mine.keys["me"], json=told)
        assert answer.status_code == 200, answer.text
    assert other.put(said("me", 7)).status_code == 200
    assert mine.ask("DELETE", "/devices/gone", ADMIN).status_code == 204
    to_go = f"to-go-{next(_numbers)}"
    server.administrator(to_go, "look")
    return World(mine, other, administrators, to_go)


WorldFor = Callable[[Offer | None], World]


@pytest.fixture(name="world_for", scope="module")
def world_for_fixture(server: Server, administrators: dict[str, str]) -> WorldFor:
    """A world for what changes nothing: one for all, but for rounds, which go on by themselves."""
    shared = make_world(server, administrators)

    def world_for(offer: Offer | None) -> World:
        in_rounds = offer is not None and offer.name in ROUNDS
        return make_world(server, administrators, offer) if in_rounds else shared

    return world_for


def in_round_one(server: Server) -> Federation:
    """A federation in rounds, which begins when three have joined."""
    made, rule = charter(), AverageRule("any", BASIS, rows_of(1), rows_of(1))
    found = found_rounds(server, Agenda(made.name, "fedavg", 3), rule)
    return Federation(server, made, found.token)


def shown(federation: Federation) -> dict[str, Any]:
    found: dict[str, Any] = federation.ask("GET", "/rounds", ADMIN).json()
    return found


def allowed(offer: Offer) -> set[str]:
    """Whose secrets must do, for what concerns the device "me"."""
    found = {name for name, by in (("admin", BY_ADMIN), ("token", BY_TOKEN)) if by in offer.secrets}
    if BY_ADMIN in offer.secrets:
        found |= {"manage"} | ({"look"} if offer.method == "GET" else set())
    if BY_KEY in offer.secrets:
        found.add("key")
        # All read what the devices of their federation published; nobody writes for another.
        if offer.method == "GET" or "{device" not in offer.path:
            found.add("another's key")
    # But where a key reads sums alone, of single contributions nobody's but its own.
    alone = {
        "contributions_get": {"another's key"},
        "contributions_some": {"key", "another's key"},
        "rounds_gift": {"another's key"},
    }
    return found - alone.get(offer.name, set())


def named(offer: Offer) -> str:
    return f"{offer.method} {offer.path}"


BODIES = {
    "POST /v1/administrators": lambda: {"json": {"name": f"n-{next(_numbers)}", "role": "look"}},
    "DELETE /v1/audit": lambda: {"params": {"days": "9"}},
    "POST /v1/federations": lambda: {"json": charter().fields},
    "POST /v1/rounds": lambda: {"content": opening()},
    "POST /v1/federations/{federation}/devices": lambda: {"json": {"name": "new"}},
    "PUT /v1/federations/{federation}/contributions/{device:path}": lambda: {
        "content": said("me", 1, 30).to_bytes()
    },
    "PUT /v1/federations/{federation}/summaries/{device:path}": lambda: {
        "json": summary("me").fields
    },
    "POST /v1/federations/{federation}/errands/{device:path}": lambda: {
        "json": {"action": "accept"}
    },
    "PUT /v1/administrators/{administrator}/password": lambda: {
        "json": {"password": "correct horse battery"}
    },
}


def opening() -> bytes:
    """What makes a federation in rounds, of a new name."""
    agenda = Agenda(charter().name, "e2lm", 3)
    return Opening.of(agenda, SumRule(agenda.name, BASIS)).to_bytes()


def asked(world: World, offer: Offer, secret: str | None) -> httpx.Response:
    """A request about the device "me", that would succeed with a right secret."""
    path = offer.path.replace("{federation}", world.mine.charter.name).replace("{number}", "1")
    path = path.replace("{device:path}", "me").replace("{administrator}", world.to_go)
    assert "{" not in path, "a place that this test can't fill"
    body = BODIES.get(named(offer), dict)()
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}".encode("latin-1")}
    return world.mine.server.ask(offer.method, path, headers=headers, **body)


OPEN = [offer for offer in OFFERS if not offer.secrets]
GUARDED = [offer for offer in OFFERS if offer.secrets]
INSIDE = [offer for offer in OFFERS if "{federation}" in offer.path]


def test_only_two_things_are_open_to_all(server: Server) -> None:
    assert [offer.path for offer in OPEN] == ["/health", "/ready"]
    assert server.ask("GET", "/openapi.json").status_code == 200


@pytest.mark.parametrize("offer", GUARDED, ids=named)
def test_a_wrong_secret_gets_nothing_and_changes_nothing(
    server: Server, world_for: WorldFor, offer: Offer
) -> None:
    world = world_for(offer)
    before = contents(server.store)
    for name, secret in world.secrets.items():
        if name in allowed(offer):
            continue
        answer = asked(world, offer, secret)
        assert answer.status_code in (401, 403), (name, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(answer.json()) == {"type", "title", "status", "detail", "instance"}
    assert contents(server.store) == before


@pytest.mark.parametrize("offer", GUARDED, ids=named)
def test_a_right_secret_does(
    server: Server, administrators: dict[str, str], world_for: WorldFor, offer: Offer
) -> None:
    for name in sorted(allowed(offer)):
        # What was done can't be done again.
        reads = offer.method == "GET"
        world = world_for(offer) if reads else make_world(server, administrators, offer)
        answer = asked(world, offer, world.secrets[name])
        assert answer.status_code == offer.success, (name, answer.text)
        assert answer.headers.get("content-type") == offer.content


@pytest.mark.parametrize("offer", INSIDE, ids=named)
def test_to_strangers_a_federation_that_is_not_there_looks_like_any_other(
    server: Server, world_for: WorldFor, offer: Offer
) -> None:
    world = world_for(None)
    nowhere = replace(world, mine=Federation(server, charter("nowhere"), ""))
    for name in ("none", "garbage", "key elsewhere", "token elsewhere"):
        secret = world.secrets[name]
        here, there = asked(world, offer, secret), asked(nowhere, offer, secret)
        assert here.status_code == there.status_code == 401
        assert here.json()["detail"] == there.json()["detail"]
    assert asked(nowhere, offer, ADMIN).status_code == 404


def test_nobody_else_gets_the_sum_without_a_device(world_for: WorldFor) -> None:
    world = world_for(None)
    for name, status in (("key", 200), ("admin", 200), ("another's key", 403), ("token", 401)):
        answer = world.mine.ask("GET", "/merged?without=me", world.secrets[name])
        assert answer.status_code == status


def test_no_device_publishes_in_the_name_of_another(
    server: Server, administrators: dict[str, str]
) -> None:
    world = make_world(server, administrators)
    before = contents(server.store)
    for origin in ("you", "me-too"):
        answer = world.mine.put_blob("me", said(origin, 3, 50).to_bytes())
        assert (answer.status_code, answer.json()["title"]) == (
            403,
            "This token or key may not do that",
        )
    assert contents(server.store) == before


def test_federations_do_not_see_each_other(server: Server, administrators: dict[str, str]) -> None:
    """Two devices of one name, each in a federation of its own, are two devices."""
    world = make_world(server, administrators)
    here = world.mine.ask("GET", "/contributions/me", world.mine.keys["me"]).content
    there = world.other.ask("GET", "/contributions/me", world.other.keys["me"]).content
    assert here == said("me", 1).to_bytes()
    assert there == said("me", 7).to_bytes()
    assert world.other.ask("DELETE", "", ADMIN).status_code == 204
    assert world.mine.ask("GET", "/contributions/me", world.mine.keys["me"]).content == here


# What each role may do


def caller(role: Role, device: str | None = None) -> Caller:
    made = charter()
    row = FederationRow(made.name, made.basis.fields, made.ridge, None, "", 0.0)
    return Caller(Service(cast(Store, None), "", 0, Limits()), row, role, device)


CALLERS = {
    "manager": caller(Role.MANAGE),
    "looker": caller(Role.LOOK),
    "me": caller(Role.DEVICE, "me"),
    "you": caller(Role.DEVICE, "you"),
    "joiner": caller(Role.JOINER),
    "joiner with a name": caller(Role.JOINER, "me"),
}
REQUIRED: dict[str, tuple[Callable[[Caller], None], set[str]]] = {
    "require_device": (lambda caller: caller.require_device("me"), {"me"}),
    "require_own": (lambda caller: caller.require_own("me"), {"me", "manager", "looker"}),
    "require_admin": (Caller.require_admin, {"manager", "looker"}),
}


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("required", REQUIRED)
def test_each_role_may_do_what_is_its_own(required: str, name: str) -> None:
    """In particular, a caller that may join is no administrator and no device yet."""
    require, admitted = REQUIRED[required]
    if name in admitted:
        require(CALLERS[name])
        return
    with pytest.raises(Problem) as refused:
        require(CALLERS[name])
    assert refused.value.kind == "forbidden"
