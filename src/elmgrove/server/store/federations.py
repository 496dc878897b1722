"""Federations and the devices that joined them, in the store.

The store is one object, because a write to a federation waits for the others, and its operations
are some files, because one would be too long: ``Store`` adds what devices published.
"""

import json
from secrets import token_bytes
from typing import Any

from elmgrove.errors import NotFound
from elmgrove.server.store.admins import Sessions
from elmgrove.server.store.audit import OWN_CHAIN, SERVER, by_device, reads, record, writes
from elmgrove.server.store.database import Operation
from elmgrove.server.store.records import DeviceRow, FederationRow

FEDERATION = """SELECT name, basis, ridge, members, token_hash, created, merged, terms
    FROM federation"""
#: Bytes that are written to find out whether anything can be.
PROBE_BYTES = 2**16
#: What belongs to a federation by its name alone.
BY_NAME = ("told", "report", "hour", "event", "command", "changed")
DEVICE = """SELECT name, key_hash, revoked, enrolled, expires, next_hash FROM device
    WHERE federation = $1"""


class Enrolment(Sessions):
    """The store's operations on federations and devices, by name.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    async def close(self) -> None:
        """Lets every operation end that has begun; the store MUST NOT be used afterwards."""
        await self.database.close()

    @reads
    def ready(self) -> Operation[None]:
        """Asks the data base something. MUST fail within a minute where it can't answer."""
        yield ("SELECT version FROM elmgrove_schema",)

    async def try_write(self) -> None:
        """Writes something that nobody reads. MUST fail where nothing can be written."""
        await self.write(OWN_CHAIN, _try_write())

    async def create_federation(self, made: FederationRow, *, actor: str = SERVER) -> bool:
        """Makes a federation. MUST return False and change nothing when the name is taken."""
        return await self.write(made.name, inserted(made, actor))

    @reads
    def federation(self, name: str) -> Operation[FederationRow | None]:
        """Finds a federation by its name."""
        return (yield from federation_of(name))

    @reads
    def federations(self) -> Operation[list[FederationRow]]:
        """Lists all federations. MUST be in the order of the names."""
        rows = yield (f"{FEDERATION} ORDER BY name",)
        return [_federation(*row) for row in rows]

    @writes
    def delete_federation(self, name: str, *, actor: str = SERVER) -> Operation[bool]:
        """Deletes a federation; says whether it was there.

        MUST delete all that belongs to it, but for its chain: a later one of that name goes on
        with it.
        """
        if not (yield from _exists(name)):
            return False
        yield ("DELETE FROM federation WHERE name = $1", name)
        for table in BY_NAME:
            yield (f"DELETE FROM {table} WHERE federation = $1", name)
        yield from record(name, actor, "deleted")
        return True

    @writes
    def set_token(
        self, federation: str, token_hash: str, *, actor: str = SERVER
    ) -> Operation[None]:
        """Replaces the token with which devices join."""
        yield from require_federation(federation)
        yield ("UPDATE federation SET token_hash = $2 WHERE name = $1", federation, token_hash)
        yield from record(federation, actor, "token renewed")

    @writes
    def enrol(
        self, federation: str, device: DeviceRow, *, again: bool, actor: str = SERVER
    ) -> Operation[bool]:
        """Lets a device in, not revoked. MUST return False and change nothing when it is in.

        Nor MUST anything change, but the answer be True, when it is in with this very key: it may
        not have heard the first answer. ``again`` replaces the key of a device that is in and lets
        a revoked one back in.
        """
        yield from require_federation(federation)
        act = "joined"
        rows = yield (f"{DEVICE} AND name = $2", federation, device.name)
        if rows:
            act, held = "readmitted", DeviceRow(*rows[0])
            if not again:
                return held.key_hash == device.key_hash and not held.revoked
            delete = "DELETE FROM device WHERE federation = $1 AND name = $2"
            yield (delete, federation, device.name)
        yield (
            """INSERT INTO device (federation, name, key_hash, revoked, enrolled, expires)
            VALUES ($1, $2, $3, FALSE, $4, $5)""",
            federation,
            device.name,
            device.key_hash,
            device.enrolled,
            device.expires,
        )
        yield from record(federation, actor, act, device=device.name, expires=device.expires)
        yield from changed(federation)
        return True

    @reads
    def secret_hashes(self, most: int) -> Operation[list[str]]:
        """Lists the hashes of secrets that were not taken back. MUST end with the newest.

        Administrators' come last, then the tokens with which devices join, then devices' keys.
        """
        devices = "SELECT key_hash FROM device WHERE NOT revoked ORDER BY enrolled DESC LIMIT $1"
        keys = yield (devices, most)
        tokens = yield ("SELECT token_hash FROM federation ORDER BY created DESC LIMIT $1", most)
        others = yield ("SELECT token_hash FROM administrator LIMIT $1", most)
        return [row[0] for row in (*others, *tokens, *keys)][:most][::-1]

    @reads
    def device_of(self, federation: str, key_hash: str) -> Operation[DeviceRow | None]:
        """Finds the device that has a key, or is about to. MUST find one that is not valid, too."""
        return (yield from device_with(federation, key_hash))

    @writes
    def offer_key(
        self, federation: str, key_hash: str, next_hash: str, now: float, expires: float | None
    ) -> Operation[bool]:
        """Gives the device that has a key a second one; says whether the first is valid.

        Until the second is used both are valid, up to the new time, so that an answer that got
        lost locks nobody out.
        """
        device = yield from device_with(federation, key_hash)
        if device is None or device.invalid(now):
            return False
        yield (
            "UPDATE device SET next_hash = $3, expires = $4 WHERE federation = $1 AND name = $2",
            federation,
            device.name,
            next_hash,
            expires,
        )
        stated = {"device": device.name, "expires": expires}
        yield from record(federation, by_device(device.name), "key offered", **stated)
        return True

    @writes
    def take_key(self, federation: str, next_hash: str) -> Operation[None]:
        """Makes a device's second key its only one; nothing if it is that already."""
        for device in (yield from _devices(federation, f"{DEVICE} AND next_hash = $2", next_hash)):
            yield (
                """UPDATE device SET key_hash = next_hash, next_hash = NULL
                WHERE federation = $1 AND name = $2""",
                federation,
                device.name,
            )
            stated = {"device": device.name, "expires": device.expires}
            yield from record(federation, by_device(device.name), "key changed", **stated)

    @reads
    def devices(self, federation: str) -> Operation[list[DeviceRow]]:
        """Lists a federation's devices. MUST be in the order of the names."""
        return (yield from _devices(federation, f"{DEVICE} ORDER BY name"))


