"""Disks that take nothing more: by a limit on the size of files, or mounted so."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest


@contextmanager
def full_for(process: int, most: int) -> Iterator[None]:
    """Lets no file of a process grow beyond so many bytes: what more is written fails."""
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)


def full(most: int = 0) -> AbstractContextManager[None]:
    """The same for this process."""
    return full_for(os.getpid(), most)


class Disk:
    """A small file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)


@pytest.fixture(name="disk")
def disk_fixture(tmp_path: Path) -> Iterator[Disk]:
    """One of 64 kB; only root may mount it."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "elmgrove-test", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a file system here")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
