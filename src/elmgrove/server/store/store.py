"""The store: what the server remembers, in SQLite or in PostgreSQL."""

import os
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from functools import cached_property
from pathlib import Path
from secrets import token_bytes
from tempfile import mkstemp

from elmgrove.errors import BadFile, BadInput
from elmgrove.server.store.admins import Admins
from elmgrove.server.store.audit import SERVER_LOG, Audit
from elmgrove.server.store.contributions import Contributions
from elmgrove.server.store.database import Database, Transaction
from elmgrove.server.store.federations import Federations
from elmgrove.server.store.fleet import Fleet
from elmgrove.server.store.reports import Reports
from elmgrove.server.store.sqlite import open_sqlite

#: Raises where somebody may not write, or no longer.
Rule = Callable[[Transaction], Awaitable[None]]


class Store:
    """Federations, their devices and what these published, as names, numbers and bytes.

    Every method is atomic, and what one has written when it returns survives a crash and a power
    cut. Any number of tasks may use a store, and any number of servers a PostgreSQL data base.
    A data base that can't answer is ``StoreUnavailable``; names are for the caller to check.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    # Made when they are used: each write has a store of its own (``by``).

    @cached_property
    def federations(self) -> Federations:
        return Federations(self.database)

    @cached_property
    def contributions(self) -> Contributions:
        return Contributions(self.database)

    @cached_property
    def reports(self) -> Reports:
        return Reports(self.database)

    @cached_property
    def fleet(self) -> Fleet:
        return Fleet(self.database)

    @cached_property
    def admins(self) -> Admins:
        return Admins(self.database)

    @cached_property
    def audit(self) -> Audit:
        return Audit(self.database)

    def by(self, rule: Rule) -> "Store":
        """Return the same store for somebody whose right to write may end.

        The rule MUST be asked in the transaction of each write, and what it raises MUST reach the
        caller unchanged, with nothing written. It must be quick.
        """
        return Store(_Ruled(self.database, rule))

    async def ready(self) -> None:
        """Ask the data base something. MUST fail within a minute where it can't answer."""
        async with self.database.read() as tx:
            await tx.fetch("SELECT version FROM elmgrove_schema")

    async def try_write(self) -> None:
        """Write something that nobody reads. MUST fail where nothing can be written."""
        async with self.database.write(SERVER_LOG) as tx:
            # As large as an upload, and other bytes each time: the same ones are not written again.
            await tx.execute("DELETE FROM probe")
            await tx.execute("INSERT INTO probe VALUES ($1)", token_bytes(2**16))

    async def close(self) -> None:
        """Let every operation end that has begun; the store MUST NOT be used afterwards."""
        await self.database.close()


class _Ruled:
    """A data base in which each write begins with a rule."""

    def __init__(self, database: Database, rule: Rule) -> None:
        self._database = database
        self._rule = rule

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        return self._database.read()

    def snapshot(self) -> AbstractAsyncContextManager[Transaction]:
        return self._database.snapshot()

    @asynccontextmanager
    async def write(self, federation: str) -> AsyncIterator[Transaction]:
        async with self._database.write(federation) as tx:
            await self._rule(tx)
            yield tx

    async def close(self) -> None:
        await self._database.close()


async def open_store(url: str) -> Store:
    """Open the store, and make its tables in an empty data base.

    Two servers MAY open an empty data base at the same moment.
    """
    path = sqlite_path(url)
    if path is not None:
        return Store(await open_sqlite(path))
    # Here, because asyncpg is an extra.
    from elmgrove.server.store.postgres import open_postgres

    return Store(await open_postgres(url))


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite store; None for PostgreSQL."""
    scheme, mark, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and mark:
        return None
    path = rest.removeprefix("/") if mark else url
    if (mark and (scheme != "sqlite" or not rest.startswith("/"))) or path in ("", ":memory:"):
        # Not the whole of it: a URL may hold a password.
        raise BadInput(
            "a store is sqlite:///file.db (sqlite:////folder/file.db from the root), a path, or "
            f"postgresql://..., not {scheme + mark!r}"
        )
    return Path(path)


def back_up(store: str, path: Path) -> None:
    """Write one state of a SQLite store to a new file, whole or not at all.

    All that was acknowledged before it began is there. Only its owner may read it.
    Devices' and administrators' secrets are in it as hashes.
    """
    source = sqlite_path(store)
    if source is None:
        raise BadInput("PostgreSQL is backed up with pg_dump: see docs/backup.md")
    if path.exists():
        raise BadInput(f"{path} is there already: choose another name")
    descriptor, temporary = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as held:
            held.execute("VACUUM INTO $1", [temporary])
        with closing(sqlite3.connect(temporary)) as copy, copy:
            # Where the copy is restored, revisions count from an earlier number again. For a device
            # that remembers one from before, the same number must not mean the same sums.
            later = random.uniform(1e-5, 1e-3)
            copy.execute("UPDATE federation SET created = created + $1", [later])
        os.fsync(descriptor)
        Path(temporary).rename(path)
    except sqlite3.Error as error:
        raise BadFile(f"{source} could not be backed up: {error}") from error
    finally:
        os.close(descriptor)
        Path(temporary).unlink(missing_ok=True)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
