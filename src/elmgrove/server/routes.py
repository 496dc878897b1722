"""What the server offers: one table, from which the routes and the OpenAPI document follow."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove import __version__
from elmgrove.server import audit, contributions, metrics, registry, told
from elmgrove.server.service import service_of


async def health(request: Request) -> Response:
    """Says whether the server runs."""
    return JSONResponse({"status": "ok", "version": __version__})


async def ready(request: Request) -> Response:
    """Says whether the server reaches its data base, and can write to it as far as it knows."""
    store = service_of(request).store
    await store.ready()
    await request.app.state.metrics.writes.require_working(store)
    return JSONResponse({"status": "ready", "version": __version__})


FEDERATION = "/v1/federations/{federation}"
DEVICE = f"{FEDERATION}/devices/{{device:path}}"
ADMINISTRATORS = "/v1/administrators"
CONTRIBUTION = f"{FEDERATION}/contributions/{{device:path}}"
ENTRY = f"{FEDERATION}/entries/{{device:path}}"
SUMMARY = f"{FEDERATION}/summaries/{{device:path}}"
ERRAND = f"{FEDERATION}/errands/{{device:path}}"
PASSWORD = f"{ADMINISTRATORS}/{{administrator}}/password"


ADMIN, JOIN, KEY = "admin token", "join token", "device key"

Handler = Callable[[Request], Awaitable[Response]]


class Offer(NamedTuple):
    """One thing that can be asked for; the handler's docstring says what it does."""

    name: str
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
    Offer("status_health", "GET", "/health", health, (), 200, JSON),
    Offer("status_ready", "GET", "/ready", ready, (), 200, JSON),
    Offer("status_metrics", "GET", "/metrics", metrics.show, (ADMIN,), 200, metrics.TEXT),
    Offer(
        "federations_create",
        "POST",
        "/v1/federations",
        registry.create_federation,
        (ADMIN,),
        201,
        JSON,
        body=JSON,
    ),
    Offer(
        "federations_index",
        "GET",
        "/v1/federations",
        registry.list_federations,
        (ADMIN,),
        200,
        JSON,
    ),
    Offer(
        "federations_show",
        "GET",
        FEDERATION,
        registry.show_federation,
        (ADMIN, JOIN, KEY),
        200,
        JSON,
    ),
    Offer(
        "federations_delete", "DELETE", FEDERATION, registry.delete_federation, (ADMIN,), 204, PLAIN
    ),
    Offer(
        "federations_renew_token",
        "POST",
        f"{FEDERATION}/token",
        registry.renew_token,
        (ADMIN,),
        200,
        JSON,
    ),
    Offer(
        "devices_enrol",
        "POST",
        f"{FEDERATION}/devices",
        registry.enrol_device,
        (ADMIN, JOIN),
        201,
        JSON,
        body=JSON,
    ),
    Offer(
        "devices_index",
        "GET",
        f"{FEDERATION}/devices",
        registry.list_devices,
        (ADMIN, KEY),
        200,
        JSON,
    ),
    Offer("devices_revoke", "DELETE", DEVICE, registry.revoke_device, (ADMIN,), 204, PLAIN),
    Offer("devices_rotate_key", "POST", f"{DEVICE}/key", registry.rotate_key, (KEY,), 200, JSON),
    Offer(
        "contributions_index",
        "GET",
        f"{FEDERATION}/entries",
        contributions.index,
        (ADMIN, KEY),
        200,
        JSON,
    ),
    Offer("entries_clear", "DELETE", ENTRY, registry.clear_entry, (ADMIN,), 204, PLAIN),
    Offer(
        "contributions_some",
        "GET",
        f"{FEDERATION}/contributions",
        contributions.some,
        (ADMIN, KEY),
        200,
        BLOB,
        query=("origin",),
    ),
    Offer("contributions_get", "GET", CONTRIBUTION, contributions.get, (ADMIN, KEY), 200, BLOB),
    Offer(
        "contributions_put", "PUT", CONTRIBUTION, contributions.put, (KEY,), 200, JSON, body=BLOB
    ),
    Offer(
        "contributions_leave",
        "DELETE",
        CONTRIBUTION,
        contributions.leave,
        (ADMIN, KEY),
        204,
        PLAIN,
        query=("epoch",),
    ),
    Offer(
        "contributions_merged",
        "GET",
        f"{FEDERATION}/merged",
        contributions.merged,
        (ADMIN, KEY),
        200,
        BLOB,
        query=("without", "grouped"),
    ),
    Offer(
        "contributions_others",
        "GET",
        f"{FEDERATION}/others",
        contributions.others,
        (ADMIN, KEY),
        200,
        BLOB,
        query=("without",),
    ),
    Offer(
        "groups_show",
        "GET",
        f"{FEDERATION}/groups",
        contributions.groups,
        (ADMIN, KEY),
        200,
        JSON,
        query=("anew", "groups"),
    ),
    Offer("summaries_put", "PUT", SUMMARY, told.put_summary, (KEY,), 200, JSON, body=JSON),
    Offer(
        "summaries_index",
        "GET",
        f"{FEDERATION}/summaries",
        told.index,
        (ADMIN,),
        200,
        JSON,
        query=("search", "state", "sort", "limit", "offset"),
    ),
    Offer("summaries_show", "GET", SUMMARY, told.show, (ADMIN,), 200, JSON, query=("from", "to")),
    Offer("errands_ask", "POST", ERRAND, told.ask_errand, (ADMIN,), 201, JSON, body=JSON),
    Offer(
        "administrators_index",
        "GET",
        ADMINISTRATORS,
        registry.list_administrators,
        (ADMIN,),
        200,
        JSON,
    ),
    Offer(
        "administrators_add",
        "POST",
        ADMINISTRATORS,
        registry.add_administrator,
        (ADMIN,),
        201,
        JSON,
        body=JSON,
    ),
    Offer(
        "administrators_remove",
        "DELETE",
        f"{ADMINISTRATORS}/{{administrator}}",
        registry.remove_administrator,
        (ADMIN,),
        204,
        PLAIN,
    ),
    Offer(
        "administrators_set_password",
        "PUT",
        PASSWORD,
        registry.set_password,
        (ADMIN,),
        204,
        PLAIN,
        body=JSON,
    ),
    Offer(
        "administrators_remove_password",
        "DELETE",
        PASSWORD,
        registry.remove_password,
        (ADMIN,),
        204,
        PLAIN,
    ),
    Offer(
        "audit_show",
        "GET",
        "/v1/audit",
        audit.show,
        (ADMIN,),
        200,
        JSON,
        query=("federation", "after", "since", "device", "limit"),
    ),
    Offer(
        "audit_prune",
        "DELETE",
        "/v1/audit",
        audit.prune,
        (ADMIN,),
        200,
        JSON,
        query=("federation", "days"),
    ),
)
