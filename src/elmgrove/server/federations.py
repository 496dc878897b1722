"""Federations over HTTP: made, shown and deleted by the administrator."""

import json
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.federation import Charter
from elmgrove.server import secrets
from elmgrove.server.callers import Caller, caller_of, joiner_of, require_admin
from elmgrove.server.problems import Problem
from elmgrove.server.records import Federation
from elmgrove.server.service import body_of

#: Longest JSON document that is read: names and scaling of some 50,000 features.
MAX_JSON = 4 * 2**20


async def create(request: Request) -> Response:
    """Makes a federation; the answer holds the token with which devices join, once."""
    service = require_admin(request)
    charter = Charter.from_fields(await json_of(request))
    if content_limit(charter) > service.max_body:
        raise Problem(
            "too-large",
            f"contributions of this many units and inputs are longer than the {service.max_body} "
            "bytes that this server takes; see serve --max-body",
        )
    token = secrets.make("join")
    made = Federation(
        charter.name,
        charter.basis.fields,
        float(charter.ridge),
        charter.members,
        secrets.hashed(token),
        time.time(),
    )
    if not await service.store.create_federation(made):
        raise Problem("taken", f"there is a federation {charter.name!r} already")
    return JSONResponse({**charter.fields, "token": token}, 201)


async def index(request: Request) -> Response:
    """The names of all federations."""
    service = require_admin(request)
    names = [federation.name for federation in await service.store.federations()]
    return JSONResponse({"federations": names})


async def show(request: Request) -> Response:
    """A federation's charter: all that a device needs to know in order to take part."""
    caller = await _anybody(request)
    return JSONResponse(caller.charter.fields)


async def delete(request: Request) -> Response:
    """Deletes a federation with all that belongs to it."""
    caller = await caller_of(request)
    caller.require_admin()
    await caller.service.store.delete_federation(caller.charter.name)
    return Response(status_code=204)


async def renew_token(request: Request) -> Response:
    """Gives a new join token; the old one is worth nothing from then on. Keys stay valid."""
    caller = await caller_of(request)
    caller.require_admin()
    token = secrets.make("join")
    await caller.service.store.set_token(caller.charter.name, secrets.hashed(token))
    return JSONResponse({"token": token})


async def _anybody(request: Request) -> Caller:
    try:
        return (await joiner_of(request))[0]
    except Problem:
        return await caller_of(request)


async def json_of(request: Request) -> dict[str, Any]:
    """The object in the request's body."""
    try:
        found = json.loads(await body_of(request, MAX_JSON))
    except (ValueError, RecursionError) as error:
        raise Problem("malformed", f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem("malformed", "the body must be a JSON object")
    return found


def content_limit(charter: Charter, patterns: int = 1) -> int:
    """The longest that an honest contribution can be: its numbers, its basis, and some air."""
    units, outputs = charter.basis.layer.units, charter.basis.outputs
    numbers = 8 * (units * (units + 1) // 2 + units * outputs)
    # The basis is JSON inside JSON: quotation marks and what is not ASCII take more room there.
    basis = 2 * len(json.dumps(json.dumps(charter.basis.fields)))
    return patterns * (numbers + 512) + basis + 8192
