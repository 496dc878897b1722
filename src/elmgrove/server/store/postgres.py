"""The data base PostgreSQL, through asyncpg."""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import sha256
from typing import Any, TypeVar

from elmgrove.errors import StoreUnavailable, require_extra
from elmgrove.server.store.database import Rows, Transaction, prepare

asyncpg: Any = require_extra("asyncpg", "server")
T = TypeVar("T")


class Postgres:
    """Connections to a data base that other servers may use at the same time.

    A write to a federation holds a lock on its name until the commit. It is an advisory lock, which
    also serves for a federation that is yet to be made, and for the tables.
    """

    #: Long transactions may have half of the connections.
    CONNECTIONS = 8
    #: Seconds until there is a connection.
    PATIENCE = 10.0

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._running: set[asyncio.Task[Any]] = set()
        self._snapshots = asyncio.Semaphore(self.CONNECTIONS // 2)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        async with self._transaction(isolation="repeatable_read", readonly=True) as tx:
            yield tx

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        async with self._snapshots, self.read() as tx:
            yield tx

    @asynccontextmanager
    async def write(self, federation: str) -> AsyncIterator[Transaction]:
        # Advisory locks are numbers. Two names with the same one only wait needlessly.
        digest = sha256(b"elmgrove:" + federation.encode()).digest()
        async with self._transaction(isolation="read_committed") as tx:
            # What comes after the lock sees what its last holder committed.
            number = int.from_bytes(digest[:8], signed=True)
            await tx.execute("SELECT pg_advisory_xact_lock($1)", number)
            yield tx

    @asynccontextmanager
    async def _transaction(self, **how: Any) -> AsyncIterator["_Transaction"]:
        # In turn: the end waits for the statement that a cancelled caller left behind.
        turn, opened = asyncio.Lock(), AsyncExitStack()

        async def begin() -> Any:
            async with turn:
                connection = await opened.enter_async_context(
                    self._pool.acquire(timeout=self.PATIENCE)
                )
                await opened.enter_async_context(connection.transaction(**how))
                return connection

        async def end(*raised: Any) -> None:
            async with turn:
                await opened.__aexit__(*raised)

        try:
            yield _Transaction(self, await self.shielded(begin()), turn)
        except BaseException:
            await self.shielded(end(*sys.exc_info()))
            raise
        await self.shielded(end(None, None, None))

    async def shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Let work end even if the caller is cancelled.

        Work that is cancelled may cost asyncpg the connection, with errors that nobody awaits.
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        with translated():
            return await asyncio.shield(task)

    async def close(self) -> None:
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
        await self._pool.close()


class _Transaction:
    def __init__(self, database: Postgres, connection: Any, turn: asyncio.Lock) -> None:
        self._database = database
        self._connection = connection
        self._turn = turn

    async def fetch(self, statement: str, *arguments: Any) -> Rows:
        rows: Rows = await self._in_turn(self._connection.fetch, statement, *arguments)
        return rows

    async def execute(self, statement: str, *arguments: Any) -> None:
        await self._in_turn(self._connection.execute, statement, *arguments)

    async def stream(self, statement: str, *arguments: Any) -> AsyncIterator[Sequence[Any]]:
        cursor = await self._in_turn(self._connection.cursor, statement, *arguments)
        while rows := await self._in_turn(cursor.fetch, 4):
            for row in rows:
                yield row

    async def _in_turn(self, method: Any, *arguments: Any) -> Any:
        async def work() -> Any:
            async with self._turn:
                return await method(*arguments)

        return await self._database.shielded(work())


async def open_postgres(url: str) -> Postgres:
    with translated():
        # No wait is without a bound.
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=Postgres.CONNECTIONS,
            timeout=Postgres.PATIENCE,
            command_timeout=60.0,
        )
    database = Postgres(pool)
    try:
        async with database.write("") as tx:
            # Names compare by their bytes, whatever the language of the data base. Contributions
            # are random bits to a compressor.
            uncompressed = "ALTER TABLE content ALTER COLUMN blob SET STORAGE EXTERNAL"
            await prepare(tx, 'TEXT COLLATE "C"', "BYTEA", uncompressed)
    except BaseException:  # cancelled as well: nobody else can close it
        await database.close()
        raise
    return database


@contextmanager
def translated() -> Iterator[None]:
    """Raise ``StoreUnavailable`` for whatever asyncpg raises.

    Its internal errors are those of a connection that broke within a step of the protocol: the next
    try has another one.
    """
    try:
        yield
    except (
        OSError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
    ) as error:
        full = isinstance(error, asyncpg.DiskFullError)
        raise StoreUnavailable(
            f"PostgreSQL can't be used: {str(error) or type(error).__name__}",
            "disk full" if full else "",
        ) from error
