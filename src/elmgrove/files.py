"""Members and contributions on disk: whole or not at all."""

import os
import tempfile
from pathlib import Path

from elmgrove.cooperation import Contribution, Member
from elmgrove.errors import BadFile


def save(path: Path, content: Member | Contribution) -> None:
    """Writes atomically: after a crash at any point the file is the old one or the new one."""
    blob = content.to_bytes()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def load_member(path: Path) -> Member:
    """A device's state; an error names the file."""
    try:
        return Member.from_bytes(path.read_bytes())
    except BadFile as error:
        raise BadFile(f"{path}: {error}") from error


def load_contribution(path: Path) -> Contribution:
    """Evidence that somebody gave away; an error names the file."""
    try:
        return Contribution.from_bytes(path.read_bytes())
    except BadFile as error:
        raise BadFile(f"{path}: {error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Makes the new name itself survive a power cut, where the system lets folders be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
