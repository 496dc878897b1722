"""A store with a large fleet that has told of itself: reports, minutes, events."""

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

from benchmarks.exchange.fleet import FEDERATION, Fleet, Size, name_of
from elmgrove.federation.audit import AuditRecord
from elmgrove.federation.report import Minute, Report
from elmgrove.server.store.database import Transaction
from elmgrove.server.store.store import Store, open_store

#: A small layer: pages do not depend on its size, and ten thousand are quickly in.
LAYER = Size(8, 8)
#: One device in so many has told a whole day of minutes; the others the last ten.
DAY_EACH = 100
#: The device with the most events that a page shows.
BUSIEST = 0
_EVENTS_OF_BUSIEST = 60
_TOGETHER = 64
_MINUTES_OF_DAY, _MINUTES = 1440, 10
_AT_ONCE = 20
_RECORDS_AT_ONCE, _RECORDS_TOGETHER, _DAY = 4000, 50, 86_400.0


def fill(url: str, devices: int, records: int) -> None:
    """Lets devices into a store, each with a contribution and what it tells of itself.

    Straight into the data base, while no server runs, by the operations that the server uses; but
    for the ``records`` of contributions in the day before, which are what is left of these.
    """
    asyncio.run(_record(url, devices, records))
    Fleet(LAYER).enter(url, devices)
    asyncio.run(_tell(url, devices))


async def _record(url: str, devices: int, records: int) -> None:
    store, begin, last = await open_store(url), time.time() - _DAY, None
    try:
        for first in range(0, records, _RECORDS_AT_ONCE):
            made = list[AuditRecord]()
            for number in range(first, min(first + _RECORDS_AT_ONCE, records)):
                name, at = name_of(number % devices), begin + _DAY * number / records
                detail = {"device": name, "epoch": number, "rows": 256.0, "size": 900}
                actor = f"device {name}"
                last = AuditRecord.after(last, FEDERATION, at, actor, "published", detail)
                made.append(last)
            async with store.database.write(FEDERATION) as tx:
                await _insert(tx, made)
    finally:
        await store.close()


async def _insert(tx: Transaction, records: list[AuditRecord]) -> None:
    for first in range(0, len(records), _RECORDS_TOGETHER):
        values = list[Any]()
        for one in records[first : first + _RECORDS_TOGETHER]:
            values += [one.federation, one.number, one.at, one.actor, one.act]
            values += [json.dumps(one.detail), one.hash]
        places = (
            f"({', '.join(f'${place + n}' for n in range(1, 8))})"
            for place in range(0, len(values), 7)
        )
        await tx.execute(f"INSERT INTO audit VALUES {', '.join(places)}", *values)


async def _tell(url: str, devices: int) -> None:
    store, now = await open_store(url), time.time()
    try:
        for first in range(0, devices, _TOGETHER):
            some = range(first, min(first + _TOGETHER, devices))
            await asyncio.gather(*(_told(store, device, now) for device in some))
        for first in range(1, _EVENTS_OF_BUSIEST, _AT_ONCE):
            numbers = range(first, first + _AT_ONCE)
            events = tuple(_event(n, now - 1200.0 * n, now) for n in numbers)
            await store.reports.put(
                FEDERATION, report_of(name_of(BUSIEST), BUSIEST, now, (), events), now
            )
    finally:
        await store.close()


async def _told(store: Store, device: int, now: float) -> None:
    """One in ten has had events today, one in fifty has one now, one in a hundred drifts."""
    is_open, last = device % 50 == 7, int(now // 60)
    events = tuple(_event(n, now - 4000.0 * n - 7 * device, now) for n in range(1, 4))
    events = events if device % 10 == 7 else ()
    if is_open:
        events += (_event(9, now - 600.0, None),)
    count = _MINUTES_OF_DAY if device % DAY_EACH == 0 else _MINUTES
    minutes = tuple(_minute(last - back, device) for back in range(count))
    told = report_of(name_of(device), device, now, minutes, events, 9 if is_open else None)
    await store.reports.put(FEDERATION, told, now - device % 90)


def report_of(
    name: str,
    device: int,
    now: float,
    minutes: tuple[Minute, ...],
    events: tuple[dict[str, Any], ...],
    number: int | None = None,
    **status: Any,
) -> Report:
    """Makes what a device tells of itself; ``number`` is that of its open event."""
    states = ("watching", "watching", "watching", "learning", "changing")
    known = {
        "name": name,
        "state": states[device % len(states)] if number is None else "watching",
        "learned": 100 + 37 * device % 90_000,
        "threshold": 1.5,
        "event": None if number is None else {"number": number},
        "drift": {"kind": "slow"} if device % 100 == 3 else None,
        "version": "0.2.0",
        "sync_seconds": 600.0,
    }
    return Report(name, now, known | status, minutes, events)


def _minute(minute: int, device: int) -> Minute:
    wave = (minute + device) % 60 / 100
    return Minute(minute, 60, 0, 1.5, (0.4 + wave, 0.8 + wave, 1.2 + wave, 1.4 + wave))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


def _event(number: int, begin: float, end: float | None) -> dict[str, Any]:
    cause = {"feature": f"column {number % 8}", "share": 0.9, "seen": 22.0, "expected": 31.0}
    return {
        "number": number,
        "begin": _iso(begin),
        "end": None if end is None else _iso(min(begin + 300.0, end)),
        "peak": 8.1 + number,
        "peak_at": _iso(begin),
        "threshold": 1.5,
        "rows": 31,
        "changing": False,
        "known": [],
        "causes": [{**cause, "ago": 0}],
        "text": f"event {number}: 31 rows anomalous; column {number % 8} 22 (not 31)",
    }
