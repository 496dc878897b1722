"""Federations, their devices and administrators over HTTP."""

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.errors import Problem
from elmgrove.federation.aggregation import content_limit
from elmgrove.federation.charter import Charter, is_admitted, require_address, require_name
from elmgrove.federation.policy import DAY, Terms, require_days
from elmgrove.server.auth import (
    ADMINISTRATORS,
    ROOT,
    Caller,
    Role,
    caller_of,
    json_of,
    require_admin,
    service_of,
)
from elmgrove.server.problems import no_federation
from elmgrove.server.secrets import hashed, is_secret, new_secret, require_password
from elmgrove.server.store.admins import AdministratorRow
from elmgrove.server.store.federations import DeviceRow, FederationRow


async def create_federation(request: Request) -> Response:
    """Create a federation; the answer holds the token with which devices join, once."""
    service, (store, actor) = service_of(request), await require_admin(request)
    # Names and scaling of some 50,000 features; nothing is answered while it is read, for a second.
    charter = Charter.from_fields(await json_of(request, 4 * 2**20))
    if content_limit(charter, patterns=1) > service.max_body:
        raise Problem(
            "too-large",
            f"contributions of this many units and inputs are longer than the {service.max_body} "
            "bytes that a server takes",
        )
    token = new_secret("join")
    made = FederationRow(
        charter.name,
        charter.basis.fields,
        float(charter.ridge),
        charter.members,
        hashed(token),
        time.time(),
        charter.merged,
        charter.terms.fields,
    )
    # Before it is stored: what can't be answered is not made.
    answer = JSONResponse({**charter.fields, "token": token}, 201)
    if not await store.federations.create(made, actor=actor):
        raise Problem("taken", f"there is a federation {charter.name!r} already")
    remember_secret(request, token)
    return answer


async def list_federations(request: Request) -> Response:
    """List the names of all federations."""
    store, _ = await require_admin(request)
    names = [federation.name for federation in await store.federations.all()]
    return JSONResponse({"federations": names})


async def show_federation(request: Request) -> Response:
    """Return a federation's charter: all that a device needs to take part."""
    caller = await caller_of(request, Role.JOINER, Role.DEVICE)
    return JSONResponse(caller.charter.fields)


async def delete_federation(request: Request) -> Response:
    """Delete a federation with all that belongs to it but the audit."""
    caller = await caller_of(request)
    caller.require_admin()
    if not await caller.store.federations.delete(caller.federation.name, actor=caller.actor):
        raise no_federation()
    return Response(status_code=204)


async def renew_token(request: Request) -> Response:
    """Replace the join token; the old one is no longer valid. Keys stay valid."""
    caller = await caller_of(request)
    caller.require_admin()
    return JSONResponse({"token": await renewed_token(request, caller)})


async def renewed_token(request: Request, caller: Caller) -> str:
    token = new_secret("join")
    await caller.store.federations.set_token(
        caller.federation.name, hashed(token), actor=caller.actor
    )
    remember_secret(request, token)
    return token


async def enrol_device(request: Request) -> Response:
    """Let a device join with the key that it made, or return one, once.

    An administrator may renew a device's key.
    """
    caller = await caller_of(request, Role.JOINER)
    asked = await json_of(request)
    name, key = asked.get("name"), asked.get("key", new_secret("key"))
    if not isinstance(name, str):
        raise Problem("malformed", "name: the device's name is missing")
    if not is_secret("key", key):
        raise Problem("malformed", "key: not one of 256 bits, as elm-key-... is")
    require_address(name)
    members = caller.federation.members
    if members is not None and not is_admitted(members, name):
        # It is no secret: who may join may read the charter.
        may = f"{', '.join(members):.200}"
        raise Problem("forbidden", f"{name!r} is not among the names that may join: {may}")
    now = time.time()
    device = DeviceRow(name, hashed(key), False, now, _expiry(caller, now))
    enrol, again = caller.store.federations.enrol, caller.role is Role.MANAGE
    if not await enrol(caller.federation.name, device, again=again, actor=caller.actor):
        raise Problem(
            "taken", f"{name!r} has joined already; only an administrator can renew its key"
        )
    remember_secret(request, key)
    caller.service.live_fleet.wake()
    return JSONResponse({"name": name, "key": key, "expires": device.expires}, 201)


