"""Federations and the devices that were let in, as operations."""

import json

from elmgrove.server.operations import Operation, known
from elmgrove.server.records import Device, Federation

FEDERATION = "SELECT name, basis, ridge, members, token_hash, created FROM federation"
DEVICE = "SELECT name, key_hash, revoked, enrolled FROM device WHERE federation = $1"


def create_federation(made: Federation) -> Operation[bool]:
    if (yield from federation(made.name)) is not None:
        return False
    members = None if made.members is None else json.dumps(made.members)
    insert = "INSERT INTO federation VALUES ($1, $2, $3, $4, $5, $6)"
    basis = json.dumps(made.basis)
    yield (insert, made.name, basis, made.ridge, members, made.token_hash, made.created)
    return True


def federation(name: str) -> Operation[Federation | None]:
    rows = yield (f"{FEDERATION} WHERE name = $1", name)
    return _federation(*rows[0]) if rows else None


def federations() -> Operation[list[Federation]]:
    rows = yield (f"{FEDERATION} ORDER BY name",)
    return [_federation(*row) for row in rows]


def _federation(
    name: str, basis: str, ridge: float, members: str | None, token_hash: str, created: float
) -> Federation:
    patterns = None if members is None else tuple(json.loads(members))
    return Federation(name, json.loads(basis), ridge, patterns, token_hash, created)


def delete_federation(name: str) -> Operation[bool]:
    if (yield from federation(name)) is None:
        return False
    yield ("DELETE FROM federation WHERE name = $1", name)
    return True


def set_token(name: str, token_hash: str) -> Operation[None]:
    yield from known(name)
    yield ("UPDATE federation SET token_hash = $2 WHERE name = $1", name, token_hash)


def enrol(federation: str, device: Device, again: bool) -> Operation[bool]:
    yield from known(federation)
    if (yield (f"{DEVICE} AND name = $2", federation, device.name)):
        if not again:
            return False
        yield ("DELETE FROM device WHERE federation = $1 AND name = $2", federation, device.name)
    insert = "INSERT INTO device VALUES ($1, $2, $3, FALSE, $4)"
    yield (insert, federation, device.name, device.key_hash, device.enrolled)
    return True


def device_of(federation: str, key_hash: str) -> Operation[Device | None]:
    rows = yield (f"{DEVICE} AND key_hash = $2", federation, key_hash)
    return _device(*rows[0]) if rows else None


def devices(federation: str) -> Operation[list[Device]]:
    rows = yield (f"{DEVICE} ORDER BY name", federation)
    return [_device(*row) for row in rows]


def _device(name: str, key_hash: str, revoked: int, enrolled: float) -> Device:
    return Device(name, key_hash, bool(revoked), enrolled)


def revoke(federation: str, name: str) -> Operation[bool]:
    if not (yield (f"{DEVICE} AND name = $2", federation, name)):
        return False
    revoking = "UPDATE device SET revoked = TRUE WHERE federation = $1 AND name = $2"
    yield (revoking, federation, name)
    return True
