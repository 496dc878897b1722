"""Files on disk that are written whole or not at all, and locks.

What a file holds is not known here: it comes as bytes, and the caller's ``read`` makes sense of it.
"""

import importlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from elmgrove.errors import BadFile, BadInput

# Only POSIX has locks of files.
fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None
T = TypeVar("T")
#: A file's path as programs give it.
FilePath = str | os.PathLike[str]


class InUse(BadInput):
    """A file that another process keeps others from changing."""


class Content(Protocol):
    """Something that can be saved: its bytes, and whether only their owner may read them."""

    @property
    def private(self) -> bool:
        """Whether a new file is for its owner's eyes only."""
        ...

    def to_bytes(self) -> bytes:
        """Gives all of it as the bytes of a file."""
        ...


def as_path(path: FilePath) -> Path:
    """Gives a path as an object."""
    return Path(path)


def save(path: Path, content: Content) -> None:
    """Saves to a file, atomically: after a crash it is the old one or the new one."""
    write(path, content.to_bytes(), private=content.private)


def write(path: Path, blob: bytes, *, private: bool = False) -> None:
    """Writes bytes to a file, atomically; only its owner may read a new one that is ``private``."""
    with _errors_name(path):
        _replace(path, blob, 0o600 if private else 0o666)


def load(path: Path, read: Callable[[bytes], T]) -> T:
    """Reads a file by ``read``, such as ``Member.from_bytes``; an error names the file."""
    try:
        return read(path.read_bytes())
    except BadFile as error:
        raise BadFile(f"{path}: {error}") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes from changing a file inside ``with``; ``InUse`` if one has it.

    The process holds a file beside it (``.fan-1.elm.lock``), so the lock is free again when the
    process ends, in whatever way. Where the system has no such locks, nothing is prevented.
    """
    if fcntl is None:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    with _errors_name(path):
        file = _held(lock, path)
    with file:
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


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
            # A user who may not read the old one may not read the new one.
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:  # interrupted as well: leaves no temporary file
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


def _held(lock: Path, path: Path) -> BinaryIO:
    while True:
        file = lock.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise InUse(
                f"{path} is in use by another process (a running agent?); stop it first"
            ) from error
        # The process that held it before may have removed it between the two steps.
        if lock.exists() and os.path.samestat(lock.stat(), os.fstat(file.fileno())):
            return file
        file.close()


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Makes errors name the file that the user knows, not one beside it, nor none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
