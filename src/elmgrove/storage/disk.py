"""Files on disk that are written whole or not at all, and locks.

What a file holds is not known here: it comes as bytes, and the caller's ``read`` makes sense of it.
"""

import errno
import importlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from elmgrove.errors import BadFile, InUse

# Only POSIX has locks of files.
fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None
T = TypeVar("T")
#: A file's path as programs give it.
FilePath = str | os.PathLike[str]
# The mode of files for their owner's eyes only.
_PRIVATE = 0o600


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
    with written(path, blob, private=private):
        pass


@contextmanager
def written(path: Path, blob: bytes, *, private: bool = False) -> Iterator[None]:
    """Puts bytes on disk, and in the file's place once all inside ``with`` went well.

    Inside, they are safe under a temporary name: what the disk has no room for failed before. A
    path that is a link stays one, and the file that it leads to is written.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with _errors_name(path):
            _fill(temporary, blob, _PRIVATE if private else 0o666)
        yield
        with _errors_name(path):
            if target.exists():
                # A user who may not read the old one may not read the new one.
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
            _sync_folder(target.parent)
    except BaseException:  # interrupted as well: leaves no temporary file
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def takes_nothing(error: OSError) -> bool:
    """Says whether a disk is there but takes nothing at the moment: full, read-only or broken.

    All else is a mistake in a path or a permission, for somebody to mend.
    """
    # Full, over a quota, too large for a limit, read-only, or broken.
    return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def load(path: Path, read: Callable[[bytes], T]) -> T:
    """Reads a file by ``read``, such as ``Member.from_bytes``; an error names the file."""
    try:
        return read(path.read_bytes())
    except BadFile as error:
        raise BadFile(f"{path}: {error}") from error


class Lock:
    """Keeps other processes from changing a file, from ``take`` to ``free``.

    The process holds a file beside it (``.fan-1.elm.lock``), so the lock is free again when the
    process ends, in whatever way. Where the system has no such locks, nothing is prevented.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        target = Path(os.path.realpath(path))
        self._lock = target.with_name(f".{target.name}.lock")
        self._file: BinaryIO | None = None

    def take(self) -> None:
        """Takes the lock, if it is not taken here already; ``InUse`` if another process has it.

        Removes what a process left behind that was killed while it wrote the file.
        """
        if fcntl is None or self._file is not None:
            return
        with _errors_name(self._path):
            self._file = _held(self._lock, self._path)
        remove_leftovers(self._path)

    def free(self) -> None:
        """Lets others have it."""
        if self._file is not None:
            with suppress(OSError):
                self._lock.unlink(missing_ok=True)
            self._file.close()
            self._file = None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes from changing a file inside ``with``; ``InUse`` if one has it."""
    lock = Lock(path)
    lock.take()
    try:
        yield
    finally:
        lock.free()


def remove_leftovers(path: Path) -> None:
    """Removes temporary files of a process that was killed while it wrote this file.

    Call it where nobody else can be writing: with the lock.
    """
    target = Path(os.path.realpath(path))
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}")
    with suppress(OSError):
        for found in target.parent.iterdir():
            if ours.fullmatch(found.name):
                found.unlink(missing_ok=True)


def _fill(path: Path, blob: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(blob)
        file.flush()
        os.fsync(file.fileno())


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
        # For its owner alone: whoever could open it could hold the lock.
        file = os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, _PRIVATE), "r+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise InUse(
                f"{path} is in use by another process (a running agent?); stop it first"
            ) from error
        # The process that held it before may have removed it between the two steps.
        found = os.fstat(file.fileno())
        if lock.exists() and os.path.samestat(lock.stat(), found):
            if stat.S_IMODE(found.st_mode) != _PRIVATE and found.st_uid == os.geteuid():
                os.fchmod(file.fileno(), _PRIVATE)
            return file
        file.close()


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Makes errors name the file that the user knows, not one beside it, nor none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
