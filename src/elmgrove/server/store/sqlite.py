"""The store's operations on a SQLite file, through the standard library."""

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from elmgrove.errors import StoreUnavailable
from elmgrove.server.store.database import Operation, Statement, T, prepare

Job = tuple[Operation[Any], Future[Any]]

READERS = 4
# Writes that share a transaction: enough to spare most waits for the disk, few enough in memory.
BATCH = 64
# Rows that a stream reads ahead.
AHEAD = 4
# Seconds to wait for another process that writes to the same file.
PATIENCE = 30.0
# What anybody may know of a failure, by the begin of SQLite's name for it.
REASONS = (
    ("SQLITE_FULL", "disk full"),
    ("SQLITE_IOERR", "disk I/O error"),
    ("SQLITE_READONLY", "read-only disk"),
    ("SQLITE_BUSY", "locked by another process"),
)
PRAGMAS = (
    "PRAGMA journal_mode = WAL",  # readers and the writer don't wait for each other
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",  # what is committed survives a power cut
    "PRAGMA journal_size_limit = 67108864",  # what a long snapshot held back is given back
)


class Sqlite:
    """One thread writes and a few read, each with a connection of its own.

    Writes that wait together are committed together: the disk is waited for once. Each has its
    savepoint, so one that fails takes no other with it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # What devices publish says something about their rows: for the owner's eyes only.
        path.touch(mode=0o600)
        self._connection = _connect(path)
        self._waiting: deque[Job] = deque()
        self._writer = ThreadPoolExecutor(1, "elmgrove-store-writer")
        self._idle = [_connect(path) for _ in range(READERS)]
        self._readers = ThreadPoolExecutor(READERS, "elmgrove-store-reader")

    async def write(self, federation: str, operation: Operation[T]) -> T:
        """Runs an operation alone among the writes to a federation; see ``Database``."""
        future: Future[T] = Future()
        self._waiting.append((operation, future))
        # One flush for each: those that find nothing left have nothing to do.
        self._writer.submit(self._flush)
        return await asyncio.wrap_future(future)

    def _flush(self) -> None:
        batch: list[Job] = []
        while self._waiting and len(batch) < BATCH:
            operation, future = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                batch.append((operation, future))
        if not batch:
            return
        try:
            answers = self._commit(batch)
        except Exception as error:  # each caller gets it: this thread has nobody to tell
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            answers = [partial(future.set_exception, _translate(error)) for _, future in batch]
        for answer in answers:
            answer()

    def _commit(self, batch: list[Job]) -> list[Callable[[], None]]:
        """What to tell each caller, refusals too: they may depend on what was not yet committed."""
        self._connection.execute("BEGIN IMMEDIATE")
        answers = [self._attempt(operation, future) for operation, future in batch]
        self._connection.execute("COMMIT")
        return answers

    def _attempt(self, operation: Operation[T], future: Future[T]) -> Callable[[], None]:
        self._connection.execute("SAVEPOINT attempt")
        try:
            answer = partial(future.set_result, _drive(self._connection, operation))
        except Exception as error:  # whatever it was, it is this caller's alone
            if not self._connection.in_transaction:
                raise  # the disk is full or broken, and SQLite undid the others as well
            self._connection.execute("ROLLBACK TO attempt")
            answer = partial(future.set_exception, _translate(error))
        self._connection.execute("RELEASE attempt")
        return answer

    async def read(self, operation: Operation[T]) -> T:
        """Runs an operation on one unchanging state; see ``Database``."""
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, self._read, operation
        )

    def _read(self, operation: Operation[T]) -> T:
        connection = self._idle.pop()  # there are as many as threads
        try:
            with _translated():
                connection.execute("BEGIN")
                try:
                    return _drive(connection, operation)
                finally:
                    connection.execute("ROLLBACK")
        finally:
            self._idle.append(connection)

    @asynccontextmanager
    async def stream(
        self, operation: Operation[T], statement: Statement
    ) -> AsyncIterator[tuple[T, AsyncIterator[Any]]]:
        """Gives the rows of one unchanging state, few at a time; see ``Database``."""
        # A thread of its own: a slow reader of blobs keeps nobody waiting, and the connection is
        # closed only after the fetch that a cancelled caller left behind.
        loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "elmgrove-store-stream")
        with _translated():
            connection = _connect(self._path)

        def begin() -> tuple[T, sqlite3.Cursor]:
            with _translated():
                connection.execute("BEGIN")
                return _drive(connection, operation), _execute(connection, statement)

        def fetch(cursor: sqlite3.Cursor) -> list[Any]:
            with _translated():
                return cursor.fetchmany(AHEAD)

        async def rows(cursor: sqlite3.Cursor) -> AsyncIterator[Any]:
            while some := await loop.run_in_executor(thread, fetch, cursor):
                for row in some:
                    yield row

        try:
            result, cursor = await loop.run_in_executor(thread, begin)
            yield result, rows(cursor)
        finally:
            await loop.run_in_executor(thread, connection.close)
            thread.shutdown()

    async def close(self) -> None:
        """Lets what was begun end, then closes the data base."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        for connection in (*self._idle, self._connection):
            connection.close()


async def open_sqlite(path: Path) -> Sqlite:
    """Opens or makes the file; its folder must exist."""
    with _translated(f"{path}: "):
        database = await asyncio.to_thread(Sqlite, path)
    try:
        await database.write("", prepare("TEXT", "BLOB"))
    except BaseException:  # cancelled as well: nobody else can close it
        await database.close()
        raise
    return database


def _connect(path: Path) -> sqlite3.Connection:
    # The threads share it one after the other, never at the same time.
    connection = sqlite3.connect(
        path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in PRAGMAS:
            _set(connection, pragma)
    except BaseException:  # whatever it was, nobody else can close it
        connection.close()
        raise
    return connection


def _set(connection: sqlite3.Connection, pragma: str) -> None:
    """Waits for other processes: to change to WAL, SQLite itself does not wait."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute(pragma)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _drive(connection: sqlite3.Connection, operation: Operation[T]) -> T:
    try:
        statement = next(operation)
        while True:
            statement = operation.send(_execute(connection, statement).fetchall())
    except StopIteration as done:
        result: T = done.value
        return result


def _execute(connection: sqlite3.Connection, statement: Statement) -> sqlite3.Cursor:
    text, *arguments = statement
    # To SQLite $1 is a parameter with the name "1".
    return connection.execute(text, {str(n): value for n, value in enumerate(arguments, 1)})


@contextmanager
def _translated(name: str = "") -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise _translate(error, name) from error


def _translate(error: Exception, name: str = "") -> Exception:
    if isinstance(error, (OSError, sqlite3.Error)):
        # SQLite does not tell the system's error number, but a name that is as precise.
        code = getattr(error, "sqlite_errorname", None)
        said = f"{error} ({code})" if code else str(error)
        reason = next((words for begin, words in REASONS if (code or "").startswith(begin)), "")
        return StoreUnavailable(f"{name}the store's SQLite file can't be used: {said}", reason)
    return error
