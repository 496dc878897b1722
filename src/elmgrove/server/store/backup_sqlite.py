"""Back-ups of a SQLite store, by SQLite's own online back-up."""

import errno
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from elmgrove.errors import BadFile, BadInput
from elmgrove.server.store.database import require_version
from elmgrove.server.store.holdings import Holdings, Tell, damaged, later, told
from elmgrove.storage import InUse

# Pages that are copied between two looks at the clock, and steps of SQLite between two.
_PAGES, _STEPS = 1024, 1_000_000
# Says when the back-up was made; a store has no such table, nor has a copy made by other means.
_MADE = "elmgrove_backup"


def write(store: Path, path: Path, tell: Tell) -> None:
    """Copies one unchanging state of a store into an empty file."""
    with (
        _translated(store),
        closing(_opened(store)) as source,
        closing(sqlite3.connect(path, isolation_level=None)) as target,
    ):
        # Held to the end, or SQLite would begin again with each write of a server.
        source.execute("BEGIN")
        require_version(_one(source, "SELECT max(version) FROM elmgrove_schema") or 0)
        _copy(source, target, tell)
        # One file, without others beside it.
        target.execute("PRAGMA journal_mode = DELETE")
        target.execute(f"DROP TABLE IF EXISTS {_MADE}")
        target.execute(f"CREATE TABLE {_MADE} AS SELECT ? AS at", [time.time()])


def holdings(path: Path, tell: Tell) -> Holdings:
    """Checks every page of a back-up, and says what is in it."""
    try:
        with closing(_opened(path, "ro")) as backup:
            backup.set_progress_handler(lambda: tell(None), _STEPS)
            for check in ("integrity_check", "foreign_key_check"):
                wrong = backup.execute(f"PRAGMA {check}").fetchone()
                if wrong not in (None, ("ok",)):
                    raise damaged(path, wrong[0])
            require_version(_one(backup, "SELECT max(version) FROM elmgrove_schema") or 0)
            known = _MADE in _tables(backup)
            return _counted(backup, told(_one(backup, f"SELECT at FROM {_MADE}")) if known else "")
    except sqlite3.Error as error:
        raise damaged(path, error) from error


def restore(path: Path, store: Path, tell: Tell, *, force: bool) -> None:
    """Puts a back-up that was found to be whole into a store that no server uses."""
    store.touch(mode=0o600)
    with closing(_opened(path, "ro")) as source, closing(_opened(store)) as target:
        _take(store, target)
        with _translated(store):
            if not force and _holds_something(target):
                raise BadInput(f"{store} holds {_counted(target, '')}: --force replaces all of it")
            # One transaction: after a crash the store is what it was.
            _copy(source, target, tell)
            target.execute(f"DROP TABLE IF EXISTS {_MADE}")
            target.execute("UPDATE federation SET created = created + ?", [later()])


def _take(store: Path, target: sqlite3.Connection) -> None:
    """Keeps servers out until the connection is closed."""
    try:
        target.execute("PRAGMA busy_timeout = 0")
        target.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Refused as long as another process has the file open, even if it does nothing.
        target.execute("PRAGMA journal_mode = DELETE")
        target.execute("BEGIN EXCLUSIVE")
        target.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise InUse(f"{store} is in use; stop the server first ({error})") from error
    except sqlite3.DatabaseError as error:
        raise BadFile(f"{store} is no store: {error}") from error


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, tell: Tell) -> None:
    def step(_: int, left: int, pages: int) -> None:
        tell(1.0 - left / max(pages, 1))

    source.backup(target, pages=_PAGES, progress=step)


def _opened(path: Path, mode: str = "rw") -> sqlite3.Connection:
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path))
    where = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(where, uri=True, isolation_level=None)


def _tables(store: sqlite3.Connection) -> set[str]:
    return {name for (name,) in store.execute("SELECT name FROM sqlite_schema")}


def _holds_something(store: sqlite3.Connection) -> bool:
    asked = _tables(store) & {"federation", "administrator", "audit"}
    return any(store.execute(f"SELECT 1 FROM {name}").fetchone() for name in asked)


def _counted(store: sqlite3.Connection, made: str) -> Holdings:
    newest = "FROM entry WHERE superseded IS NULL AND digest <> ''"
    return Holdings(
        True,
        _one(store, "SELECT count(*) FROM federation"),
        _one(store, "SELECT count(*) FROM device"),
        _one(store, f"SELECT count(*) {newest}"),
        _one(store, f"SELECT max(received) {newest}"),
        made,
    )


def _one(store: sqlite3.Connection, question: str) -> Any:
    return store.execute(question).fetchone()[0]


@contextmanager
def _translated(store: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise BadFile(f"{store} can't be read: {error}") from error
