"""Federations and the devices that joined them, in the store."""

import json
from dataclasses import dataclass, field
from typing import Any

from elmgrove.errors import NotFound
from elmgrove.reading.times import format_time
from elmgrove.server.store.audit import SERVER, by_device, record
from elmgrove.server.store.contributions import leave
from elmgrove.server.store.database import Database, Transaction, insert, require_federation

_FEDERATION = """SELECT name, basis, ridge, members, token_hash, created, merged, terms
    FROM federation"""
_NAMED = "federation = $1 AND name = $2"
_DEVICE = """SELECT name, key_hash, revoked, enrolled, expires, next_hash FROM device
    WHERE federation = $1"""


@dataclass(frozen=True)
class FederationRow:
    """A federation: devices that share a basis.

    ``basis`` and ``terms`` are JSON. ``members`` are patterns of the names that may join; None lets
    any device join that has the token. ``merged`` says that one model of everybody decides.
    """

    name: str
    basis: dict[str, Any]
    ridge: float
    members: tuple[str, ...] | None
    token_hash: str
    created: float
    merged: bool = False
    terms: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceRow:
    """A device that joined, known by the hash of its key.

    ``expires`` is when the key expires; None is never. ``next_hash`` is that of a key which the
    device asked for and has not used yet: until then both are valid.
    """

    name: str
    key_hash: str
    revoked: bool
    enrolled: float
    expires: float | None = None
    next_hash: str | None = None

    def invalid(self, now: float) -> str | None:
        """Say why the device's key is not valid at this time, and what to do; None if it is."""
        if self.revoked:
            return f"the key of {self.name!r} was revoked"
        if self.expires is not None and now >= self.expires:
            return (
                f"the key of {self.name!r} expired on {format_time(self.expires)} UTC: an "
                "administrator gives it another with 'elmgrove federation token'"
            )
        return None


class Federations:
    """Federations, and their devices.

    All methods that concern a single federation raise ``NotFound`` where it does not exist,
    but for ``find`` and ``delete``.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, made: FederationRow, *, actor: str = SERVER) -> bool:
        """Add a federation. MUST return False and change nothing when the name is taken."""
        async with self._database.write(made.name) as tx:
            if await federation_of(tx, made.name) is not None:
                return False
            texts = {name: json.dumps(getattr(made, name)) for name in ("basis", "terms")}
            members = None if made.members is None else json.dumps(made.members)
            await insert(tx, "federation", **vars(made) | texts | {"members": members})
            detail = {"members": made.members, "merged": made.merged, "terms": made.terms}
            await record(tx, made.name, actor, "made", **detail)
        return True

    async def find(self, name: str) -> FederationRow | None:
        async with self._database.read() as tx:
            return await federation_of(tx, name)

    async def all(self) -> list[FederationRow]:
        """List all federations. MUST be in the order of the names."""
        async with self._database.read() as tx:
            return [_federation(*row) for row in await tx.fetch(f"{_FEDERATION} ORDER BY name")]

    async def delete(self, name: str, *, actor: str = SERVER) -> bool:
        """Delete a federation; return whether it was there.

        MUST delete all that belongs to it but for its audit log, which a later one of that name
        continues.
        """
        async with self._database.write(name) as tx:
            if await federation_of(tx, name) is None:
                return False
            # Devices and contributions go with it.
            await tx.execute("DELETE FROM federation WHERE name = $1", name)
            for table in ("device_status", "report", "hour", "event", "command", "device_changes"):
                await tx.execute(f"DELETE FROM {table} WHERE federation = $1", name)
            await record(tx, name, actor, "deleted")
        return True

    async def set_token(self, federation: str, token_hash: str, *, actor: str = SERVER) -> None:
        async with self._database.write(federation) as tx:
            await require_federation(tx, federation)
            update = "UPDATE federation SET token_hash = $2 WHERE name = $1"
            await tx.execute(update, federation, token_hash)
            await record(tx, federation, actor, "token renewed")

    async def enrol(
        self, federation: str, device: DeviceRow, *, again: bool, actor: str = SERVER
    ) -> bool:
        """Let a device join, not revoked. MUST return False and change nothing when it has.

        Nor MUST anything change, but the answer be True, when it has joined with this very key: the
        first answer may have been lost. ``again`` replaces the key of a device that has joined, and
        lets a revoked one return.
        """
        async with self._database.write(federation) as tx:
            await require_federation(tx, federation)
            held = await device_named(tx, federation, device.name)
            if held is not None and not again:
                return held.key_hash == device.key_hash and not held.revoked
            await tx.execute(f"DELETE FROM device WHERE {_NAMED}", federation, device.name)
            await insert(tx, "device", federation=federation, **vars(device) | {"revoked": False})
            act, detail = "joined" if held is None else "readmitted", {"expires": device.expires}
            await record(tx, federation, actor, act, device=device.name, **detail)
            await count_change(tx, federation)
        return True

    async def secret_hashes(self, most: int) -> list[str]:
        """List the hashes of secrets that were not revoked. MUST end with the newest.

        Administrators' come last, then the tokens with which devices join, then devices' keys.
        """
        async with self._database.read() as tx:
            several = [
                await tx.fetch(f"SELECT {secrets} LIMIT $1", most)
                for secrets in (
                    "token_hash FROM administrator",
                    "token_hash FROM federation ORDER BY created DESC",
                    "key_hash FROM device WHERE NOT revoked ORDER BY enrolled DESC",
                )
            ]
        return [row[0] for rows in several for row in rows][:most][::-1]

    async def device_of(self, federation: str, key_hash: str) -> DeviceRow | None:
        """Find the device by its key or its next key, valid or not."""
        async with self._database.read() as tx:
            return await device_of(tx, federation, key_hash)

    async def offer_key(
        self, federation: str, key_hash: str, next_hash: str, now: float, expires: float | None
    ) -> bool:
        """Give the device that has a key a second one; return whether the first is valid.

        Until the second is used both are valid, up to the new time, so that an answer that got
        lost locks nobody out.
        """
        async with self._database.write(federation) as tx:
            device = await device_of(tx, federation, key_hash)
            if device is None or device.invalid(now):
                return False
            update = f"UPDATE device SET next_hash = $3, expires = $4 WHERE {_NAMED}"
            await tx.execute(update, federation, device.name, next_hash, expires)
            detail = {"device": device.name, "expires": expires}
            await record(tx, federation, by_device(device.name), "key offered", **detail)
        return True

    async def take_key(self, federation: str, next_hash: str) -> None:
        """Make a device's second key its only one; nothing if it is that already."""
        async with self._database.write(federation) as tx:
            device = await device_of(tx, federation, next_hash)
            if device is None or device.next_hash != next_hash:
                return
            update = f"UPDATE device SET key_hash = next_hash, next_hash = NULL WHERE {_NAMED}"
            await tx.execute(update, federation, device.name)
            detail = {"device": device.name, "expires": device.expires}
            await record(tx, federation, by_device(device.name), "key changed", **detail)

    async def devices(self, federation: str) -> list[DeviceRow]:
        """List a federation's devices. MUST be in the order of the names."""
        async with self._database.read() as tx:
            rows = await tx.fetch(f"{_DEVICE} ORDER BY name", federation)
            if not rows:
                await require_federation(tx, federation)
        return [_device(*row) for row in rows]

    async def revoke(self, federation: str, name: str, *, actor: str = SERVER) -> bool:
        """Revoke a device's key; return whether there is such a device.

        MUST store in the same moment that it left, or nothing at all.
        """
        async with self._database.write(federation) as tx:
            if await device_named(tx, federation, name) is None:
                await require_federation(tx, federation)
                return False
            await tx.execute(f"UPDATE device SET revoked = TRUE WHERE {_NAMED}", federation, name)
            await record(tx, federation, actor, "revoked", device=name)
            await count_change(tx, federation)
            await leave(tx, federation, name, actor)
        return True


