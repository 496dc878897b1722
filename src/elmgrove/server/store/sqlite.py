"""The data base SQLite, through the standard library."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from elmgrove.errors import StoreUnavailable
from elmgrove.server.store.database import Rows, Transaction, prepare

T = TypeVar("T")
Statement = tuple[str, tuple[Any, ...]]


class Sqlite:
    """One connection writes and a few read, each in a thread of its own.

    Writes take turns. Those that follow each other at once are committed together, so the disk is
    waited for once; each has its savepoint, so one that fails takes no other with it.
    """

    READERS = 4
    #: Writes that are committed together, at most.
    MOST_TOGETHER = 64

    def __init__(self, path: Path) -> None:
        self._path = path
        # Contributions say something about rows: for the owner's eyes only.
        path.touch(mode=0o600)
        self._writer = _Connection(path)
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._group: _Group | None = None
        self._idle = [_Connection(path) for _ in range(self.READERS)]
        self._readers = asyncio.Semaphore(self.READERS)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        async with self._readers:
            connection = self._idle.pop()
            try:
                yield _Transaction(connection, connection.read)
            finally:
                connection.post(connection.roll_back)
                self._idle.append(connection)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        connection = _Connection(self._path)
        try:
            yield _Transaction(connection, connection.read)
        finally:
            await connection.close()

    @asynccontextmanager
    async def write(self, federation: str) -> AsyncIterator[Transaction]:
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
            self._commit_if_last()  # where this one was cancelled
        group = self._group = self._group or _Group(self._writer)
        group.count += 1
        self._writer.post(group.begin)
        tx, is_done = _Transaction(self._writer, group.run), False
        try:
            yield tx
            is_done = True
        finally:
            self._writer.post(lambda: group.end(tx, is_done))
            if group.count >= self.MOST_TOGETHER:
                self._commit()
            self._turn.release()
            self._commit_if_last()
            # What failed as well: it may have seen what is not committed yet.
            await asyncio.shield(group.committed)
            if tx.failure is not None:
                raise tx.failure

    def _commit_if_last(self) -> None:
        if not self._waiting and not self._turn.locked():
            self._commit()

    def _commit(self) -> None:
        if self._group is not None:
            self._writer.call(self._group.commit, self._group.committed)
            self._group = None

    async def close(self) -> None:
        async with self._turn:
            self._commit()
        for _ in range(self.READERS):
            await self._readers.acquire()
        await asyncio.gather(*(one.close() for one in (*self._idle, self._writer)))


class _Connection:
    """A connection and the thread that uses it, for one piece of work after the other.

    So what is to end a transaction comes after what a cancelled caller left behind.
    """

    def __init__(self, path: Path) -> None:
        with _translated(f"{path}: "):
            self._sqlite = _connect(path)
        self._work = SimpleQueue[Callable[[], None] | None]()
        Thread(target=self._run, name="elmgrove-store", daemon=True).start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def post(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    def call(
        self, work: Callable[[], T], future: asyncio.Future[T] | None = None
    ) -> asyncio.Future[T]:
        """Have something done; its result or error is the future's."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future() if future is None else future

        def done() -> None:
            result, raised = None, None
            try:
                with _translated():
                    result = work()
            except Exception as error:  # whatever it was, it is the caller's
                raised = error
            with suppress(RuntimeError):  # nobody waits after the loop's end
                loop.call_soon_threadsafe(_settle, answer, result, raised)

        self._work.put(done)
        return answer

    @property
    def in_transaction(self) -> bool:
        return self._sqlite.in_transaction

    def execute(self, statements: Sequence[Statement]) -> sqlite3.Cursor:
        cursor = self._sqlite.cursor()
        for text, arguments in statements:
            # To SQLite $1 is a parameter with the name "1".
            cursor.execute(text, {str(n): value for n, value in enumerate(arguments, 1)})
        return cursor

    def read(self, statements: Sequence[Statement]) -> sqlite3.Cursor:
        if not self.in_transaction:
            self._sqlite.execute("BEGIN")
        return self.execute(statements)

    def roll_back(self) -> None:
        if self.in_transaction:
            self._sqlite.execute("ROLLBACK")

    async def close(self) -> None:
        closed = self.call(self._sqlite.close)
        self._work.put(None)
        await asyncio.shield(closed)


