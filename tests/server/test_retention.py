"""What is too old is deleted, and a clock that jumps deletes nothing."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from elmgrove.server.app import keep_deleting
from elmgrove.server.store.store import Store
from support.reports import event, minute, report
from support.serving import charter, serving

pytestmark = pytest.mark.anyio

DAY = 86400.0
#: Seconds of an hour.
EVERY = 0.02
#: A clock that can be set: what time.time says beyond the true time, in days.
Ahead = Callable[[float], None]


@pytest.fixture(name="ahead")
def ahead_fixture(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    true, seconds = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: true() + seconds[0])

    def set_clock(days: float) -> None:
        seconds[0] = days * DAY

    return set_clock


@asynccontextmanager
async def deleting(store: Store, days: float, *ages: float) -> AsyncIterator[None]:
    """Deletes what is older, of devices that were last heard of so many days ago as well."""
    for age in ages:
        told = report(str(age), minutes=(minute(),), events=(event(1),))
        await store.reports.put("fans", told, time.time() - age * DAY)
    task = asyncio.create_task(keep_deleting(store, days, EVERY))
    yield
    assert not task.done()
    task.cancel()


async def minutes(store: Store, device: str) -> int:
    return len(await store.reports.minutes("fans", device, 0, 1e12))


def test_a_server_that_starts_with_its_clock_ahead_deletes_nothing_at_once(
    database: str, ahead: Ahead
) -> None:
    with serving(database) as running:
        name = running.found(charter()).charter.name
    ahead(400)
    with serving(database) as running:
        assert [one.act for one in running.audit(name)] == ["made"]


async def test_a_clock_that_jumps_ahead_and_back_deletes_nothing(
    store: Store, ahead: Ahead, caplog: pytest.LogCaptureFixture
) -> None:
    async with deleting(store, 365.0, 1, 360):
        await asyncio.sleep(0.2)
        for days in (400, -400, 0, 400, 0):
            # A look sees each of them, and none is there for two looks in a row.
            ahead(days)
            await asyncio.sleep(EVERY)
        await asyncio.sleep(0.2)
    assert await minutes(store, "1") == 1
    assert [one.act for one in await store.audit.records("fans", 9)] == ["made"]
    assert await store.reports.get("fans", "360") is not None
    assert "the clock jumped by" in caplog.text


async def test_what_is_too_old_is_deleted_by_a_running_server(store: Store) -> None:
    async with deleting(store, 90.0, 91, 8, 6):
        while await store.reports.get("fans", "91") is not None:
            await asyncio.sleep(0.01)
    assert [await minutes(store, name) for name in ("91", "8", "6")] == [0, 0, 1], "a week"
    found = await store.reports.event_times("fans", ["91", "8", "6"], 0, 1e12, 9)
    assert {one.device for one in found} == {"8", "6"}


async def test_records_that_are_too_old_are_deleted_but_for_the_last(store: Store) -> None:
    await store.audit.add("fans", "server", "tried", {})
    async with deleting(store, 1e-9):
        while len(await store.audit.records("fans", 9)) > 1:
            await asyncio.sleep(0.01)
    assert [one.number for one in await store.audit.records("fans", 9)] == [2]


async def test_with_0_days_nothing_is_deleted() -> None:
    store: Any = None  # is not asked
    await keep_deleting(store, 0.0, EVERY)


async def test_errors_do_not_end_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[tuple[float, ...]] = []

    async def expire(*until: float) -> int:
        calls.append(until)
        raise OSError("gone")

    monkeypatch.setattr(store.reports, "expire", expire)
    with caplog.at_level(logging.ERROR):
        async with deleting(store, 7.0):
            while len(calls) < 2:
                await asyncio.sleep(0.01)
    assert "could not be deleted" in caplog.text
