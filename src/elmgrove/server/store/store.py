"""The store: what the server remembers, in SQLite or in PostgreSQL.

Each operation is written once, as SQL with its contract, and every data base runs it.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from elmgrove.errors import BadInput
from elmgrove.server.store.audit import (
    SERVER,
    Raised,
    Which,
    name_of,
    raised,
    reads,
    record,
    writes,
)
from elmgrove.server.store.contributions import newest, newest_revision
from elmgrove.server.store.database import Operation
from elmgrove.server.store.federations import revoked
from elmgrove.server.store.fleet import Fleets, Tally, tallied
from elmgrove.server.store.records import StoredEntry
from elmgrove.server.store.sqlite import open_sqlite

FORMS = "sqlite:///file.db (sqlite:////folder/file.db from the root), a path, or postgresql://..."
#: For how many further revisions a superseded blob is kept.
KEEP = 256

SUPERSEDING = "UPDATE entry SET superseded = $3 WHERE federation = $1 AND revision = $2"


class Store(Fleets):
    """Federations, their devices and what these published, as names, numbers and bytes.

    Every method is atomic, and what one has written when it returns survives a crash and a power
    cut. Any number of tasks may use a store, and any number of servers a PostgreSQL data base.
    A data base that can't answer is ``StoreUnavailable``; names are for the caller to check.
    All methods that concern one federation raise ``NotFound`` where it does not exist, but
    for ``federation``, which says None, and ``delete_federation``, which says False.
    """

    async def put(
        self,
        federation: Which,
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
        ``ValueError`` where none is held), unless the bytes that are held are not these any more:
        those MUST be replaced.
        Revisions MUST be 1, 2, 3, ... without gaps.
        """
        digest, size = ("", 0) if blob is None else (sha256(blob).hexdigest(), len(blob))
        made = StoredEntry(origin, 0, epoch, count, digest, size, received, blob is None)
        put = _put(name_of(federation), made, blob, successor, actor)
        return raised(await self.write(federation, put))

    @writes
    def depart(
        self, federation: str, origin: str, *, actor: str = SERVER
    ) -> Operation[StoredEntry | None]:
        """Stores that a device left, at its next epoch; nothing if it did or never contributed."""
        return (yield from _depart(federation, origin, actor))

    @writes
    def revoke(self, federation: str, name: str, *, actor: str = SERVER) -> Operation[bool]:
        """Revokes a device's key; says whether there is such a device.

        MUST store in the same moment that it left, or nothing at all.
        """
        if not (yield from revoked(federation, name, actor)):
            return False
        yield from _depart(federation, name, actor)
        return True

    @writes
    def clear(self, federation: str, origin: str, *, actor: str = SERVER) -> Operation[bool]:
        """Forgets what a device published or that it left, as if it had never been there.

        Says whether there was anything. It is a revision like any other, which adds nothing to
        the sum and takes out of it what was held.
        """
        held = yield from newest(federation, origin)
        if held is None:
            return False
        cleared = StoredEntry(origin, 0, 0, 0.0, "", 0, time.time(), True)
        revision = (yield from _append(federation, held, cleared, None)).revision
        # What it superseded is what it is: no entry of this origin is the newest.
        yield (SUPERSEDING, federation, revision, revision)
        yield from record(federation, actor, "cleared", device=origin, epoch=held.epoch)
        return True

    @reads
    def tallies(self, *, by_device: bool = False) -> Operation[dict[str, Tally]]:
        """Counts what is held, by federation. MUST be quick with many devices and records."""
        return (yield from tallied(by_device, time.time()))


async def open_store(url: str) -> Store:
    """Opens the store, and makes its tables in an empty data base.

    Two servers MAY open an empty data base at the same moment.
    """
    path = sqlite_path(url)
    if path is not None:
        return Store(await open_sqlite(path))
    # Here, because asyncpg is an extra.
    from elmgrove.server.store.postgres import open_postgres

    return Store(await open_postgres(url))


def sqlite_path(url: str) -> Path | None:
    """Gives the file of a SQLite store; None for PostgreSQL."""
    scheme, mark, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and mark:
        return None
    path = rest.removeprefix("/") if mark else url
    if (mark and (scheme != "sqlite" or not rest.startswith("/"))) or path in ("", ":memory:"):
        # Not the whole of it: a URL may hold a password.
        raise BadInput(f"a store is {FORMS}, not {scheme + mark!r}")
    return Path(path)


def _put(
    federation: str,
    made: StoredEntry,
    content: bytes | None,
    successor: Callable[[StoredEntry | None], bool],
    actor: str,
) -> Operation[StoredEntry | Raised]:
    held = yield from newest(federation, made.origin)
    try:
        is_new = successor(held)
    except Exception as error:  # the caller's own rule, so the caller's own errors
        return Raised(error)
    if not is_new and held is None:
        return Raised(ValueError(f"nothing of {made.origin!r} is held that could stay"))
    if held is not None and not is_new:
        again = content is not None and made.digest == held.digest
        if not again or (yield from _holds(federation, held, content)):
            return held
    made = yield from _append(federation, held, made, content)
    yield from _told(federation, made, actor)
    return made


def _depart(federation: str, origin: str, actor: str) -> Operation[StoredEntry | None]:
    held = yield from newest(federation, origin)
    if held is None or held.left:
        return held
    left = StoredEntry(origin, 0, held.epoch + 1, 0.0, "", 0, time.time(), True)
    made = yield from _append(federation, held, left, None)
    yield from _told(federation, made, actor)
    return made


def _holds(federation: str, held: StoredEntry, content: bytes | None) -> Operation[bool]:
    """Whether the bytes of an entry are these, and not damaged."""
    select = "SELECT blob FROM content WHERE federation = $1 AND revision = $2"
    rows = yield (select, federation, held.revision)
    return bool(rows) and bytes(rows[0][0]) == content


def _append(
    federation: str, held: StoredEntry | None, made: StoredEntry, content: bytes | None
) -> Operation[StoredEntry]:
    """Stores an entry under the next revision, in the place of the one that is held."""
    made = replace(made, revision=1 + (yield from newest_revision(federation)))
    yield from _supersede(federation, held, made)
    if content is not None:
        insert = "INSERT INTO content (federation, revision, blob) VALUES ($1, $2, $3)"
        yield (insert, federation, made.revision, content)
    pruning = "DELETE FROM entry WHERE federation = $1 AND superseded <= $2"
    yield (pruning, federation, made.revision - KEEP)
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
        yield (SUPERSEDING, federation, held.revision, made.revision)
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
