"""A small disk that can be filled and emptied."""

import errno
import os
import resource
import subprocess
from collections.abc import Collection
from pathlib import Path

# Bytes that a file may have, where the disk can't be filled.
_FEW = 4096
_BLOCK = 1 << 20


class SmallDisk:
    """A folder whose disk fills: a file system of its own, where the user may mount one.

    Where not, the processes that write there are let write no large file: that needs no rights.
    """

    def __init__(self, path: Path, megabytes: int) -> None:
        path.mkdir()
        self.path = path
        self.is_full = False
        self.fills = 0
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "elmgrove-soak", str(path)]
        self.mounted = os.geteuid() == 0 and not _failed(mount)

    def fill(self) -> None:
        """Leaves no room."""
        self.is_full = True
        self.fills += 1
        if self.mounted:
            try:
                with self._ballast.open("ab", buffering=0) as file:
                    while True:
                        file.write(bytes(_BLOCK))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def empty(self) -> None:
        """Makes room again."""
        self.is_full = False
        if self.mounted:
            self._ballast.unlink(missing_ok=True)

    def hold(self, processes: Collection[int]) -> None:
        """Lets the disk be as full as it is for those that write there, new ones as well."""
        if not self.mounted:
            for process in processes:
                limit(process, _FEW if self.is_full else resource.RLIM_INFINITY)

    def close(self) -> None:
        """Takes the file system away."""
        if self.mounted:
            _failed(["umount", "--lazy", str(self.path)])

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"


def limit(process: int, most: int) -> None:
    """Lets no file of a process grow beyond so many bytes, if it is still there."""
    try:
        hard = resource.prlimit(process, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(process, resource.RLIMIT_FSIZE, (most, hard))
    except ProcessLookupError:
        pass


def _failed(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode != 0
