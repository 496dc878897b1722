"""What the server offers: one table, from which both the routes and the documentation follow."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.server import contributions, devices, federations, groups, status

FEDERATION = "/v1/federations/{federation}"
DEVICE = f"{FEDERATION}/devices/{{device:path}}"
CONTRIBUTION = f"{FEDERATION}/contributions/{{device:path}}"

ADMIN, JOIN, KEY = "admin token", "join token", "device key"


Handler = Callable[[Request], Awaitable[Response]]


class Offer(NamedTuple):
    """One thing that can be asked for. The handler's docstring says what it does."""

    method: str
    path: str
    handler: Handler
    secrets: tuple[str, ...]
    success: int
    content: str | None
    query: tuple[str, ...] = ()
    body: str | None = None


JSON, BLOB, PLAIN = "application/json", contributions.BLOB, None
OFFERS = (
    Offer("GET", "/health", status.health, (), 200, JSON),
    Offer("GET", "/ready", status.ready, (), 200, JSON),
    Offer("POST", "/v1/federations", federations.create, (ADMIN,), 201, JSON, body=JSON),
    Offer("GET", "/v1/federations", federations.index, (ADMIN,), 200, JSON),
    Offer("GET", FEDERATION, federations.show, (ADMIN, JOIN, KEY), 200, JSON),
    Offer("DELETE", FEDERATION, federations.delete, (ADMIN,), 204, PLAIN),
    Offer("POST", f"{FEDERATION}/token", federations.renew_token, (ADMIN,), 200, JSON),
    Offer("POST", f"{FEDERATION}/devices", devices.enrol, (ADMIN, JOIN), 201, JSON, body=JSON),
    Offer("GET", f"{FEDERATION}/devices", devices.index, (ADMIN, KEY), 200, JSON),
    Offer("DELETE", DEVICE, devices.revoke, (ADMIN,), 204, PLAIN),
    Offer("GET", f"{FEDERATION}/entries", contributions.index, (ADMIN, KEY), 200, JSON),
    Offer(
        "GET",
        f"{FEDERATION}/contributions",
        contributions.some,
        (ADMIN, KEY),
        200,
        BLOB,
        query=("origin",),
    ),
    Offer("GET", CONTRIBUTION, contributions.get, (ADMIN, KEY), 200, BLOB),
    Offer("PUT", CONTRIBUTION, contributions.put, (KEY,), 200, JSON, body=BLOB),
    Offer("DELETE", CONTRIBUTION, contributions.leave, (ADMIN, KEY), 204, PLAIN, query=("epoch",)),
    Offer(
        "GET",
        f"{FEDERATION}/merged",
        contributions.merged,
        (ADMIN, KEY),
        200,
        BLOB,
        query=("without", "grouped"),
    ),
    Offer(
        "GET",
        f"{FEDERATION}/groups",
        groups.show,
        (ADMIN, KEY),
        200,
        JSON,
        query=("distance", "anew", "groups"),
    ),
)
