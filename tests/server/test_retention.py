"""What is too old is deleted, and a clock that jumps deletes nothing."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from elmgrove.server.app import keep_deleting
from elmgrove.server.store.federations import FederationRow
from elmgrove.server.store.store import Store
from support.reports import event, minute, report
from support.serving import charter, opened, serving

DAY = 86400.0
#: Seconds of an hour.
EVERY = 0.02
#: A clock that can be set: what time.time says beyond the true time.
Ahead = Callable[[float], None]


@pytest.fixture(name="ahead")
def ahead_fixture(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    true, seconds = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: true() + seconds[0])

    def set_clock(days: float) -> None:
        seconds[0] = days * DAY

    return set_clock


def test_a_server_that_starts_with_its_clock_ahead_deletes_nothing_at_once(
    database: str, ahead: Ahead
) -> None:
    with serving(database) as running:
        name = running.found(charter()).charter.name
    ahead(400)
    with serving(database) as running:
        assert [one.act for one in running.audit(name)] == ["made"]


def test_a_clock_that_jumps_ahead_and_back_deletes_nothing(
    database: str, ahead: Ahead, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with opened(database) as store:
            await _old(store, ages=(1, 360))
            task = asyncio.create_task(keep_deleting(store, 365.0, EVERY))
            await asyncio.sleep(0.2)
            for days in (400, -400, 0, 400, 0):
                # A look sees each of them, and none is there for two looks in a row.
                ahead(days)
                await asyncio.sleep(EVERY)
            await asyncio.sleep(0.2)
            task.cancel()
            assert len(await store.reports.minutes("fans", "1", 0, 1e12)) == 1
            assert [one.act for one in await store.audit.records("fans", 9)] == ["made"]
            assert await store.reports.get("fans", "360") is not None

    asyncio.run(run())
    assert "the clock jumped by" in caplog.text


def test_what_is_too_old_is_deleted_by_a_running_server(database: str) -> None:
    async def run() -> None:
        async with opened(database) as store:
            await _old(store, ages=(91, 8, 6))
            task = asyncio.create_task(keep_deleting(store, 90.0, EVERY))
            while await store.reports.get("fans", "91") is not None:
                await asyncio.sleep(0.01)
            task.cancel()
            kept = {}
            for device in ("91", "8", "6"):
                kept[device] = len(await store.reports.minutes("fans", device, 0, 1e12))
            assert kept == {"91": 0, "8": 0, "6": 1}, "minutes stay a week"
            found = await store.reports.event_times("fans", ["91", "8", "6"], 0, 1e12, 9)
            assert {one.device for one in found} == {"8", "6"}

    asyncio.run(run())


def test_records_that_are_too_old_are_deleted_but_for_the_last(database: str) -> None:
    async def run() -> None:
        async with opened(database) as store:
            await _old(store, ages=())
            await store.audit.add("fans", "server", "tried", {})
            task = asyncio.create_task(keep_deleting(store, 1e-9, EVERY))
            while len(await store.audit.records("fans", 9)) > 1:
                await asyncio.sleep(0.01)
            task.cancel()
            assert [one.number for one in await store.audit.records("fans", 9)] == [2]

    asyncio.run(run())


def test_with_0_days_nothing_is_deleted() -> None:
    store: Any = None  # is not asked
    asyncio.run(keep_deleting(store, 0.0, EVERY))


def test_errors_do_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[tuple[float, ...]] = []

    class Failing:
        def __init__(self) -> None:
            self.reports = self

        async def expire(self, *until: float) -> int:
            calls.append(until)
            raise OSError("gone")

    async def run() -> None:
        store: Any = Failing()
        task = asyncio.create_task(keep_deleting(store, 7.0, EVERY))
        while len(calls) < 2:
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "could not be deleted" in caplog.text


async def _old(store: Store, ages: tuple[float, ...]) -> None:
    """Makes a federation with devices that were last heard of so many days ago."""
    assert await store.federations.create(FederationRow("fans", {}, 1e-3, None, "t", 1.0))
    for days in ages:
        told = report(str(days), minutes=(minute(),), events=(event(1),))
        await store.reports.put("fans", told, time.time() - days * DAY)
