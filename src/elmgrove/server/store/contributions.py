"""Contributions in the store: what devices published, as names, numbers and bytes."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from elmgrove.errors import NotFound
from elmgrove.server.store.audit import SERVER, record
from elmgrove.server.store.database import Database, Transaction, insert, require_federation

_ENTRY = "e.origin, e.revision, e.epoch, e.count, e.digest, e.size, e.received, e.digest = ''"
_NEWEST = "e.federation = $1 AND e.superseded IS NULL"
_BLOBS = f"""SELECT {_ENTRY}, c.blob FROM entry e
    JOIN content c ON c.federation = e.federation AND c.revision = e.revision WHERE {_NEWEST}"""
_SUPERSEDE = "UPDATE entry SET superseded = $3 WHERE federation = $1 AND revision = $2"


@dataclass(frozen=True)
class StoredEntry:
    """What a device published, without the bytes; ``digest`` is their SHA-256 in hexadecimal.

    ``left`` marks a departure: the device took its contribution back, so there are no bytes,
    ``digest`` is empty and ``size`` is 0.
    """

    origin: str
    revision: int
    epoch: int
    count: float
    digest: str
    size: int
    received: float
    left: bool

    def holds(self, blob: bytes) -> bool:
        """Say whether these are the bytes that were put, and not corrupted since."""
        return sha256(blob).hexdigest() == self.digest


@dataclass(frozen=True)
class Change:
    """What one revision adds to a sum, ``blob``, and what it takes out of it, ``replaced``.

    Either is None where there is nothing: a departure adds none, a first contribution replaces
    none.
    """

    revision: int
    origin: str
    blob: bytes | None
    replaced: bytes | None


@dataclass(frozen=True)
class Snapshot:
    """All contributions as of one revision: (entry, blob) in the order of the origins.

    ``blobs`` can be read once, while the snapshot is open.
    """

    revision: int
    blobs: AsyncIterator[tuple[StoredEntry, bytes]]


class Contributions:
    """The newest contribution of each device, and what was published shortly before.

    All methods raise ``NotFound`` where the federation does not exist.
    """

    #: For how many further revisions a superseded blob is kept.
    KEEP = 256

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self,
        federation: str,
        origin: str,
        epoch: int,
        count: float,
        blob: bytes | None,
        received: float,
        *,
        digest: str | None = None,
        successor: Callable[[StoredEntry | None], bool],
        actor: str = SERVER,
    ) -> StoredEntry:
        """Store a contribution, or a departure (no blob), under the federation's next revision.

        ``digest`` is the SHA-256 of the blob, where that is known already.

        ``successor`` MUST see the newest entry of that origin, with no other put in between, and
        be quick and pure. What it raises MUST reach the caller unchanged, with nothing stored.
        False means that there is nothing to do: the held entry is returned, nothing changes (a
        ``ValueError`` where none is held), unless the bytes that are held are corrupted: those MUST
        be replaced. Revisions MUST be 1, 2, 3, ... without gaps.
        """
        if digest is None:
            digest = "" if blob is None else sha256(blob).hexdigest()
        size = 0 if blob is None else len(blob)
        made = StoredEntry(origin, 0, epoch, count, digest, size, received, blob is None)
        async with self._database.write(federation) as tx:
            newest, held = await _newest(tx, federation, origin)
            if not successor(held):
                if held is None:
                    raise ValueError(f"nothing of {origin!r} is held that could stay")
                if blob is None or digest != held.digest:
                    return held
                if await _holds(tx, federation, held, blob):
                    return held
            return await _append(tx, federation, newest, held, made, blob, actor)

    async def leave(
        self, federation: str, origin: str, *, actor: str = SERVER
    ) -> StoredEntry | None:
        """Store that a device left, at its next epoch; nothing if it did or never contributed."""
        async with self._database.write(federation) as tx:
            return await leave(tx, federation, origin, actor)

    async def clear(self, federation: str, origin: str, *, actor: str = SERVER) -> bool:
        """Forget what a device published or that it left, as if it had never been there.

        Return whether there was anything. It is a revision like any other, which adds nothing to
        the sum and takes out of it what was held.
        """
        async with self._database.write(federation) as tx:
            newest, held = await _newest(tx, federation, origin)
            if held is None:
                return False
            cleared = StoredEntry(origin, newest + 1, 0, 0.0, "", 0, time.time(), True)
            await _insert(tx, federation, held, cleared, None)
            # As if superseded by itself: no entry of this origin is the newest.
            await tx.execute(_SUPERSEDE, federation, newest + 1, newest + 1)
            await record(tx, federation, actor, "cleared", device=origin, epoch=held.epoch)
        return True

    async def entry(self, federation: str, origin: str) -> StoredEntry | None:
        async with self._database.read() as tx:
            return (await _newest(tx, federation, origin))[1]

    async def entries(self, federation: str) -> list[StoredEntry]:
        """List the newest entry of each device, departures too. MUST be in the names' order."""
        async with self._database.read() as tx:
            newest = f"SELECT {_ENTRY} FROM entry e WHERE {_NEWEST} ORDER BY origin"
            rows = await tx.fetch(newest, federation)
            if not rows:
                await require_federation(tx, federation)
        return [_entry(*row) for row in rows]

    async def blob(self, federation: str, origin: str) -> tuple[StoredEntry, bytes] | None:
        """Find the newest contribution of a device; None where there is none or it left."""
        async with self._database.read() as tx:
            rows = await tx.fetch(f"{_BLOBS} AND origin = $2", federation, origin)
            if not rows:
                await require_federation(tx, federation)
                return None
        *columns, blob = rows[0]
        return _entry(*columns), blob

    async def revision(self, federation: str, besides: str | None = None) -> int:
        """Find the newest revision not by ``besides``, or 0. MUST be quick with many devices."""
        async with self._database.read() as tx:
            return await _newest_revision(tx, federation, besides or "")

    async def changes(self, federation: str, since: int, limit: int) -> list[Change] | None:
        """Return what the revisions since + 1, since + 2, ... changed, at most ``limit`` of them.

        MUST be None when that is not known: a blob that is needed is gone (it is kept for ``KEEP``
        revisions after it was superseded), ``since`` is 0, or is a revision that this federation
        never had. Then take a snapshot.
        """
        async with self._database.read() as tx:
            newest = await _newest_revision(tx, federation)
            if since <= 0 or since > newest:
                return None
            after = "WHERE e.federation = $1 AND e.revision > $2 ORDER BY e.revision LIMIT $3"
            replacing = f"""SELECT e.revision, e.origin, e.replaced, p.revision FROM entry e
                LEFT JOIN entry p ON p.federation = e.federation AND p.revision = e.replaced
                {after}"""
            steps = await tx.fetch(replacing, federation, since, limit)
            for expected, (found, _, replaced, kept) in enumerate(steps, since + 1):
                if found != expected or replaced != kept:
                    return None
            # Only now the blobs: when one is gone, none is read.
            pairs = f"""SELECT c.blob, p.blob FROM entry e
                LEFT JOIN content c ON c.federation = e.federation AND c.revision = e.revision
                LEFT JOIN content p ON p.federation = e.federation AND p.revision = e.replaced
                {after}"""
            blobs = await tx.fetch(pairs, federation, since, limit)
        return [Change(*step[:2], *pair) for step, pair in zip(steps, blobs, strict=True)]

    @asynccontextmanager
    async def snapshot(self, federation: str) -> AsyncIterator[Snapshot]:
        """Open all newest blobs. MUST be of one revision exactly, whatever is put meanwhile.

        Holds a connection while it is open, and a few blobs at a time in memory.
        """
        async with self._database.snapshot() as tx:
            revision = await _newest_revision(tx, federation)
            rows = tx.stream(f"{_BLOBS} ORDER BY 1", federation)
            yield Snapshot(revision, ((_entry(*row[:-1]), row[-1]) async for row in rows))


