"""Which caller may do what: every route with every secret, so that no new route is forgotten."""

from dataclasses import dataclass, replace
from itertools import count

import httpx
import pytest

from elmgrove.server import contributions
from elmgrove.server.routes import ADMIN as BY_ADMIN
from elmgrove.server.routes import JOIN as BY_TOKEN
from elmgrove.server.routes import KEY as BY_KEY
from elmgrove.server.routes import ROUTES, ApiRoute
from elmgrove.server.secrets import hashed
from support.reports import report
from support.serving import ADMIN, Federation, Server, charter, contents, seeded_contribution

_numbers = count(1)


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
            "hash of the key": hashed(self.mine.keys["me"]),
            "hash of the admin's": hashed(ADMIN),
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


def make_world(server: Server, administrators: dict[str, str]) -> World:
    mine, other = server.found(charter()), server.found(charter())
    mine.enrol("me", "you", "gone")
    other.enrol("me")
    assert mine.put(seeded_contribution("me", 1)).status_code == 200
    told = report("me").fields
    answer = mine.ask("PUT", "/reports/me", mine.keys["me"], json=told)
    assert answer.status_code == 200, answer.text
    assert other.put(seeded_contribution("me", 7)).status_code == 200
    assert mine.ask("DELETE", "/devices/gone", ADMIN).status_code == 204
    to_go = f"to-go-{next(_numbers)}"
    server.administrator(to_go, "look")
    return World(mine, other, administrators, to_go)


@pytest.fixture(name="world", scope="module")
def world_fixture(server: Server, administrators: dict[str, str]) -> World:
    """A world for what changes nothing."""
    return make_world(server, administrators)


def allowed(route: ApiRoute) -> set[str]:
    """Whose secrets must do, for what concerns the device "me"."""
    found = {name for name, by in (("admin", BY_ADMIN), ("token", BY_TOKEN)) if by in route.secrets}
    if BY_ADMIN in route.secrets:
        found |= {"manage"} | ({"look"} if route.method == "GET" else set())
    if BY_KEY in route.secrets:
        found.add("key")
        # All read what the devices of their federation published; nobody writes for another.
        if route.method == "GET" or "{device" not in route.path:
            found.add("another's key")
    # But where a key reads sums alone, of single contributions nobody's but its own.
    alone = {contributions.get: {"another's key"}, contributions.some: {"key", "another's key"}}
    return found - alone.get(route.handler, set())


def named(route: ApiRoute) -> str:
    return f"{route.method} {route.path}"


BODIES = {
    "POST /v1/administrators": lambda: {"json": {"name": f"n-{next(_numbers)}", "role": "look"}},
    "DELETE /v1/audit": lambda: {"params": {"days": "9"}},
    "POST /v1/federations": lambda: {"json": charter().fields},
    "POST /v1/federations/{federation}/devices": lambda: {"json": {"name": "new"}},
    "PUT /v1/federations/{federation}/contributions/{device:path}": lambda: {
        "content": seeded_contribution("me", 1, 30).to_bytes()
    },
    "PUT /v1/federations/{federation}/reports/{device:path}": lambda: {"json": report("me").fields},
    "POST /v1/federations/{federation}/commands/{device:path}": lambda: {
        "json": {"action": "accept"}
    },
    "PUT /v1/administrators/{administrator}/password": lambda: {
        "json": {"password": "correct horse battery"}
    },
}


def asked(world: World, route: ApiRoute, secret: str | None) -> httpx.Response:
    """A request about the device "me", that would succeed with a right secret."""
    path = route.path.replace("{federation}", world.mine.charter.name)
    path = path.replace("{device:path}", "me").replace("{administrator}", world.to_go)
    assert "{" not in path, "a place that this test can't fill"
    body = BODIES.get(named(route), dict)()
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}".encode("latin-1")}
    return world.mine.server.ask(route.method, path, headers=headers, **body)


OPEN = [route for route in ROUTES if not route.secrets]
GUARDED = [route for route in ROUTES if route.secrets]
INSIDE = [route for route in ROUTES if "{federation}" in route.path]


def test_only_two_things_are_open_to_all(server: Server) -> None:
    assert [route.path for route in OPEN] == ["/health", "/ready"]
    assert server.ask("GET", "/openapi.json").status_code == 200


@pytest.mark.parametrize("route", GUARDED, ids=named)
def test_a_wrong_secret_gets_nothing_and_changes_nothing(
    server: Server, world: World, route: ApiRoute
) -> None:
    before = contents(server.store)
    for name, secret in world.secrets.items():
        if name in allowed(route):
            continue
        answer = asked(world, route, secret)
        assert answer.status_code in (401, 403), (name, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(answer.json()) == {"type", "title", "status", "detail", "instance"}
    assert contents(server.store) == before


@pytest.mark.parametrize("route", GUARDED, ids=named)
def test_a_right_secret_does(
    server: Server, administrators: dict[str, str], world: World, route: ApiRoute
) -> None:
    for name in sorted(allowed(route)):
        # What was done can't be done again.
        reads = route.method == "GET"
        one = world if reads else make_world(server, administrators)
        answer = asked(one, route, one.secrets[name])
        assert answer.status_code == route.success, (name, answer.text)
        assert answer.headers.get("content-type") == route.content


@pytest.mark.parametrize("route", INSIDE, ids=named)
def test_to_strangers_a_federation_that_is_not_there_looks_like_any_other(
    server: Server, world: World, route: ApiRoute
) -> None:
    nowhere = replace(world, mine=Federation(server, charter("nowhere"), ""))
    for name in ("none", "garbage", "key elsewhere", "token elsewhere"):
        secret = world.secrets[name]
        here, there = asked(world, route, secret), asked(nowhere, route, secret)
        assert here.status_code == there.status_code == 401
        assert here.json()["detail"] == there.json()["detail"]
    assert asked(nowhere, route, ADMIN).status_code == 404


def test_federations_do_not_see_each_other(server: Server, administrators: dict[str, str]) -> None:
    """Two devices of one name, each in a federation of its own, are two devices."""
    world = make_world(server, administrators)
    here = world.mine.ask("GET", "/contributions/me", world.mine.keys["me"]).content
    there = world.other.ask("GET", "/contributions/me", world.other.keys["me"]).content
    assert here == seeded_contribution("me", 1).to_bytes()
    assert there == seeded_contribution("me", 7).to_bytes()
    assert world.other.ask("DELETE", "", ADMIN).status_code == 204
    assert world.mine.ask("GET", "/contributions/me", world.mine.keys["me"]).content == here
