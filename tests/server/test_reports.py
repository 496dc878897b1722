"""What devices tell of themselves, in the store: one contract, tested on each data base."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from elmgrove.federation.audit import require_unbroken
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.report import Minute, Report
from elmgrove.federation.schemas import MOST_EVENTS, MOST_RESULTS
from elmgrove.server.store.reports import Reports, StoredEvent
from elmgrove.server.store.store import Store
from support.reports import MINUTE, event, minute, report, status
from support.serving import FANS, enrol

pytestmark = pytest.mark.anyio

#: 2024-05-01T14:20:00Z, as an event begins.
NOON = 1714573200.0


async def minutes(store: Store, begin: int = 0, end: int = 2**32, device: str = "fan-1") -> Any:
    return await store.reports.minutes("fans", device, begin * 60.0, end * 60.0)


async def events(store: Store, *devices: str, begin: float = 0.0, end: float = 1e11) -> Any:
    wanted = devices or ("fan-1", "fan-2", "fan-3")
    found = await store.reports.event_times("fans", wanted, begin, end, 10_000)
    return [(one.device, one.number, one.begin, one.ended) for one in found]


@pytest.fixture(name="store")
async def store_fixture(store: Store) -> Store:
    """One that holds two federations of two devices."""
    assert await store.federations.create(replace(FANS, name="cars"))
    for federation in ("fans", "cars"):
        await enrol(store, "fan-1", "fan-2", federation=federation)
    return store


async def test_a_device_says_by_when_it_is_heard_of_again(store: Store) -> None:
    for every, silent_after in ((60.0, 100.0 + 210.0), (None, None), (0, 130.0)):
        await store.reports.put("fans", report(status=status(sync_seconds=every)), 100.0)
        told = await store.reports.get("fans", "fan-1")
        assert told is not None
        assert told.silent_after == silent_after


async def test_of_a_minute_that_is_told_again_the_last_counts(store: Store) -> None:
    first = report(minutes=tuple(minute(MINUTE + n, rows=10) for n in range(100)))
    again = report(minutes=tuple(minute(MINUTE + n, rows=60) for n in range(90, 130)))
    await store.reports.put("fans", first, 100.0)
    await store.reports.put("fans", again, 160.0)
    await store.reports.put("cars", first, 170.0)
    found = await minutes(store)
    assert [one[:2] for one in found] == [[MINUTE + n, 10 if n < 90 else 60] for n in range(130)]
    assert Minute.from_fields(found[0]) == minute(MINUTE, rows=10)


async def test_numbers_are_kept_as_precisely_as_anybody_sees_them(store: Store) -> None:
    fine = Minute(MINUTE, 9, 1, 1 / 3, (1e-300 / 3, 2 / 3, 1e5 + 1 / 3, 1.7976931348623157e308))
    await store.reports.put("fans", report(minutes=(fine,)), 1.0)
    [found] = await minutes(store)
    assert found[3:] == [pytest.approx(one, rel=1e-5) for one in (1 / 3, *fine.scores)]


async def test_two_that_tell_at_the_same_time_lose_no_minute(store: Store) -> None:
    """As a device does that restarts while its last request is under way."""
    told = [report(minutes=(minute(MINUTE + n),)) for n in range(40)]
    await asyncio.gather(*(store.reports.put("fans", one, 1.0) for one in told))
    assert [one[0] - MINUTE for one in await minutes(store)] == list(range(40))


async def test_a_device_that_tells_too_many_hours_keeps_the_newest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reports, "MOST_HOURS", 20)
    monkeypatch.setattr(Reports, "MOST_HOURS_AT_ONCE", 8)
    for first in (0, 10, 20, 30):
        told = tuple(minute(60 * (first + n)) for n in range(10))
        await store.reports.put("fans", report(minutes=told), 1.0)
    kept = [first + n for first in (0, 10, 20, 30) for n in range(2, 10)][-20:]
    assert [one[0] // 60 for one in await minutes(store)] == kept


async def test_an_event_is_one_however_often_it_is_told(store: Store) -> None:
    open_one = event(3)
    ended = event(3, end="2024-05-01T15:00:00Z", rows=90, peak=9.5)
    for told in (open_one, {**open_one, "rows": 60}, ended, ended):
        await store.reports.put("fans", report(events=(told,)), 100.0)
    assert await store.reports.events("fans", "fan-1", 0.0, 1e11, 9) == [
        StoredEvent("fan-1", 3, NOON, NOON + 2400, 9.5, ended)
    ]


async def test_events_of_a_time_touch_it(store: Store) -> None:
    def at(hour: int, minute: int = 0) -> str:
        return f"2024-05-01T{hour:02d}:{minute:02d}:00Z"

    told = [event(n, at(n), end=at(n, 30)) for n in range(1, 10)] + [event(10, at(10))]
    where = report(events=tuple(told), status=status(event={"number": 10}))
    await store.reports.put("fans", where, 1.0)
    await store.reports.put("fans", report("fan-2", events=(event(1, at(4)),)), 1.0)
    await store.reports.put("cars", where, 1.0)
    midnight = NOON - 14 * 3600 - 1200
    found = await events(store, begin=midnight + 3.25 * 3600, end=midnight + 5 * 3600)
    assert [(device, number) for device, number, *_ in found] == [
        ("fan-1", 4),
        ("fan-2", 1),
        ("fan-1", 3),
    ]
    found = await events(store, "fan-1", begin=midnight + 20 * 3600, end=midnight + 21 * 3600)
    assert found == [("fan-1", 10, midnight + 36000, None)], "it is still open"
    assert await events(store, "fan-2", begin=0, end=midnight) == []
    assert [one.number for one in await store.reports.events("fans", "fan-1", 0, 1e11, 3)] == [
        10,
        9,
        8,
    ]
    assert await store.reports.event_times("fans", [], 0, 1e11, 3) == []


async def test_an_event_that_a_device_knows_no_more_has_ended(store: Store) -> None:
    """Its state was lost, or so many came after it that its end was never told."""
    is_open = status(event={"number": 3})
    await store.reports.put("fans", report(events=(event(3),), status=is_open), 100.0)
    await store.reports.put("fans", report(time=NOON + 10, status=is_open), 110.0)
    assert await events(store) == [("fan-1", 3, NOON, None)], "the device says that it is open"
    await store.reports.put("fans", report("fan-2"), 110.0)
    assert await events(store) == [("fan-1", 3, NOON, None)], "another device says nothing of it"
    await store.reports.put("fans", report(time=NOON + 50), 150.0)
    assert await events(store) == [("fan-1", 3, NOON, NOON + 50)]
    await store.reports.put("fans", report(events=(event(3),), status=is_open), 160.0)
    assert await events(store) == [("fan-1", 3, NOON, None)], "it is open after all"


async def test_an_event_that_is_told_no_more_ends_in_the_time_of_its_rows(store: Store) -> None:
    """A file may be read years after its rows were measured."""
    now, is_open = NOON + 3e7, status(event={"number": 3})
    told = {"events": (event(3),), "status": is_open, "minutes": (minute(MINUTE),)}
    await store.reports.put("fans", report(time=now, **told), 100.0)
    await store.reports.put("fans", report(time=now, minutes=(minute(MINUTE + 30),)), 110.0)
    assert await events(store) == [("fan-1", 3, NOON, MINUTE * 60 + 1860)]
    # Without rows since then, by the last there were; and never before it began.
    later = event(4, "2024-05-01T16:00:00Z")
    await store.reports.put("fans", report(time=now, events=(later,), status=is_open), 120.0)
    await store.reports.put("fans", report(time=now), 130.0)
    assert (await events(store))[0] == ("fan-1", 4, NOON + 6000, NOON + 6000)


async def test_rows_without_times_have_events_of_the_time_they_are_told(store: Store) -> None:
    await store.reports.put("fans", report(time=NOON, events=(event(1, 17),)), 1.0)
    closed = event(1, 17, end=52)
    await store.reports.put("fans", report(time=NOON + 60, events=(closed,)), 1.0)
    await store.reports.put("fans", report(time=NOON + 99, events=(closed,)), 1.0)
    assert await events(store) == [("fan-1", 1, NOON, NOON + 60)]


async def test_a_device_that_floods_events_keeps_the_newest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it dates and numbers them, and no other device loses one."""
    monkeypatch.setattr(Reports, "MOST_EVENTS", 50)
    await store.reports.put("fans", report("fan-2", events=(event(1),)), 1.0)
    for first in range(0, 210, MOST_EVENTS):
        # All at the same time: numbers decide.
        told = tuple(event(first + n, end="2024-05-01T15:00:00Z") for n in range(MOST_EVENTS))
        await store.reports.put("fans", report(events=told), 1.0)
    assert [one[1] for one in await events(store, "fan-1")] == list(range(209, 159, -1))
    assert len(await events(store, "fan-2")) == 1


