"""Federations and their devices over HTTP: made, shown, let in, revoked and deleted."""

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.federation import Charter, content_limit, require_address
from elmgrove.server.auth import Role, caller_of, hashed, new_secret, require_admin
from elmgrove.server.contributions import depart
from elmgrove.server.problems import Problem, no_federation
from elmgrove.server.service import json_of
from elmgrove.server.store import DeviceRow, FederationRow


async def create_federation(request: Request) -> Response:
    """Makes a federation; the answer holds the token with which devices join, once."""
    service = require_admin(request)
    charter = Charter.from_fields(await json_of(request))
    if content_limit(charter, patterns=1) > service.max_body:
        raise Problem(
            "too-large",
            f"contributions of this many units and inputs are longer than the {service.max_body} "
            "bytes that this server takes; see serve --max-body",
        )
    token = new_secret("join")
    made = FederationRow(
        charter.name,
        charter.basis.fields,
        float(charter.ridge),
        charter.members,
        hashed(token),
        time.time(),
        charter.alarm,
        charter.terms.fields,
    )
    if not await service.store.create_federation(made):
        raise Problem("taken", f"there is a federation {charter.name!r} already")
    return JSONResponse({**charter.fields, "token": token}, 201)


async def list_federations(request: Request) -> Response:
    """Lists the names of all federations."""
    service = require_admin(request)
    names = [federation.name for federation in await service.store.federations()]
    return JSONResponse({"federations": names})


async def show_federation(request: Request) -> Response:
    """Gives a federation's charter: all that a device needs to know in order to take part."""
    caller = await caller_of(request, Role.JOINER, Role.DEVICE)
    return JSONResponse(caller.charter.fields)


async def delete_federation(request: Request) -> Response:
    """Deletes a federation with all that belongs to it."""
    caller = await caller_of(request)
    caller.require_admin()
    if not await caller.service.store.delete_federation(caller.charter.name):
        raise no_federation()
    return Response(status_code=204)


async def renew_token(request: Request) -> Response:
    """Gives a new join token; the old one is no longer valid. Keys stay valid."""
    caller = await caller_of(request)
    caller.require_admin()
    token = new_secret("join")
    await caller.service.store.set_token(caller.charter.name, hashed(token))
    return JSONResponse({"token": token})


async def enrol_device(request: Request) -> Response:
    """Gives a device its key, once. The administrator may give a device a new one."""
    caller = await caller_of(request, Role.JOINER)
    name = (await json_of(request)).get("name")
    if not isinstance(name, str):
        raise Problem("malformed", "name: the device's name is missing")
    require_address(name)
    if not caller.charter.admits(name):
        raise Problem("forbidden", f"{name!r} is not among the names that may join")
    key = new_secret("key")
    device = DeviceRow(name, hashed(key), False, time.time())
    again = caller.role is Role.ADMIN
    if not await caller.service.store.enrol(caller.charter.name, device, again=again):
        raise Problem(
            "taken", f"{name!r} has joined already; only the administrator can renew its key"
        )
    return JSONResponse({"name": name, "key": key}, 201)


async def list_devices(request: Request) -> Response:
    """Lists all devices that joined, and whether their keys are valid."""
    caller = await caller_of(request)
    devices = await caller.service.store.devices(caller.charter.name)
    known = [{"name": d.name, "revoked": d.revoked, "enrolled": d.enrolled} for d in devices]
    return JSONResponse({"devices": known})


async def revoke_device(request: Request) -> Response:
    """Revokes a device's key and takes its contribution out of the sum."""
    caller = await caller_of(request)
    caller.require_admin()
    name = request.path_params["device"]
    if not await caller.service.store.revoke(caller.charter.name, name):
        raise Problem("not-found", f"{name!r} has not joined")
    await depart(caller, name, None)
    return Response(status_code=204)
