"""The store: what the server remembers, in SQLite or in PostgreSQL.

Each operation is written once, as SQL with its contract, and every data base runs it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from elmgrove.errors import BadInput
from elmgrove.server.store.chain import SERVER, reads, record
from elmgrove.server.store.database import Operation
from elmgrove.server.store.enrolment import Enrolment, require_federation
from elmgrove.server.store.records import Change, Snapshot, StoredEntry
from elmgrove.server.store.sqlite import open_sqlite

FORMS = "sqlite:///file.db (sqlite:////folder/file.db from the root), a path, or postgresql://..."
#: For how many further revisions a superseded blob is kept.
KEEP = 256
# The name that no device has.
NOBODY = ""

ENTRY = "e.origin, e.revision, e.epoch, e.count, e.digest, e.size, e.received, e.digest = ''"
NEWEST = "e.federation = $1 AND e.superseded IS NULL"
WITH_CONTENT = "JOIN content c ON c.federation = e.federation AND c.revision = e.revision"


class Store(Enrolment):
    """Federations, their devices and what these published, as names, numbers and bytes.

    Every method is atomic, and what one has written when it returns survives a crash and a power
    cut. Any number of tasks may use a store, and any number of servers a PostgreSQL data base.
    A data base that can't answer is ``StoreUnavailable``; names are for the caller to check.
    All methods that concern one federation raise ``NoSuchFederation`` where it does not exist, but
    for ``federation``, which says None, and ``delete_federation``, which says False.
    """

    async def put(
        self,
        federation: str,
        origin: str,
        epoch: int,
        count: float,
        blob: bytes | None,
        received: float,
        *,
        successor: Callable[[StoredEntry | None], bool],
        actor: str = SERVER,
    ) -> StoredEntry:
        """Stores a contribution, or a departure (no blob), under the federation's next revision.

        ``successor`` MUST see the newest entry of that origin, with no other put in between, and
        be quick and pure. What it raises MUST reach the caller unchanged, with nothing stored.
        False means that there is nothing to do: the held entry is returned, nothing changes (a
        ``ValueError`` where none is held). Revisions MUST be 1, 2, 3, ... without gaps.
        """
        digest, size = ("", 0) if blob is None else (sha256(blob).hexdigest(), len(blob))
        made = StoredEntry(origin, 0, epoch, count, digest, size, received, blob is None)
        put = _put(federation, made, blob, successor, actor)
        outcome = await self.database.write(federation, put)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @reads
    def entry(self, federation: str, origin: str) -> Operation[StoredEntry | None]:
        """Finds the newest entry of that origin, a departure too."""
        return (yield from _newest(federation, origin))

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
        return (yield from _revision(federation, besides or NOBODY))

    @reads
    def changes(self, federation: str, since: int, limit: int) -> Operation[list[Change] | None]:
        """Tells what the revisions since + 1, since + 2, ... changed, at most ``limit`` of them.

        MUST be None when they can't be told: a blob that is needed is gone (it is kept for
        ``KEEP`` revisions after it was superseded), ``since`` is 0, or is a revision that this
        federation never had. Then take a snapshot.
        """
        newest = yield from _revision(federation)
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
        blobs = f"SELECT e.origin, c.blob FROM entry e {WITH_CONTENT} WHERE {NEWEST} ORDER BY 1"
        stream = self.database.stream(_revision(federation), (blobs, federation))
        async with stream as (revision, rows):
            yield Snapshot(revision, rows)


async def open_store(url: str) -> Store:
    """Opens the store, and makes its tables in an empty data base.

    Two servers MAY open an empty data base at the same moment.
    """
    scheme, mark, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and mark:
        # Here, because asyncpg is an extra.
        from elmgrove.server.store.postgres import open_postgres

        return Store(await open_postgres(url))
    path = rest.removeprefix("/") if mark else url
    if (mark and (scheme != "sqlite" or not rest.startswith("/"))) or path in ("", ":memory:"):
        # Not the whole of it: a URL may hold a password.
        raise BadInput(f"a store is {FORMS}, not {scheme + mark!r}")
    return Store(await open_sqlite(Path(path)))


def _entry(*columns: Any) -> StoredEntry:
    fields = [*columns[:-1], bool(columns[-1])]
    return StoredEntry(*fields)


def _newest(federation: str, origin: str) -> Operation[StoredEntry | None]:
    rows = yield (f"SELECT {ENTRY} FROM entry e WHERE {NEWEST} AND origin = $2", federation, origin)
    if not rows:
        yield from require_federation(federation)
    return _entry(*rows[0]) if rows else None


def _revision(federation: str, besides: str = NOBODY) -> Operation[int]:
    # The newest entry of an origin is never pruned, so the table knows. At most KEEP entries of
    # ``besides`` are passed over, from the end of the primary key's index.
    select = """SELECT revision FROM entry WHERE federation = $1 AND origin <> $2
        ORDER BY revision DESC LIMIT 1"""
    rows = yield (select, federation, besides)
    if not rows:
        yield from require_federation(federation)
    return int(rows[0][0]) if rows else 0


def _put(
    federation: str,
    made: StoredEntry,
    content: bytes | None,
    successor: Callable[[StoredEntry | None], bool],
    actor: str,
) -> Operation[StoredEntry | Exception]:
    """Returns what ``successor`` raises, so that no error of a data base is mistaken for it."""
    held = yield from _newest(federation, made.origin)
    try:
        is_new = successor(held)
    except Exception as refusal:  # the caller's own rule, so the caller's own errors
        return refusal  # nothing was written yet
    if not is_new:
        return held or ValueError(f"nothing of {made.origin!r} is held that could stay")
    made = replace(made, revision=1 + (yield from _revision(federation)))
    yield from _supersede(federation, held, made)
    if content is not None:
        insert = "INSERT INTO content (federation, revision, blob) VALUES ($1, $2, $3)"
        yield (insert, federation, made.revision, content)
    pruning = "DELETE FROM entry WHERE federation = $1 AND superseded <= $2"
    yield (pruning, federation, made.revision - KEEP)
    yield from _told(federation, made, actor)
    return made


def _told(federation: str, made: StoredEntry, actor: str) -> Operation[None]:
    """The audit of an entry."""
    stated: dict[str, Any] = {"device": made.origin, "epoch": made.epoch}
    if made.left:
        yield from record(federation, actor, "left", **stated)
        return
    stated |= {"rows": made.count, "size": made.size, "digest": made.digest}
    yield from record(federation, actor, "published", **stated)


def _supersede(federation: str, held: StoredEntry | None, made: StoredEntry) -> Operation[None]:
    if held is not None:
        mark = "UPDATE entry SET superseded = $3 WHERE federation = $1 AND revision = $2"
        yield (mark, federation, held.revision, made.revision)
    yield (
        """INSERT INTO entry (federation, origin, revision, epoch, count, digest, size, received,
        replaced) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)""",
        federation,
        made.origin,
        made.revision,
        made.epoch,
        made.count,
        made.digest,
        made.size,
        made.received,
        None if held is None else held.revision,
    )
