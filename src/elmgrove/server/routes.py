"""What the server offers: one table, from which the routes and the OpenAPI document follow."""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove import __version__
from elmgrove.server import audit, contributions, federations, metrics, reports
from elmgrove.server.problems import SCHEMA
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
REPORT = f"{FEDERATION}/reports/{{device:path}}"
COMMAND = f"{FEDERATION}/commands/{{device:path}}"
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
        federations.create_federation,
        (ADMIN,),
        201,
        JSON,
        body=JSON,
    ),
    Offer(
        "federations_index",
        "GET",
        "/v1/federations",
        federations.list_federations,
        (ADMIN,),
        200,
        JSON,
    ),
    Offer(
        "federations_show",
        "GET",
        FEDERATION,
        federations.show_federation,
        (ADMIN, JOIN, KEY),
        200,
        JSON,
    ),
    Offer(
        "federations_delete",
        "DELETE",
        FEDERATION,
        federations.delete_federation,
        (ADMIN,),
        204,
        PLAIN,
    ),
    Offer(
        "federations_renew_token",
        "POST",
        f"{FEDERATION}/token",
        federations.renew_token,
        (ADMIN,),
        200,
        JSON,
    ),
    Offer(
        "devices_enrol",
        "POST",
        f"{FEDERATION}/devices",
        federations.enrol_device,
        (ADMIN, JOIN),
        201,
        JSON,
        body=JSON,
    ),
    Offer(
        "devices_index",
        "GET",
        f"{FEDERATION}/devices",
        federations.list_devices,
        (ADMIN, KEY),
        200,
        JSON,
    ),
    Offer("devices_revoke", "DELETE", DEVICE, federations.revoke_device, (ADMIN,), 204, PLAIN),
    Offer("devices_rotate_key", "POST", f"{DEVICE}/key", federations.rotate_key, (KEY,), 200, JSON),
    Offer(
        "contributions_index",
        "GET",
        f"{FEDERATION}/entries",
        contributions.index,
        (ADMIN, KEY),
        200,
        JSON,
    ),
    Offer("entries_clear", "DELETE", ENTRY, federations.clear_entry, (ADMIN,), 204, PLAIN),
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
    Offer("reports_put", "PUT", REPORT, reports.put_report, (KEY,), 200, JSON, body=JSON),
    Offer(
        "reports_index",
        "GET",
        f"{FEDERATION}/reports",
        reports.index,
        (ADMIN,),
        200,
        JSON,
        query=("search", "state", "sort", "limit", "offset"),
    ),
    Offer("reports_show", "GET", REPORT, reports.show, (ADMIN,), 200, JSON, query=("from", "to")),
    Offer("commands_ask", "POST", COMMAND, reports.ask_command, (ADMIN,), 201, JSON, body=JSON),
    Offer(
        "administrators_index",
        "GET",
        ADMINISTRATORS,
        federations.list_administrators,
        (ADMIN,),
        200,
        JSON,
    ),
    Offer(
        "administrators_add",
        "POST",
        ADMINISTRATORS,
        federations.add_administrator,
        (ADMIN,),
        201,
        JSON,
        body=JSON,
    ),
    Offer(
        "administrators_remove",
        "DELETE",
        f"{ADMINISTRATORS}/{{administrator}}",
        federations.remove_administrator,
        (ADMIN,),
        204,
        PLAIN,
    ),
    Offer(
        "administrators_set_password",
        "PUT",
        PASSWORD,
        federations.set_password,
        (ADMIN,),
        204,
        PLAIN,
        body=JSON,
    ),
    Offer(
        "administrators_remove_password",
        "DELETE",
        PASSWORD,
        federations.remove_password,
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


_PLACE = re.compile(r"\{(\w+)(?::\w+)?\}")


def openapi_document() -> dict[str, Any]:
    """Describes all that the server offers, as OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for offer in OFFERS:
        path = _PLACE.sub(r"{\1}", offer.path)
        paths.setdefault(path, {})[offer.method.lower()] = _operation(offer)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Elmgrove exchange",
            "version": __version__,
            "description": "Devices put what they learned and get what the others learned.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": SCHEMA},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(offer: Offer) -> dict[str, Any]:
    doc = inspect.getdoc(offer.handler) or ""
    operation: dict[str, Any] = {
        "operationId": offer.name,
        "summary": doc.splitlines()[0],
        "parameters": _parameters(offer),
        "responses": {
            str(offer.success): {"description": "Done"} | _content(offer.content),
            "default": {
                "description": "Refused; nothing was changed",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            },
        },
    }
    if offer.secrets:
        operation["description"] = f"Needs: {' or '.join(offer.secrets)}."
        operation["security"] = [{"bearer": []}]
    if offer.body is not None:
        operation["requestBody"] = {"required": True} | _content(offer.body)
    return operation


def _parameters(offer: Offer) -> list[dict[str, Any]]:
    text = {"schema": {"type": "string"}}
    places = [
        {"name": name, "in": "path", "required": True, **text}
        for name in _PLACE.findall(offer.path)
    ]
    return places + [{"name": name, "in": "query", **text} for name in offer.query]


def _content(media: str | None) -> dict[str, Any]:
    if media is None:
        return {}
    kind = "object" if media == "application/json" else "string"
    return {"content": {media: {"schema": {"type": kind}}}}
