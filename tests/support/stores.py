"""Stores for tests: on each data base, with a federation in it, and closed at the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from elmgrove.server.store.federations import FederationRow
from elmgrove.server.store.store import Store, open_store

FANS = FederationRow("fans", {}, 1e-3, None, "t0", 12.5)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """Opens a store inside ``async with``."""
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def anyio_backend() -> str:
    """What tests that are coroutines run on."""
    return "asyncio"


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """One that holds the federation ``FANS``."""
    async with opened(database) as store:
        assert await store.federations.create(FANS)
        yield store