def revoked(federation: str, name: str, actor: str) -> Operation[bool]:
    """Revokes a device's key; says whether there is such a device."""
    if not (yield from _devices(federation, f"{DEVICE} AND name = $2", name)):
        return False
    revoking = "UPDATE device SET revoked = TRUE WHERE federation = $1 AND name = $2"
    yield (revoking, federation, name)
    yield from record(federation, actor, "revoked", device=name)
    yield from changed(federation)
    return True


def _try_write() -> Operation[None]:
    # As large as an upload, and other bytes each time: what is the same is not written again.
    yield ("DELETE FROM probe",)
    yield ("INSERT INTO probe VALUES ($1)", token_bytes(PROBE_BYTES))


def changed(federation: str) -> Operation[None]:
    """Counts a change about devices that no revision tells of, for those who look on."""
    yield (
        """INSERT INTO changed (federation, number) VALUES ($1, 1)
        ON CONFLICT (federation) DO UPDATE SET number = changed.number + 1""",
        federation,
    )


def device_with(federation: str, key_hash: str) -> Operation[DeviceRow | None]:
    """Finds the device that a key belongs to; ``DeviceRow.invalid`` says whether it still may."""
    for column in ("key_hash", "next_hash"):
        found = yield from _devices(federation, f"{DEVICE} AND {column} = $2", key_hash)
        if found:
            return found[0]
    return None


def federation_of(name: str) -> Operation[FederationRow | None]:
    """Finds a federation by its name."""
    rows = yield (f"{FEDERATION} WHERE name = $1", name)
    return _federation(*rows[0]) if rows else None


def _exists(federation: str) -> Operation[bool]:
    return bool((yield ("SELECT 1 FROM federation WHERE name = $1", federation)))


def require_federation(federation: str) -> Operation[None]:
    """Raises ``NotFound``; need not be asked where rows of the federation were found."""
    if not (yield from _exists(federation)):
        raise NotFound(f"there is no federation {federation!r}")


def inserted(made: FederationRow, actor: str) -> Operation[bool]:
    """Makes a federation; says whether its name was free."""
    if (yield from _exists(made.name)):
        return False
    members = None if made.members is None else json.dumps(made.members)
    yield (
        """INSERT INTO federation (name, basis, ridge, members, token_hash, created, merged, terms)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        made.name,
        json.dumps(made.basis),
        made.ridge,
        members,
        made.token_hash,
        made.created,
        made.merged,
        json.dumps(made.terms),
    )
    stated = {"members": made.members, "merged": made.merged, "terms": made.terms}
    yield from record(made.name, actor, "made", **stated)
    return True


def _federation(
    name: str, basis: str, ridge: float, members: str | None, *others: Any
) -> FederationRow:
    token_hash, created, merged, terms = others
    patterns = None if members is None else tuple(json.loads(members))
    rest = (token_hash, created, bool(merged), json.loads(terms))
    return FederationRow(name, json.loads(basis), ridge, patterns, *rest)


def _devices(federation: str, select: str, *arguments: str) -> Operation[list[DeviceRow]]:
    rows = yield (select, federation, *arguments)
    if not rows:
        yield from require_federation(federation)
    return [DeviceRow(name, key, bool(revoked), *others) for name, key, revoked, *others in rows]