class _Group:
    """Writes that are committed together; all but ``committed`` is the business of the thread."""

    def __init__(self, connection: _Connection) -> None:
        self.count = 0
        self.committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._failure: Exception | None = None

    def begin(self) -> None:
        with suppress(Exception):  # the next statement raises it
            if not self._connection.in_transaction:
                self.run([("BEGIN IMMEDIATE", ())])
            self.run([("SAVEPOINT one", ())])

    def run(self, statements: Sequence[Statement]) -> sqlite3.Cursor:
        if self._failure is not None:
            raise self._failure
        try:
            return self._connection.execute(statements)
        except Exception as error:
            # On a disk that is full or broken SQLite undoes the others' writes as well.
            if not self._connection.in_transaction:
                self._failure = error
            raise

    def end(self, tx: "_Transaction", is_done: bool) -> None:
        try:
            if is_done:
                with _translated():
                    self.run([*tx.unsent, ("RELEASE one", ())])
                return
        except Exception as error:  # whatever it was, it is this caller's alone
            tx.failure = error
        with suppress(Exception):  # the commit raises it
            self.run([("ROLLBACK TO one", ()), ("RELEASE one", ())])

    def commit(self) -> None:
        try:
            self.run([("COMMIT", ())])
        finally:
            self._connection.roll_back()


class _Transaction:
    def __init__(
        self, connection: _Connection, run: Callable[[Sequence[Statement]], sqlite3.Cursor]
    ) -> None:
        self._connection = connection
        self._run = run
        #: What is sent with the next ``fetch``: each way to the thread and back takes a while.
        self.unsent: list[Statement] = []
        #: What went wrong with that at the end.
        self.failure: Exception | None = None

    async def fetch(self, statement: str, *arguments: Any) -> Rows:
        cursor = self._with_unsent(statement, arguments)
        return await self._connection.call(lambda: cursor().fetchall())

    async def execute(self, statement: str, *arguments: Any) -> None:
        self.unsent.append((statement, arguments))

    async def stream(self, statement: str, *arguments: Any) -> AsyncIterator[Sequence[Any]]:
        cursor = await self._connection.call(self._with_unsent(statement, arguments))
        while rows := await self._connection.call(lambda: cursor.fetchmany(4)):
            for row in rows:
                yield row

    def _with_unsent(
        self, statement: str, arguments: tuple[Any, ...]
    ) -> Callable[[], sqlite3.Cursor]:
        statements, self.unsent = [*self.unsent, (statement, arguments)], []
        return lambda: self._run(statements)


async def open_sqlite(path: Path) -> Sqlite:
    with _translated(f"{path}: "):
        database = await asyncio.to_thread(Sqlite, path)
    try:
        async with database.write("") as tx:
            await prepare(tx, "TEXT", "BLOB")
    except BaseException:  # cancelled as well: nobody else can close it
        await database.close()
        raise
    return database


def _connect(path: Path) -> sqlite3.Connection:
    patience = 30.0  # for another process that writes to the same file
    connection = sqlite3.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False
    )
    try:
        until = time.monotonic() + patience
        for pragma in (
            "PRAGMA page_size = 16384",  # of a new file: a contribution is on fewer pages
            "PRAGMA journal_mode = WAL",  # readers and the writer don't wait for each other
            "PRAGMA foreign_keys = ON",
            "PRAGMA wal_autocheckpoint = 256",  # pages, 4 MiB
            "PRAGMA synchronous = FULL",  # what is committed survives a power cut
            "PRAGMA journal_size_limit = 67108864",  # what a long snapshot held back is given back
        ):
            _set(connection, pragma, until)
    except BaseException:  # whatever it was, nobody else can close it
        connection.close()
        raise
    return connection


def _set(connection: sqlite3.Connection, pragma: str, until: float) -> None:
    """Wait for other processes: to change to WAL, SQLite itself does not wait."""
    while True:
        try:
            connection.execute(pragma)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _settle(future: asyncio.Future[Any], result: Any, raised: Exception | None) -> None:
    if future.done():  # its caller was cancelled
        return
    if raised is None:
        future.set_result(result)
    else:
        future.set_exception(raised)
        future.exception()  # where nobody waits any more, the loop must not warn of it


@contextmanager
def _translated(name: str = "") -> Iterator[None]:
    try:
        yield
    except StoreUnavailable:
        raise
    except (OSError, sqlite3.Error) as error:
        # SQLite does not tell the system's error number, but a name that is as precise.
        code = getattr(error, "sqlite_errorname", None) or ""
        reasons = {
            "SQLITE_FULL": "disk full",
            "SQLITE_IOERR": "disk I/O error",
            "SQLITE_READONLY": "read-only disk",
            "SQLITE_BUSY": "locked by another process",
        }
        reason = next((reasons[begin] for begin in reasons if code.startswith(begin)), "")
        text = f"{error} ({code})" if code else str(error)
        raise StoreUnavailable(
            f"{name}the store's SQLite file can't be used: {text}", reason
        ) from error
