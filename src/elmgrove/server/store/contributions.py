"""Contributions in the store: what devices published, as it is read.

``Store`` adds how it is written; with both one file would be too long.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from elmgrove.server.store.audit import reads
from elmgrove.server.store.database import Operation
from elmgrove.server.store.federations import Enrolment, require_federation
from elmgrove.server.store.records import Change, Snapshot, StoredEntry

# The name that no device has.
NOBODY = ""
ENTRY = "e.origin, e.revision, e.epoch, e.count, e.digest, e.size, e.received, e.digest = ''"
NEWEST = "e.federation = $1 AND e.superseded IS NULL"
WITH_CONTENT = "JOIN content c ON c.federation = e.federation AND c.revision = e.revision"


class Entries(Enrolment):
    """The store's operations that read what devices published.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @reads
    def entry(self, federation: str, origin: str) -> Operation[StoredEntry | None]:
        """Finds the newest entry of that origin, a departure too."""
        return (yield from newest(federation, origin))

    @reads
    def entries(self, federation: str) -> Operation[list[StoredEntry]]:
        """Lists the newest entry of each origin, departures too. MUST be in the origins' order."""
        rows = yield (f"SELECT {ENTRY} FROM entry e WHERE {NEWEST} ORDER BY origin", federation)
        if not rows:
            yield from require_federation(federation)
        return [_entry(*row) for row in rows]

    @reads
    def blob(self, federation: str, origin: str) -> Operation[tuple[StoredEntry, bytes] | None]:
        """Finds the newest contribution of that origin; None where there is none or it left."""
        where = f"{WITH_CONTENT} WHERE {NEWEST} AND origin = $2"
        rows = yield (f"SELECT {ENTRY}, c.blob FROM entry e {where}", federation, origin)
        if not rows:
            yield from require_federation(federation)
        return (_entry(*rows[0][:-1]), rows[0][-1]) if rows else None

    @reads
    def revision(self, federation: str, besides: str | None = None) -> Operation[int]:
        """Finds the newest revision not by ``besides``, or 0. MUST be quick with many devices."""
        return (yield from newest_revision(federation, besides or NOBODY))

    @reads
    def changes(self, federation: str, since: int, limit: int) -> Operation[list[Change] | None]:
        """Tells what the revisions since + 1, since + 2, ... changed, at most ``limit`` of them.

        MUST be None when they can't be told: a blob that is needed is gone (it is kept for
        ``KEEP`` revisions after it was superseded), ``since`` is 0, or is a revision that this
        federation never had. Then take a snapshot.
        """
        newest = yield from newest_revision(federation)
        if since <= 0 or since > newest:
            return None
        steps = yield (
            """SELECT e.revision, e.origin, e.replaced, p.revision FROM entry e
            LEFT JOIN entry p ON p.federation = e.federation AND p.revision = e.replaced
            WHERE e.federation = $1 AND e.revision > $2 ORDER BY e.revision LIMIT $3""",
            federation,
            since,
            limit,
        )
        for expected, (found, _, replaced, kept) in enumerate(steps, since + 1):
            if found != expected or replaced != kept:
                return None
        # Only now the blobs: when one is gone, none is read.
        blobs = yield (
            """SELECT c.blob, p.blob FROM entry e
            LEFT JOIN content c ON c.federation = e.federation AND c.revision = e.revision
            LEFT JOIN content p ON p.federation = e.federation AND p.revision = e.replaced
            WHERE e.federation = $1 AND e.revision > $2 ORDER BY e.revision LIMIT $3""",
            federation,
            since,
            limit,
        )
        return [Change(*step[:2], *pair) for step, pair in zip(steps, blobs, strict=True)]

    @asynccontextmanager
    async def snapshot(self, federation: str) -> AsyncIterator[Snapshot]:
        """Opens all newest blobs. MUST be of one revision exactly, whatever is put meanwhile.

        Holds a connection while it is open, and a few blobs at a time in memory.
        """
        blobs = f"SELECT {ENTRY}, c.blob FROM entry e {WITH_CONTENT} WHERE {NEWEST} ORDER BY 1"
        stream = self.database.stream(newest_revision(federation), (blobs, federation))
        async with stream as (revision, rows):
            yield Snapshot(revision, ((_entry(*row[:-1]), row[-1]) async for row in rows))


def newest(federation: str, origin: str) -> Operation[StoredEntry | None]:
    """Finds the newest entry of an origin."""
    rows = yield (f"SELECT {ENTRY} FROM entry e WHERE {NEWEST} AND origin = $2", federation, origin)
    if not rows:
        yield from require_federation(federation)
    return _entry(*rows[0]) if rows else None


def newest_revision(federation: str, besides: str = NOBODY) -> Operation[int]:
    """Finds the newest revision that is not by ``besides``; 0 where there is none."""
    # The newest entry of an origin is never pruned, so the table knows. At most KEEP entries of
    # ``besides`` are passed over, from the end of the primary key's index.
    select = """SELECT revision FROM entry WHERE federation = $1 AND origin <> $2
        ORDER BY revision DESC LIMIT 1"""
    rows = yield (select, federation, besides)
    if not rows:
        yield from require_federation(federation)
    return int(rows[0][0]) if rows else 0


def _entry(*columns: Any) -> StoredEntry:
    fields = [*columns[:-1], bool(columns[-1])]
    return StoredEntry(*fields)
