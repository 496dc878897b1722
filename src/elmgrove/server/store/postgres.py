"""The store's operations on PostgreSQL, through asyncpg."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import sha256
from typing import Any

from elmgrove.errors import StoreUnavailable, require_extra
from elmgrove.server.store.database import Operation, Statement, T, prepare

asyncpg: Any = require_extra("asyncpg", "server")

CONNECTIONS = 8
# Seconds, so that no wait is without a bound: for a connection, and for an answer.
CONNECT, ANSWER = 10.0, 60.0
# Rows that a stream reads ahead.
AHEAD = 4
# Contributions are random bits to a compressor.
UNCOMPRESSED = "ALTER TABLE content ALTER COLUMN blob SET STORAGE EXTERNAL"
# All that asyncpg raises. Its internal errors are those of a connection that broke within a step of
# the protocol: the next try has another one.
FAILURES = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
# Names compare by their bytes, whatever the language of the data base.
NAME = 'TEXT COLLATE "C"'


class Postgres:
    """Connections to a data base that other servers may use at the same time.

    A write to a federation holds a lock on its name until the commit. It is an advisory lock, which
    also serves for a federation that is yet to be made, and for the tables.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._running: set[asyncio.Task[Any]] = set()
        # A stream takes long: half of the connections are for what is quick.
        self._streams = asyncio.Semaphore(CONNECTIONS // 2)

    async def write(self, federation: str, operation: Operation[T]) -> T:
        """Runs an operation alone among the writes to a federation; see ``Database``."""
        return await self._apart(self._write(federation, operation))

    async def _write(self, federation: str, operation: Operation[T]) -> T:
        async with (
            self._pool.acquire(timeout=CONNECT) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            # What comes after the lock sees what its last holder committed.
            await connection.fetch("SELECT pg_advisory_xact_lock($1)", _lock(federation))
            return await _drive(connection, operation)

    async def read(self, operation: Operation[T]) -> T:
        """Runs an operation on one unchanging state; see ``Database``."""
        return await self._apart(self._read(operation))

    async def _read(self, operation: Operation[T]) -> T:
        async with self._pool.acquire(timeout=CONNECT) as connection, _unchanging(connection):
            return await _drive(connection, operation)

    async def _apart(self, work: Coroutine[Any, Any, T]) -> T:
        """Lets the work end even if the caller is cancelled.

        Work that is cancelled may cost asyncpg the connection, with errors that nobody awaits.
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        with translated():
            return await asyncio.shield(task)

    @asynccontextmanager
    async def stream(
        self, operation: Operation[T], statement: Statement
    ) -> AsyncIterator[tuple[T, AsyncIterator[Any]]]:
        """Gives the rows of one unchanging state, few at a time; see ``Database``."""
        # In turn: the end waits for the fetch that a cancelled caller left behind.
        turn, held = asyncio.Lock(), AsyncExitStack()

        async def begin() -> tuple[T, Any]:
            async with turn:
                connection = await held.enter_async_context(self._pool.acquire(timeout=CONNECT))
                await held.enter_async_context(_unchanging(connection))
                return await _drive(connection, operation), await connection.cursor(*statement)

        async def fetch(cursor: Any) -> Any:
            async with turn:
                return await cursor.fetch(AHEAD)

        async def rows(cursor: Any) -> AsyncIterator[Any]:
            while some := await self._apart(fetch(cursor)):
                for row in some:
                    yield row

        async def end() -> None:
            async with turn:
                await held.aclose()

        async with self._streams:
            try:
                result, cursor = await self._apart(begin())
                yield result, rows(cursor)
            finally:
                await self._apart(end())

    async def close(self) -> None:
        """Lets what was begun end, then closes the data base."""
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._pool.close()


async def open_postgres(url: str) -> Postgres:
    """Connects, and makes the tables in an empty data base."""
    with translated():
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=CONNECT,
            command_timeout=ANSWER,
        )
    database = Postgres(pool)
    try:
        await database.write("", prepare(NAME, "BYTEA", UNCOMPRESSED))
    except BaseException:  # cancelled as well: nobody else can close it
        await database.close()
        raise
    return database


def _lock(federation: str) -> int:
    """PostgreSQL's advisory locks are numbers. Two names with the same one only wait needlessly."""
    digest = sha256(b"elmgrove:" + federation.encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


def _unchanging(connection: Any) -> Any:
    return connection.transaction(isolation="repeatable_read", readonly=True)


async def _drive(connection: Any, operation: Operation[T]) -> T:
    try:
        statement = next(operation)
        while True:
            statement = operation.send(await connection.fetch(*statement))
    except StopIteration as done:
        result: T = done.value
        return result


@contextmanager
def translated() -> Iterator[None]:
    """Makes what PostgreSQL fails with ``StoreUnavailable``."""
    try:
        yield
    except FAILURES as error:
        full = isinstance(error, asyncpg.DiskFullError)
        raise StoreUnavailable(
            f"PostgreSQL can't be used: {str(error) or type(error).__name__}",
            "disk full" if full else "",
        ) from error
