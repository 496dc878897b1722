"""The store: what the server remembers, in SQLite or in PostgreSQL."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from elmgrove.errors import BadInput
from elmgrove.server.store import statements
from elmgrove.server.store.records import Change, DeviceRow, FederationRow, Snapshot, StoredEntry
from elmgrove.server.store.sqlite import open_sqlite
from elmgrove.server.store.statements import Operation, Statement, T

FORMS = "sqlite:///file.db (sqlite:////folder/file.db from the root), a path, or postgresql://..."


class Database(Protocol):
    """A data base that runs operations. Its failures are ``StoreUnavailable``."""

    async def read(self, operation: Operation[T]) -> T:
        """MUST run the operation on one unchanging state of the data base."""

    async def write(self, federation: str, operation: Operation[T]) -> T:
        """MUST run the operation alone among the writes to a federation, wholly or not at all.

        Returns when the result survives a power cut. A caller that is cancelled meanwhile can't
        tell whether it was written; the engine stays usable.
        """

    def stream(
        self, operation: Operation[T], statement: Statement
    ) -> AbstractAsyncContextManager[tuple[T, AsyncIterator[Any]]]:
        """MUST give the result and the rows of one unchanging state, with few rows in memory."""

    async def close(self) -> None:
        """MUST let what was begun end first."""


class Store:
    """Federations, their devices and what these published, as names, numbers and bytes.

    Every method is atomic, and what one has written when it returns survives a crash and a power
    cut. Any number of tasks may use a store, and any number of servers a PostgreSQL data base.
    A data base that can't answer is ``StoreUnavailable``; names are for the caller to check.
    Methods that write to an unknown federation raise ``KeyError``, those that read it find nothing.
    """

    def __init__(self, engine: Database) -> None:
        self._database = engine

    async def close(self) -> None:
        """Lets what was begun end; the store MUST NOT be used afterwards."""
        await self._database.close()

    async def ready(self) -> None:
        """MUST raise ``StoreUnavailable``, within a minute, when the data base can't answer."""
        await self._database.read(statements.check())

    async def create_federation(self, made: FederationRow) -> bool:
        """MUST return False and change nothing when the name is taken."""
        return await self._database.write(made.name, statements.create_federation(made))

    async def federation(self, name: str) -> FederationRow | None:
        return await self._database.read(statements.federation(name))

    async def federations(self) -> list[FederationRow]:
        """MUST be in the order of the names."""
        return await self._database.read(statements.federations())

    async def delete_federation(self, name: str) -> bool:
        """MUST delete all that belongs to it; says whether it was there."""
        return await self._database.write(name, statements.delete_federation(name))

    async def set_token(self, name: str, token_hash: str) -> None:
        await self._database.write(name, statements.set_token(name, token_hash))

    async def enrol(self, federation: str, device: DeviceRow, *, again: bool) -> bool:
        """Lets a device in, not revoked. MUST return False and change nothing when it is in.

        ``again`` replaces the key of a device that is in and lets a revoked one back in.
        """
        return await self._database.write(federation, statements.enrol(federation, device, again))

    async def device_of(self, federation: str, key_hash: str) -> DeviceRow | None:
        """MUST find revoked devices too: what they may do is for the caller to decide."""
        return await self._database.read(statements.device_of(federation, key_hash))

    async def devices(self, federation: str) -> list[DeviceRow]:
        """MUST be in the order of the names."""
        return await self._database.read(statements.devices(federation))

    async def revoke(self, federation: str, name: str) -> bool:
        """Says whether there is such a device; what it published stays."""
        return await self._database.write(federation, statements.revoke(federation, name))

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
    ) -> StoredEntry:
        """Stores a contribution, or a departure (no blob), under the federation's next revision.

        ``successor`` MUST see the newest entry of that origin, with no other put in between, and
        be quick and pure. What it raises MUST reach the caller unchanged, with nothing stored.
        False means that there is nothing to do: the held entry is returned, nothing changes (a
        ``KeyError`` where none is held). Revisions MUST be 1, 2, 3, ... without gaps.
        """
        digest, size = ("", 0) if blob is None else (sha256(blob).hexdigest(), len(blob))
        made = StoredEntry(origin, 0, epoch, count, digest, size, received, blob is None)
        put = statements.put(federation, made, blob, successor)
        outcome = await self._database.write(federation, put)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def entry(self, federation: str, origin: str) -> StoredEntry | None:
        """The newest of that origin, a departure too."""
        return await self._database.read(statements.entry(federation, origin))

    async def entries(self, federation: str) -> list[StoredEntry]:
        """MUST be the newest of each origin, departures included, in the order of the origins."""
        return await self._database.read(statements.entries(federation))

    async def blob(self, federation: str, origin: str) -> tuple[StoredEntry, bytes] | None:
        """The newest of that origin; None where there is none or it left."""
        return await self._database.read(statements.blob(federation, origin))

    async def revision(self, federation: str, besides: str | None = None) -> int:
        """The newest that is not by ``besides``; 0 if none. MUST be quick with many devices."""
        return await self._database.read(
            statements.revision(federation, besides or statements.NOBODY)
        )

    async def changes(self, federation: str, since: int, limit: int) -> list[Change] | None:
        """The revisions since + 1, since + 2, ... in order, at most ``limit``.

        MUST be None when they can't be told: a blob that is needed is gone (it is kept for
        ``KEEP`` revisions after it was superseded), ``since`` is 0, or is a revision that this
        federation never had. Then take a snapshot. An unknown federation is a ``KeyError``.
        """
        return await self._database.read(statements.changes(federation, since, limit))

    @asynccontextmanager
    async def snapshot(self, federation: str) -> AsyncIterator[Snapshot]:
        """All newest blobs; MUST be those of its revision exactly, whatever is put meanwhile.

        Holds a connection while it is open, and a few blobs at a time in memory. An unknown
        federation is a ``KeyError``.
        """
        revision = statements.snapshot_revision(federation)
        blobs = statements.snapshot_blobs(federation)
        async with self._database.stream(revision, blobs) as (found, rows):
            yield Snapshot(found, rows)


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
        # Not the whole of it: an URL may hold a password.
        raise BadInput(f"a store is {FORMS}, not {scheme + mark!r}")
    return Store(await open_sqlite(Path(path)))
