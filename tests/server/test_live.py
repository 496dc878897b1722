"""Live views: one thread at a time uses what is kept, even if one who asked is cancelled."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from elmgrove.errors import NotFound
from elmgrove.federation.aggregation import StandingOthers
from elmgrove.federation.selection import EVERYONE
from elmgrove.server.live_sums import (
    CorruptEntries,
    LiveFleet,
    LiveOther,
    Reader,
)
from elmgrove.server.store.federations import FederationRow
from elmgrove.server.store.store import Store
from support.reports import report
from support.serving import FANS, charter, opened

pytestmark = pytest.mark.anyio


async def test_what_is_kept_has_one_thread_at_a_time_even_if_one_is_cancelled(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = StandingOthers.others
    begun, going_on, at_work, most = threading.Event(), threading.Event(), 0, 0

    def slow(*asked: Any) -> Any:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        begun.set()
        assert going_on.wait(60)
        at_work -= 1
        return told(*asked)

    monkeypatch.setattr(StandingOthers, "others", slow)
    live = LiveOther(store, Reader(FANS, charter("fans"), CorruptEntries()))
    first = asyncio.create_task(live.others(1, "a", EVERYONE))
    assert await asyncio.to_thread(begun.wait, 60)
    first.cancel()
    second = asyncio.create_task(live.others(1, "b", EVERYONE))
    # Long enough for the second to begin, if it could.
    for _ in range(20):
        await store.ready()
    going_on.set()
    assert (await second).devices == 0
    with pytest.raises(asyncio.CancelledError):
        await first
    assert most == 1


async def test_who_asks_for_groups_that_take_long_gets_them_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = threading.Event()

    def slow(_: Any) -> dict[int, list[str]]:
        assert going_on.wait(60)
        return {1: ["fan-1"]}

    monkeypatch.setattr(StandingOthers, "grouped", property(slow))
    live = LiveOther(store, Reader(FANS, charter("fans"), CorruptEntries()))
    assert await live.grouped(0.01) is None
    assert await live.grouped(0.01) is None
    going_on.set()
    assert await live.grouped(60.0) == {1: ["fan-1"]}


# A live fleet: one who waits is told of each change, by this server or another, once a second

LONG = 60.0


@asynccontextmanager
async def running(store: Store) -> AsyncIterator[LiveFleet]:
    live = LiveFleet(store)
    task = asyncio.create_task(live.run())
    try:
        yield live
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), "it ended by itself"


async def tell(store: Store, name: str = "fan-1") -> None:
    await store.reports.put("fans", report(name), time.time())


async def test_what_another_server_took_is_noticed(store: Store, database: str) -> None:
    async with running(store) as live, opened(database) as other:
        seen = await store.fleet.marker("fans")
        waiting = [asyncio.create_task(live.wait("fans", seen)) for _ in range(20)]
        # Nothing happens for two looks, and nobody is told of anything.
        done, _ = await asyncio.wait(waiting, timeout=2.5)
        assert not done
        await tell(other)
        told = await asyncio.wait_for(asyncio.gather(*waiting), LONG)
        assert set(told) == {await store.fleet.marker("fans")}


async def test_what_this_server_took_is_told_before_the_next_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveFleet, "BETWEEN_LOOKS", 3600.0)
    async with running(store) as live:
        seen = await store.fleet.marker("fans")
        waiting = asyncio.create_task(live.wait("fans", seen))
        for _ in range(3):
            await asyncio.sleep(0.1)
        await tell(store)
        live.wake()
        assert await asyncio.wait_for(waiting, LONG) == await store.fleet.marker("fans")


async def test_one_is_told_once_a_second_however_much_comes(store: Store) -> None:
    async with running(store) as live:
        seen, times = await live.wait("fans", ""), list[float]()
        ends = asyncio.Event()

        async def flood() -> None:
            while not ends.is_set():
                await tell(store)
                live.wake()

        flooding = asyncio.create_task(flood())
        for _ in range(3):
            begun = time.monotonic()
            seen = await asyncio.wait_for(live.wait("fans", seen), LONG)
            times.append(time.monotonic() - begun)
        ends.set()
        await flooding
        assert min(times) >= LiveFleet.BETWEEN_CHANGES * 0.99


async def test_federations_are_apart_and_one_that_goes_is_told(store: Store) -> None:
    assert await store.federations.create(FederationRow("cars", {}, 0.0, None, "t", 1.0))
    async with running(store) as live:
        cars = asyncio.create_task(live.wait("cars", await store.fleet.marker("cars")))
        fans = asyncio.create_task(live.wait("fans", await store.fleet.marker("fans")))
        while set(live._markers) != {"cars", "fans"}:
            await asyncio.sleep(0.01)
        await store.federations.delete("fans")
        with pytest.raises(NotFound):
            await asyncio.wait_for(fans, LONG)
        assert not cars.done()
        cars.cancel()
        with pytest.raises(NotFound):
            await live.wait("vans", "")


async def test_while_nobody_waits_the_data_base_is_not_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    latest = store.fleet.marker

    async def counted(federation: str) -> str:
        nonlocal asked
        asked += 1
        return await latest(federation)

    monkeypatch.setattr(store.fleet, "marker", counted)
    async with running(store) as live:
        waiting = asyncio.create_task(live.wait("fans", await latest("fans")))
        while asked < 3:
            await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])
        live.wake()
        await asyncio.sleep(0.5)
        before = asked
        for _ in range(5):
            live.wake()
            await asyncio.sleep(0.2)
        assert asked == before
