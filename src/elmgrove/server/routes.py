"""The routes: one table, from which the application and the OpenAPI document follow."""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove import __version__
from elmgrove.server import contributions, federations, metrics, reports
from elmgrove.server.auth import number_in, require_admin, service_of, text_in
from elmgrove.server.problems import SCHEMA
from elmgrove.server.store.audit import SERVER_LOG


async def health(request: Request) -> Response:
    """Return whether the server runs."""
    return JSONResponse({"status": "ok", "version": __version__})


async def ready(request: Request) -> Response:
    """Return whether the server reaches its data base and can write to it."""
    store = service_of(request).store
    await store.ready()
    await request.app.state.metrics.writes.require_working(store)
    return JSONResponse({"status": "ready", "version": __version__})


async def show_audit(request: Request) -> Response:
    """Return a page of the audit: of a federation, there or deleted, or the server's own."""
    store, _ = await require_admin(request)
    limit, after = number_in(request, "limit"), number_in(request, "after")
    records = await store.audit.records(
        text_in(request, "federation") or SERVER_LOG,
        100 if limit is None else min(int(limit), 1000),
        after=None if after is None else int(after),
        since=number_in(request, "since") or 0.0,
        device=text_in(request, "device"),
    )
    return JSONResponse({"records": [record.fields for record in records]})


ADMIN, JOIN, KEY = "admin token", "join token", "device key"
JSON, BLOB = "application/json", contributions.BLOB
_FEDERATION = "/v1/federations/{federation}"
_DEVICE = f"{_FEDERATION}/devices/{{device:path}}"
_CONTRIBUTION = f"{_FEDERATION}/contributions/{{device:path}}"
_REPORT = f"{_FEDERATION}/reports/{{device:path}}"
_ADMINISTRATOR = "/v1/administrators/{administrator}"

Handler = Callable[[Request], Awaitable[Response]]


class ApiRoute(NamedTuple):
    """A route; the handler's docstring describes it."""

    method: str
    path: str
    handler: Handler
    secrets: tuple[str, ...]
    success: int = 200
    content: str | None = JSON
    query: tuple[str, ...] = ()
    body: str | None = None


ROUTES = (
    ApiRoute("GET", "/health", health, ()),
    ApiRoute("GET", "/ready", ready, ()),
    ApiRoute("GET", "/metrics", metrics.show, (ADMIN,), 200, metrics.TEXT),
    ApiRoute("POST", "/v1/federations", federations.create_federation, (ADMIN,), 201, body=JSON),
    ApiRoute("GET", "/v1/federations", federations.list_federations, (ADMIN,)),
    ApiRoute("GET", _FEDERATION, federations.show_federation, (ADMIN, JOIN, KEY)),
    ApiRoute("DELETE", _FEDERATION, federations.delete_federation, (ADMIN,), 204, None),
    ApiRoute("POST", f"{_FEDERATION}/token", federations.renew_token, (ADMIN,)),
    ApiRoute(
        "POST", f"{_FEDERATION}/devices", federations.enrol_device, (ADMIN, JOIN), 201, body=JSON
    ),
    ApiRoute("GET", f"{_FEDERATION}/devices", federations.list_devices, (ADMIN, KEY)),
    ApiRoute("DELETE", _DEVICE, federations.revoke_device, (ADMIN,), 204, None),
    ApiRoute("POST", f"{_DEVICE}/key", federations.rotate_key, (KEY,)),
    ApiRoute("GET", f"{_FEDERATION}/entries", contributions.index, (ADMIN, KEY)),
    ApiRoute(
        "DELETE",
        f"{_FEDERATION}/entries/{{device:path}}",
        federations.clear_entry,
        (ADMIN,),
        204,
        None,
    ),
    ApiRoute("GET", f"{_FEDERATION}/contributions", contributions.some, (ADMIN,), 200, BLOB),
    ApiRoute("GET", _CONTRIBUTION, contributions.get, (ADMIN, KEY), 200, BLOB),
    ApiRoute("PUT", _CONTRIBUTION, contributions.put, (KEY,), body=BLOB),
    ApiRoute(
        "DELETE", _CONTRIBUTION, contributions.leave, (ADMIN, KEY), 204, None, query=("epoch",)
    ),
    ApiRoute(
        "GET",
        f"{_FEDERATION}/merged",
        contributions.merged,
        (ADMIN, KEY),
        200,
        BLOB,
        query=("without", "merge", "patterns"),
    ),
    ApiRoute(
        "GET",
        f"{_FEDERATION}/others",
        contributions.others,
        (ADMIN, KEY),
        200,
        BLOB,
        query=("without", "merge"),
    ),
    ApiRoute("PUT", _REPORT, reports.put_report, (KEY,), body=JSON),
    ApiRoute(
        "GET",
        f"{_FEDERATION}/reports",
        reports.index,
        (ADMIN,),
        query=("search", "state", "sort", "limit", "offset"),
    ),
    ApiRoute("GET", _REPORT, reports.show, (ADMIN,), query=("from", "to")),
    ApiRoute(
        "POST",
        f"{_FEDERATION}/commands/{{device:path}}",
        reports.ask_command,
        (ADMIN,),
        201,
        body=JSON,
    ),
    ApiRoute("GET", "/v1/administrators", federations.list_administrators, (ADMIN,)),
    ApiRoute("POST", "/v1/administrators", federations.add_administrator, (ADMIN,), 201, body=JSON),
    ApiRoute("DELETE", _ADMINISTRATOR, federations.remove_administrator, (ADMIN,), 204, None),
    ApiRoute(
        "PUT",
        f"{_ADMINISTRATOR}/password",
        federations.set_password,
        (ADMIN,),
        204,
        None,
        body=JSON,
    ),
    ApiRoute(
        "DELETE", f"{_ADMINISTRATOR}/password", federations.remove_password, (ADMIN,), 204, None
    ),
    ApiRoute(
        "GET",
        "/v1/audit",
        show_audit,
        (ADMIN,),
        query=("federation", "after", "since", "device", "limit"),
    ),
)


def openapi_document() -> dict[str, Any]:
    """Describe all routes as OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        path = route.path.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Elmgrove exchange",
            "version": __version__,
            "description": "Devices put what they learned, and get what the others learned.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": SCHEMA},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: ApiRoute) -> dict[str, Any]:
    doc = inspect.getdoc(route.handler) or ""
    module = route.handler.__module__.rpartition(".")[2]
    operation: dict[str, Any] = {
        "operationId": f"{module}_{route.handler.__name__}",
        "summary": doc.splitlines()[0],
        "parameters": _parameters(route),
        "responses": {
            str(route.success): {"description": "Done"} | _content(route.content),
            "default": {
                "description": "Refused; nothing was changed",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            },
        },
    }
    if route.secrets:
        operation["description"] = f"Needs: {' or '.join(route.secrets)}."
        operation["security"] = [{"bearer": []}]
    if route.body is not None:
        operation["requestBody"] = {"required": True} | _content(route.body)
    return operation


def _parameters(route: ApiRoute) -> list[dict[str, Any]]:
    text = {"schema": {"type": "string"}}
    places = [
        {"name": name, "in": "path", "required": True, **text}
        for name in re.findall(r"\{(\w+)", route.path)
    ]
    return places + [{"name": name, "in": "query", **text} for name in route.query]


def _content(media: str | None) -> dict[str, Any]:
    if media is None:
        return {}
    kind = "object" if media == "application/json" else "string"
    return {"content": {media: {"schema": {"type": kind}}}}
