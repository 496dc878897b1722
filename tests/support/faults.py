"""Disks that take nothing more: by a limit on the size of files, or mounted so."""

import asyncio
import multiprocessing
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from elmgrove.cli.feedback import Device
from elmgrove.device import agent
from elmgrove.device.settings import Settings
from elmgrove.server.store.store import Store, open_store


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


# Processes to be killed: forked from one that has everything imported, so that many can start.


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["__main__", "elmgrove.exchange.http", "elmgrove.server.app", "support.faults"]
)


def ask(state: str, action: str, words: dict[str, Any], told: Connection) -> None:
    """Asks a device; ``told`` hears when it begins and when it is done."""
    told.send("begins")
    Device(Path(state)).ask(action, **words)
    told.send("done")


def run_agent(settings: dict[str, Any], patience: float = agent.PATIENCE) -> None:
    """Runs an agent, which at its end waits at most so long for a last sync."""
    agent.PATIENCE = patience
    agent.Agent(Settings(**settings)).run()


def write_until_killed(url: str, federation: str, told: Connection) -> None:
    """Four devices put into a store as fast as they can; ``told`` hears what was acknowledged."""
    asyncio.run(_write_all(url, federation, told))


async def _write_all(url: str, federation: str, told: Connection) -> None:
    store = await open_store(url)
    await asyncio.gather(*(_write(store, federation, origin, told) for origin in "abcd"))


async def _write(store: Store, federation: str, origin: str, told: Connection) -> None:
    blob = origin.encode() * 30_000
    while True:
        made = await store.contributions.put(
            federation, origin, 1, 1.0, blob, 1.0, successor=lambda held: True
        )
        told.send((origin, made.revision))
