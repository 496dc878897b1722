"""A store for tests, which is closed at the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from elmgrove.server.store import Store, open_store


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """Opens a store inside ``async with``."""
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()