async def federation_of(tx: Transaction, name: str) -> FederationRow | None:
    rows = await tx.fetch(f"{_FEDERATION} WHERE name = $1", name)
    return _federation(*rows[0]) if rows else None


async def require_same(tx: Transaction, federation: FederationRow) -> None:
    """Raise ``NotFound`` where it was deleted, whether there is another of its name."""
    where = "SELECT 1 FROM federation WHERE name = $1 AND created = $2"
    if not await tx.fetch(where, federation.name, federation.created):
        raise NotFound(f"there is no federation {federation.name!r} any more")


async def device_named(tx: Transaction, federation: str, name: str) -> DeviceRow | None:
    rows = await tx.fetch(f"{_DEVICE} AND name = $2", federation, name)
    return _device(*rows[0]) if rows else None


async def device_of(
    tx: Transaction, federation: str | FederationRow, key_hash: str
) -> DeviceRow | None:
    """Find the device that a key belongs to; ``DeviceRow.invalid`` says whether it still may.

    Raise ``NotFound`` where there is no such federation, or not the one that was given any more.
    """
    arguments: list[object] = [federation, key_hash]
    made = ""
    if isinstance(federation, FederationRow):
        arguments = [federation.name, key_hash, federation.created]
        made = "AND f.created = $3"
    rows = await tx.fetch(
        f"""SELECT d.name, d.key_hash, d.revoked, d.enrolled, d.expires, d.next_hash
        FROM federation f LEFT JOIN device d ON d.federation = f.name
        AND (d.key_hash = $2 OR d.next_hash = $2) WHERE f.name = $1 {made}""",
        *arguments,
    )
    if not rows:
        raise NotFound(f"there is no federation {arguments[0]!r} any more")
    return None if rows[0][0] is None else _device(*rows[0])


async def count_change(tx: Transaction, federation: str) -> None:
    """Count a change of a device that is no contribution, for pages that are live."""
    await tx.execute(
        """INSERT INTO device_changes (federation, number) VALUES ($1, 1)
        ON CONFLICT (federation) DO UPDATE SET number = device_changes.number + 1""",
        federation,
    )


def _federation(*columns: Any) -> FederationRow:
    name, basis, ridge, members, token_hash, created, merged, terms = columns
    patterns = None if members is None else tuple(json.loads(members))
    stated = (name, json.loads(basis), ridge, patterns, token_hash, created)
    return FederationRow(*stated, bool(merged), json.loads(terms))


def _device(name: str, key_hash: str, revoked: bool, *others: Any) -> DeviceRow:
    return DeviceRow(name, key_hash, bool(revoked), *others)
