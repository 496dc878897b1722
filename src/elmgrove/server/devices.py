"""Devices over HTTP: let in with a token, known by a key of their own, shut out by revoking it."""

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.federation import address_of
from elmgrove.server import secrets
from elmgrove.server.callers import caller_of, joiner_of
from elmgrove.server.contributions import depart
from elmgrove.server.federations import json_of
from elmgrove.server.problems import Problem
from elmgrove.server.records import Device


async def enrol(request: Request) -> Response:
    """Gives a device its key, once. The administrator may give a device a new one."""
    caller, is_admin = await joiner_of(request)
    name = (await json_of(request)).get("name")
    if not isinstance(name, str):
        raise Problem("malformed", "name: the device's name is missing")
    address_of(name)
    if not caller.charter.admits(name):
        raise Problem("forbidden", f"{name!r} is not among those who may join")
    key = secrets.make("key")
    device = Device(name, secrets.hashed(key), False, time.time())
    if not await caller.service.store.enrol(caller.charter.name, device, again=is_admin):
        raise Problem("taken", f"{name!r} has joined already; only the administrator can renew it")
    return JSONResponse({"name": name, "key": key}, 201)


async def index(request: Request) -> Response:
    """All devices that joined, and whether their keys are valid."""
    caller = await caller_of(request)
    devices = await caller.service.store.devices(caller.charter.name)
    known = [{"name": d.name, "revoked": d.revoked, "enrolled": d.enrolled} for d in devices]
    return JSONResponse({"devices": known})


async def revoke(request: Request) -> Response:
    """Makes a device's key worthless and takes its part out of the sum."""
    caller = await caller_of(request)
    caller.require_admin()
    name = request.path_params["device"]
    if not await caller.service.store.revoke(caller.charter.name, name):
        raise Problem("not-found", f"{name!r} has not joined")
    await depart(caller, name, None)
    return Response(status_code=204)
