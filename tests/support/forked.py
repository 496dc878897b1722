"""Processes to be killed: forked from one that has everything imported, so that many can start."""

import asyncio
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from elmgrove.cli.running import Device
from elmgrove.device import agent
from elmgrove.device.settings import Settings
from elmgrove.server.store.store import Store, open_store

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["__main__", "elmgrove.exchange.http", "elmgrove.server.app", "support.forked"]
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
