"""What is too old is deleted, and a clock that jumps deletes nothing."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from elmgrove.server import app
from elmgrove.server.store.federations import FederationRow
from elmgrove.server.store.store import Store
from support.reports import event, minute, report
from support.serving import FANS, charter, opened, serving, wait_until

DAY = 86400.0
#: A clock that can be set: what time.time says beyond the true time.
Ahead = Callable[[float], None]


@pytest.fixture(name="ahead")
def ahead_fixture(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    true, seconds = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: true() + seconds[0])

    def set_clock(days: float) -> None:
        seconds[0] = days * DAY

    return set_clock


@pytest.fixture(name="quick")
def quick_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour lasts 20 ms."""
    monkeypatch.setattr(app, "DELETE_EVERY", 0.02)


def test_a_server_that_starts_with_its_clock_ahead_deletes_nothing(
    database: str, ahead: Ahead
) -> None:
    with serving(database) as running:
        name = running.found(charter()).charter.name
    ahead(400)
    with serving(database) as running:
        wait_until(lambda: running.ask("GET", "/ready").status_code == 200)
        time.sleep(0.3)
    ahead(0)
    with serving(database) as running:
        assert [one.act for one in running.audit(name)] == ["made"]


@pytest.mark.usefixtures("quick")
def test_a_clock_that_jumps_ahead_and_back_deletes_nothing(
    database: str, ahead: Ahead, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with opened(database) as store:
            await _old(store, ages=(1, 360))
            task = asyncio.create_task(app.keep_deleting(store, 365.0, 365.0, 365.0))
            await asyncio.sleep(0.2)
            for days in (400, -400, 0, 400, 0):
                # A look sees each of them, and none is there for two looks in a row.
                ahead(days)
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)
            task.cancel()
            assert len(await store.reports.minutes("fans", "1", 0, 1e12)) == 1
            assert len(await store.reports.minutes("fans", "360", 0, 1e12)) == 1
            assert [one.act for one in await store.audit.records("fans", 9)] == ["made"]

    asyncio.run(run())
    assert "the clock jumped by" in caplog.text


@pytest.mark.anyio
async def test_the_time_that_ages_are_counted_by_follows_clocks_slowly(database: str) -> None:
    async with opened(database) as store:
        assert await store.federations.create(FANS)
        made = (await store.audit.records("fans", 1))[0].at
        assert await store.audit.advance_clock(made + 400 * DAY, DAY) == made, (
            "it begins with the oldest"
        )
        assert await store.audit.advance_clock(made + 400 * DAY, DAY) == made + DAY
    async with opened(database) as right, opened(database) as wrong:
        for _ in range(3):
            assert await wrong.audit.advance_clock(made + 400 * DAY, DAY) <= made + 2 * DAY
            assert await right.audit.advance_clock(made + DAY, DAY) == made + DAY
        for days in (2, 3, 4, 4, 4):
            reached = await right.audit.advance_clock(made + 4 * DAY, DAY)
            assert reached == made + days * DAY


@pytest.mark.usefixtures("quick")
def test_what_is_too_old_is_deleted_by_a_running_server(database: str) -> None:
    async def run() -> None:
        async with opened(database) as store:
            await _old(store, ages=(91, 8, 6))
            task = asyncio.create_task(app.keep_deleting(store, 365.0, 7.0, 90.0))
            while await store.reports.get("fans", "91") is not None:
                await asyncio.sleep(0.01)
            task.cancel()
            kept = {}
            for device in ("91", "8", "6"):
                kept[device] = len(await store.reports.minutes("fans", device, 0, 1e12))
            assert kept == {"91": 0, "8": 0, "6": 1}
            found = await store.reports.event_times("fans", ["91", "8", "6"], 0, 1e12, 9)
            assert {one.device for one in found} == {"8", "6"}

    asyncio.run(run())


@pytest.mark.usefixtures("quick")
def test_a_server_prunes_what_is_too_old(database: str) -> None:
    with serving(database) as running:
        name = running.found(charter()).charter.name
        before = running.audit(name)
        assert [one.act for one in before] == ["made"], "a year is kept"
    with serving(database, audit_days=1e-9) as running:
        wait_until(lambda: [one.act for one in running.audit(name)] == ["pruned"])
        assert running.audit(name)[0].detail["hash"] == before[0].hash


@pytest.mark.usefixtures("quick")
def test_with_0_days_nothing_is_deleted_and_errors_do_not_end_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[tuple[float, ...]] = []

    class Failing:
        def __init__(self) -> None:
            self.audit = self.reports = self

        async def advance_clock(self, now: float, most: float) -> float:
            return now

        async def expire(self, *until: float) -> int:
            calls.append(until)
            raise OSError("gone")

    async def run() -> None:
        store: Any = Failing()
        task = asyncio.create_task(app.keep_deleting(store, 0.0, 0.0, 0.0))
        while len(calls) < 2:
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert calls[0][:2] == (0.0, 0.0)
    assert "could not be deleted" in caplog.text


async def _old(store: Store, ages: tuple[float, ...]) -> None:
    """Makes a federation with devices that were last heard of so many days ago."""
    assert await store.federations.create(FederationRow("fans", {}, 1e-3, None, "t", 1.0))
    for days in ages:
        told = report(str(days), minutes=(minute(),), events=(event(1),))
        await store.reports.put("fans", told, time.time() - days * DAY)
