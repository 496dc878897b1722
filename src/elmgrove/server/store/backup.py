"""Back-ups: all that a store holds as one file, made while servers go on, and put back."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmgrove.errors import BadFile, BadInput
from elmgrove.server.store import backup_sqlite
from elmgrove.server.store.holdings import Holdings, Tell
from elmgrove.server.store.store import sqlite_path

_SQLITE, _POSTGRES = b"SQLite format 3\0", b"PGDMP"


def back_up(store: str, path: Path, *, tell: Tell, force: bool = False) -> Holdings:
    """Writes one state of a store to a file, whole or not at all, and says what is in it.

    What devices were told to be stored before it began is there. It is for its owner's eyes only,
    and replaces no other file without ``force``. Devices' and administrators' secrets are in it as
    hashes. ``tell`` is called every now and then.
    """
    source = sqlite_path(store)
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise BadInput(f"{path} is the store itself")
    with _placed(path, force) as temporary:
        if source is None:
            _postgres().write(store, temporary, tell)
        else:
            backup_sqlite.write(source, temporary, tell)
        return examine(temporary, tell)


def examine(path: Path, tell: Tell) -> Holdings:
    """Reads all of a back-up and says what is in it; ``BadFile`` if it is none, or is damaged."""
    with path.open("rb") as file:
        head = file.read(len(_SQLITE))
    if head == _SQLITE:
        return backup_sqlite.holdings(path, tell)
    if head.startswith(_POSTGRES):
        held: Holdings = _postgres().holdings(path, tell)
        return held
    raise BadFile(f"{path} is no back-up of a store")


def restore(path: Path, store: str, *, tell: Tell, force: bool = False) -> Holdings:
    """Puts a back-up into a store, whole or not at all, and says what was in it.

    The back-up is read to its end first. A store that a server uses is never touched, and one that
    holds something is replaced with ``force`` alone.
    """
    held, target = examine(path, tell), sqlite_path(store)
    if held.is_sqlite != (target is not None):
        kinds = ("PostgreSQL", "SQLite")
        raise BadInput(
            f"{path} is a back-up of {kinds[held.is_sqlite]}, and can't be put into "
            f"{kinds[not held.is_sqlite]}"
        )
    if target is None:
        _postgres().restore(path, store, held, tell, force=force)
    else:
        backup_sqlite.restore(path, target, tell, force=force)
    return held


def _postgres() -> Any:
    # Here, because asyncpg is an extra.
    from elmgrove.server.store import backup_postgres

    return backup_postgres


@contextmanager
def _placed(path: Path, force: bool) -> Iterator[Path]:
    """Gives a temporary file beside a path, which takes its place if nothing was raised."""
    taken = BadInput(f"{path} is there already: choose another name, or --force to replace it")
    if path.exists() and not force:
        raise taken
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield temporary
        _sync(temporary)
        if force:
            temporary.replace(path)
        else:
            # Unlike a replacement, a link never takes the place of what came meanwhile.
            path.hardlink_to(temporary)
    except FileExistsError:
        raise taken from None
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
