"""Files on disk, whole or not at all; what they hold is for their readers to know."""

import importlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from elmgrove.errors import BadFile, BadInput

# Only POSIX has it.
fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None
T = TypeVar("T")


class Content(Protocol):
    """What can be saved: its bytes, and whether they are for their owner's eyes only."""

    @property
    def private(self) -> bool: ...
    def to_bytes(self) -> bytes: ...


def save(path: Path, content: Content) -> None:
    """Writes atomically: after a crash at any point the file is the old one or the new one."""
    write(path, content.to_bytes(), private=content.private)


def write(path: Path, blob: bytes, *, private: bool = False) -> None:
    """Puts bytes into a file, atomically; a new one is for its owner's eyes only if ``private``."""
    with _calling_it(path):
        _replace(path, blob, 0o600 if private else 0o666)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else changes this state meanwhile; ``BadInput`` if somebody is at it.

    A file beside it (``.fan-1.elm.lock``) is held by the process, so it is free again when the
    process ends, in whatever way. Where the system has no such locks, nothing is prevented.
    """
    if fcntl is None:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    with _calling_it(path):
        file = _held(lock, path)
    with file:
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _held(lock: Path, path: Path) -> BinaryIO:
    while True:
        file = lock.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise BadInput(
                f"{path} is in use by another process (a running agent?); stop it first"
            ) from error
        # Whoever held it before may have removed it between the two steps.
        if lock.exists() and os.path.samestat(lock.stat(), os.fstat(file.fileno())):
            return file
        file.close()


def load(path: Path, read: Callable[[bytes], T]) -> T:
    """What ``read`` (as ``Member.from_bytes``) makes of a file's bytes; an error names the file."""
    with _naming(path):
        return read(path.read_bytes())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except BadFile as error:
        raise BadFile(f"{path}: {error}") from error


@contextmanager
def _calling_it(path: Path) -> Iterator[None]:
    """An error speaks of the file that the user knows, not of one beside it, nor of none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, blob: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
        ) as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            # Who may not read the old one may not read the new one.
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:  # interrupted as well: no litter
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the new name itself survive a power cut, where the system lets folders be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