async def test_a_device_can_not_fill_the_disk_by_long_events(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their letters the oldest go; none is written in more bytes than it came in."""
    monkeypatch.setattr(Reports, "MOST_CHARACTERS", 20_000)
    for first in range(0, 20, 10):
        told = tuple({**event(first + n), "text": "Ж" * 3000} for n in range(10))
        await store.reports.put("fans", report(events=told), 1.0)
    kept = [one[1] for one in await events(store)]
    assert kept == list(range(19, 19 - len(kept), -1))
    assert 4 <= len(kept) <= 6


async def test_no_device_hides_the_events_of_another(store: Store) -> None:
    await store.reports.put("fans", report("fan-2", events=(event(1),)), 1.0)
    ended = {"end": "2024-05-01T15:00:00Z", "begin": "2024-05-01T14:59:00Z"}
    flood = tuple({**event(n), **ended} for n in range(1, MOST_EVENTS))
    is_open = status(event={"number": 0})
    told = report(events=(event(0), *flood), status=is_open)
    await store.reports.put("fans", told, 1.0)
    found = await store.reports.event_times("fans", ["fan-1", "fan-2"], 0.0, 1e11, 3)
    assert [(one.device, one.number) for one in found if one.device == "fan-2"] == [("fan-2", 1)]
    assert [one.number for one in found if one.device == "fan-1"] == [20, 19, 0], "it is open"


async def told_at(store: Store, device: str, received: float) -> None:
    told = report(device, minutes=(minute(),), events=(event(1),), status=status())
    await store.reports.put("fans", told, received)


async def test_what_is_told_again_is_as_old_as_at_first(store: Store) -> None:
    """Else an event that ended would be kept for as long as its device remembers it."""
    await told_at(store, "fan-1", 100.0)
    await told_at(store, "fan-1", 200.0)
    assert await store.reports.expire(150.0, 150.0) == 2
    assert await store.reports.get("fans", "fan-1") is not None


async def test_much_is_forgotten_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reports, "EXPIRED_AT_ONCE", 10)
    told = tuple(minute(60 * n) for n in range(25))
    await store.reports.put("fans", report(minutes=told), 1.0)
    assert [await store.reports.expire(2.0, 0.0) for _ in range(4)] == [10, 10, 5, 0]


async def test_the_largest_report_is_taken(store: Store) -> None:
    told = Report(
        "fan-1",
        NOON,
        {**status(), "more": "x" * 32_000},
        tuple(minute(MINUTE + 60 * n) for n in range(1440)),
        tuple({**event(n), "text": "x" * 4000} for n in range(MOST_EVENTS)),
        quarantine=({"time": None, "score": 2.0, "values": {}, "more": "x" * 90_000},),
    )
    await store.reports.put("fans", Report.from_fields(json.loads(json.dumps(told.fields))), 1.0)
    assert len(await minutes(store)) == Reports.MOST_HOURS_AT_ONCE


# Commands: asked once, told until they are done, and done once

ANNA = "administrator anna"


def command(number: int = 1, action: str = "accept", **words: Any) -> Command:
    return Command(f"e-{number}", action, words, "anna", 100.0 + number)


async def ask(store: Store, *commands: Command, device: str = "fan-1") -> None:
    for one in commands:
        assert await store.reports.ask("fans", device, one, actor=ANNA) is None


async def take_report(
    store: Store, *results: CommandResult, device: str = "fan-1"
) -> list[Command]:
    """What a device hears that says so."""
    return await store.reports.put("fans", report(device, results=results), 200.0)


def done(number: int, *said: str, refused: bool = False) -> CommandResult:
    return CommandResult(f"e-{number}", 150.0, refused, said)


async def acts(store: Store) -> list[tuple[str, str, Any, Any]]:
    records = await store.audit.records("fans", 1000)
    require_unbroken(records)
    found = [one for one in records if one.act.startswith("command")]
    detail = [(one.detail["command"], one.detail.get("refused")) for one in found]
    return [(one.actor, one.act, *more) for one, more in zip(found, detail, strict=True)]


async def test_the_first_outcome_counts_and_those_of_no_command_change_nothing(
    store: Store,
) -> None:
    await ask(store, command(1))
    assert await take_report(store, done(9), done(1, "other"), device="fan-2") == []
    assert await take_report(store, done(7)) == [command(1)], (
        "another device can't say what became of it"
    )
    for said in ("first", "second"):
        assert await take_report(store, done(1, said), done(1, said)) == []
    assert [one.said for one in await store.reports.commands("fans", "fan-1", 9)] == [("first",)]
    assert [act for _, act, *_ in await acts(store)] == ["command asked", "command done"]


async def test_who_does_not_come_is_asked_no_more(store: Store) -> None:
    await ask(store, *(command(n) for n in range(Reports.MOST_WAITING)))
    refusal = await store.reports.ask("fans", "fan-1", command(999), actor=ANNA)
    assert refusal is not None
    assert "200 commands wait for 'fan-1'" in refusal
    await ask(store, command(1000), device="fan-2")
    given = await take_report(store)
    assert given == [command(n) for n in range(MOST_RESULTS)], "as many as it can answer"
    assert (await take_report(store, done(0)))[0] == command(1)
    await ask(store, command(999))


async def test_commands_are_forgotten_with_events(store: Store) -> None:
    await ask(store, command(1), command(50))
    assert await store.reports.expire(0.0, 120.0) == 1
    assert await take_report(store) == [command(50)]
    assert await store.federations.delete("fans")
    assert await store.federations.create(FANS)
    assert await store.reports.commands("fans", "fan-1", 9) == []