async def leave(tx: Transaction, federation: str, origin: str, actor: str) -> StoredEntry | None:
    """Store that a device left, at its next epoch; nothing if it did or never contributed."""
    newest, held = await _newest(tx, federation, origin)
    if held is None or held.left:
        return held
    left = StoredEntry(origin, 0, held.epoch + 1, 0.0, "", 0, time.time(), True)
    return await _append(tx, federation, newest, held, left, None, actor)


async def _append(
    tx: Transaction,
    federation: str,
    newest: int,
    held: StoredEntry | None,
    made: StoredEntry,
    blob: bytes | None,
    actor: str,
) -> StoredEntry:
    """Store an entry under the next revision, in place of the one that is held, and record it."""
    made = replace(made, revision=newest + 1)
    await _insert(tx, federation, held, made, blob)
    detail: dict[str, Any] = {"device": made.origin, "epoch": made.epoch}
    if made.left:
        await record(tx, federation, actor, "left", **detail)
    else:
        detail |= {"rows": made.count, "size": made.size, "digest": made.digest}
        await record(tx, federation, actor, "published", **detail)
    return made


async def _insert(
    tx: Transaction,
    federation: str,
    held: StoredEntry | None,
    made: StoredEntry,
    blob: bytes | None,
) -> None:
    if held is not None:
        await tx.execute(_SUPERSEDE, federation, held.revision, made.revision)
    columns = {name: value for name, value in vars(made).items() if name != "left"}
    replaced = None if held is None else held.revision
    await insert(tx, "entry", federation=federation, replaced=replaced, **columns)
    if blob is not None:
        await insert(tx, "content", federation=federation, revision=made.revision, blob=blob)
    pruned = "DELETE FROM entry WHERE federation = $1 AND superseded <= $2"
    await tx.execute(pruned, federation, made.revision - Contributions.KEEP)


async def _holds(tx: Transaction, federation: str, held: StoredEntry, blob: bytes) -> bool:
    content = "SELECT blob FROM content WHERE federation = $1 AND revision = $2"
    rows = await tx.fetch(content, federation, held.revision)
    return bool(rows) and bytes(rows[0][0]) == blob


async def _newest(tx: Transaction, federation: str, origin: str) -> tuple[int, StoredEntry | None]:
    """Return the newest revision of all, or 0, and the newest entry of a device."""
    held = f"""SELECT (SELECT max(revision) FROM entry WHERE federation = f.name), {_ENTRY}
        FROM federation f LEFT JOIN entry e ON e.federation = f.name AND e.origin = $2
        AND e.superseded IS NULL WHERE f.name = $1"""
    rows = await tx.fetch(held, federation, origin)
    if not rows:
        raise NotFound(f"there is no federation {federation!r}")
    newest, *columns = rows[0]
    return newest or 0, None if columns[0] is None else _entry(*columns)


async def _newest_revision(tx: Transaction, federation: str, besides: str = "") -> int:
    """Find the newest revision that is not by ``besides``; 0 where there is none."""
    # The newest entry of an origin is never pruned, so the table knows. At most KEEP entries of
    # ``besides`` are passed over, from the end of the primary key's index.
    others = """SELECT revision FROM entry WHERE federation = $1 AND origin <> $2
        ORDER BY revision DESC LIMIT 1"""
    rows = await tx.fetch(others, federation, besides)
    if not rows:
        await require_federation(tx, federation)
        return 0
    return int(rows[0][0])


def _entry(*columns: Any) -> StoredEntry:
    fields = [*columns[:-1], bool(columns[-1])]
    return StoredEntry(*fields)
