"""Processes to be killed: forked from one that has everything imported, so that many can start."""

import asyncio
import multiprocessing
from multiprocessing.connection import Connection

from elmgrove.server.store.store import Store, open_store

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["__main__", "elmgrove.server.app", "support.forked"])


def write_until_killed(url: str, federation: str, told: Connection) -> None:
    """Four devices put into a store as fast as they can; ``told`` hears what was acknowledged."""
    asyncio.run(_write_all(url, federation, told))


async def _write_all(url: str, federation: str, told: Connection) -> None:
    store = await open_store(url)
    await asyncio.gather(*(_write(store, federation, origin, told) for origin in "abcd"))


async def _write(store: Store, federation: str, origin: str, told: Connection) -> None:
    blob = origin.encode() * 30_000
    while True:
        made = await store.put(federation, origin, 1, 1.0, blob, 1.0, successor=lambda held: True)
        told.send((origin, made.revision))