async def rotate_key(request: Request) -> Response:
    """Return a new key for a device; the old one ends when the new one is first used."""
    caller = await caller_of(request)
    name = request.path_params["device"]
    caller.require_device(name)
    key, now = new_secret("key"), time.time()
    expires = _expiry(caller, now)
    offer = caller.service.store.federations.offer_key
    if not await offer(caller.federation.name, caller.secret_hash, hashed(key), now, expires):
        raise Problem("forbidden", f"the key of {name!r} has just become invalid")
    remember_secret(request, key)
    return JSONResponse({"name": name, "key": key, "expires": expires})


def remember_secret(request: Request, secret: str) -> None:
    """Pass a new secret on to the limits, which then know its owner."""
    request.state.made = hashed(secret)


def _expiry(caller: Caller, now: float) -> float | None:
    days = Terms.from_fields(caller.federation.terms).key_days
    return None if days is None else now + days * DAY


async def list_devices(request: Request) -> Response:
    """List all devices that joined, and whether their keys are valid."""
    caller = await caller_of(request)
    devices = await caller.service.store.federations.devices(caller.federation.name)
    names = ("name", "revoked", "enrolled", "expires")
    known = [{name: getattr(device, name) for name in names} for device in devices]
    return JSONResponse({"devices": known})


async def revoke_device(request: Request) -> Response:
    """Revoke a device's key, and take its contribution out of the sum."""
    caller = await caller_of(request)
    caller.require_admin()
    name = request.path_params["device"]
    if not await caller.store.federations.revoke(caller.federation.name, name, actor=caller.actor):
        raise Problem("not-found", f"{name!r} has not joined")
    caller.service.wake()
    return Response(status_code=204)


async def clear_entry(request: Request) -> Response:
    """Delete a device's contribution and its epoch, so that its next sync can publish."""
    caller = await caller_of(request)
    caller.require_admin()
    name = request.path_params["device"]
    if not await caller.store.contributions.clear(caller.federation.name, name, actor=caller.actor):
        raise Problem("not-found", f"nothing is held of {name!r}")
    caller.service.wake()
    return Response(status_code=204)


async def list_administrators(request: Request) -> Response:
    """List the administrators that were added, with role and expiry."""
    store, _ = await require_admin(request)
    names = ("name", "role", "created", "expires")
    known = [
        {name: getattr(one, name) for name in names} | {"password": one.password is not None}
        for one in await store.admins.all()
    ]
    return JSONResponse({"administrators": known})


async def add_administrator(request: Request) -> Response:
    """Add an administrator by name and role; the answer holds its token, once."""
    store, actor = await require_admin(request)
    stated = await json_of(request)
    name, role, days = stated.get("name"), stated.get("role"), stated.get("days")
    name = require_name("an administrator's", name)
    roles = [one.value for one in ADMINISTRATORS]
    if role not in roles:
        raise Problem("malformed", f"role: {role!r:.40} is not {' or '.join(roles)}")
    if name == ROOT:
        raise Problem("taken", f"{ROOT!r} is whose token the server was started with")
    token, now = new_secret("admin"), time.time()
    expires = None if days is None else now + require_days("days", days) * DAY
    made = AdministratorRow(name, role, hashed(token), now, expires)
    if not await store.admins.add(made, actor=actor):
        raise Problem("taken", f"there is an administrator {name!r} already: remove it first")
    remember_secret(request, token)
    return JSONResponse({"name": name, "role": role, "expires": expires, "token": token}, 201)


async def remove_administrator(request: Request) -> Response:
    """Remove an administrator, whose token is not valid any more."""
    store, actor = await require_admin(request)
    name = _administrator(request)
    if not await store.admins.remove(name, actor=actor):
        raise _no_administrator(name)
    return Response(status_code=204)


async def set_password(request: Request) -> Response:
    """Set an administrator's password for the dashboard; its sessions end."""
    name = _administrator(request)
    store, actor = await require_admin(request, own=name)
    stated = await json_of(request)
    hashed_one = await service_of(request).passwords.hashed(
        require_password(stated.get("password"))
    )
    if not await store.admins.set_password(name, hashed_one, actor=actor):
        raise _no_administrator(name)
    return Response(status_code=204)


async def remove_password(request: Request) -> Response:
    """Remove an administrator's password: only the token is left. Its sessions end."""
    name = _administrator(request)
    store, actor = await require_admin(request, own=name)
    if not await store.admins.set_password(name, None, actor=actor):
        raise _no_administrator(name)
    return Response(status_code=204)


def _administrator(request: Request) -> str:
    return require_name("an administrator's", request.path_params["administrator"])


def _no_administrator(name: str) -> Problem:
    more = f": {ROOT!r} has the token that the server was started with" * (name == ROOT)
    return Problem("not-found", f"there is no administrator {name!r}{more}")
