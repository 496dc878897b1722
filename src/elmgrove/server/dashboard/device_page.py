"""The page of a device: its scores, its events and answers to them, and who it learns with."""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from elmgrove.detector.events import normal_at
from elmgrove.errors import BadInput, Problem
from elmgrove.federation.report import seconds_of
from elmgrove.federation.schemas import Status, read
from elmgrove.reading.times import Clock, stated_time
from elmgrove.server.auth import Caller
from elmgrove.server.dashboard.fleet_page import WORDS
from elmgrove.server.dashboard.rendering import (
    RANGES,
    TimeRange,
    address,
    clock,
    counted,
    exchange_of,
    number,
    page,
    path_of,
    step_of,
    step_text,
)
from elmgrove.server.dashboard.session import Form, User
from elmgrove.server.reports import send_command
from elmgrove.server.store.fleet import FleetRow
from elmgrove.server.store.reports import StoredCommand, StoredEvent, StoredReport


class ChartPoint(NamedTuple):
    """Some minutes that were put together, from ``begin`` (seconds since 1970) on.

    ``typical`` is the mean of the minutes' median scores, weighed by their rows; ``highest`` is the
    highest score of all. ``threshold`` is the last one, None while there was none.
    """

    begin: float
    rows: int
    anomalous: int
    threshold: float | None
    typical: float
    highest: float


@dataclass(frozen=True)
class ScoreChart:
    """Points at equal steps of seconds; None where the device reported nothing."""

    step: int
    begin: float
    end: float
    points: tuple[ChartPoint | None, ...]

    @classmethod
    def of(
        cls, minutes: Sequence[Sequence[Any]], begin: float, end: float, most: int = 1200
    ) -> "ScoreChart":
        """Put minutes (their fields, oldest first) together to at most ``most`` points."""
        points = (
            ChartPoint(minute * 60.0, rows, anomalous, threshold, median, highest)
            for minute, rows, anomalous, threshold, median, _, _, highest in minutes
        )
        return cls._gathered(points, begin, end, most)

    def at_most(self, most: int) -> "ScoreChart":
        return self._gathered(self.known, self.begin, self.end, most)

    @classmethod
    def _gathered(
        cls, points: Iterable[ChartPoint], begin: float, end: float, most: int
    ) -> "ScoreChart":
        step = step_of(end - begin, most - 2)
        first, last = int(begin // step), math.ceil(end / step)
        gathered: dict[int, list[ChartPoint]] = {}
        for point in points:
            gathered.setdefault(int(point.begin // step), []).append(point)
        together = (
            _point(float(place * step), gathered[place]) if place in gathered else None
            for place in range(first, last)
        )
        return cls(step, float(first * step), end, tuple(together))

    @property
    def known(self) -> list[ChartPoint]:
        return [point for point in self.points if point is not None]

    @property
    def span(self) -> str:
        return step_text(self.step)

    def columns(self) -> Iterator[tuple[str, list[float | None]]]:
        """Yield the columns of the chart: times in seconds, and a line for each kind of score."""
        yield "times", [self.begin + place * self.step for place in range(len(self.points))]
        for name in ("typical", "highest", "threshold"):
            yield name, [None if point is None else getattr(point, name) for point in self.points]


def _point(begin: float, parts: Sequence[ChartPoint]) -> ChartPoint:
    rows = sum(one.rows for one in parts)
    # Each by its share: scores may be as large as numbers can be.
    typical = sum(one.rows / rows * one.typical for one in parts) if rows else None
    return ChartPoint(
        begin,
        rows,
        sum(one.anomalous for one in parts),
        parts[-1].threshold,
        max(one.typical for one in parts) if typical is None else typical,
        max(one.highest for one in parts),
    )


@dataclass(frozen=True)
class ShownEvent:
    """An event as its device's page shows it, with the answers to it (``commands``).

    ``last_row`` is the time of the last row that was reported, if it has one. ``undone`` says that
    the last answer was undone.
    """

    event: StoredEvent
    commands: tuple[StoredCommand, ...]
    last_row: float | None = None
    undone: bool = False

    @property
    def is_open(self) -> bool:
        return self.event.ended is None

    @property
    def span(self) -> dict[str, float] | None:
        """The parameters ``from`` and ``to`` of its rows; None where its rows had no time.

        Of an open one these are the rows that were reported: what comes while the answer is on its
        way may be something else.
        """
        event, end = self.event.details, self.event.ended
        if isinstance(event["begin"], int):
            return None
        begin = self.event.begin
        if end is None:
            known = (begin, seconds_of(event["peak_at"]), self.last_row)
            end = max(time for time in known if time is not None)
        return {"from": begin, **up_to(end)}

    @property
    def named(self) -> dict[str, int]:
        """The parameter ``event``: the device takes out all that was learned since it began."""
        return {"event": self.event.number}

    @property
    def words(self) -> Mapping[str, float]:
        return self.span or self.named

    @property
    def answered(self) -> str:
        """The answer that the device has, wherever it was given; '' if none."""
        return self.event.details["answered"] or ""

    @property
    def is_answered(self) -> bool:
        """Return whether there is an answer that was neither refused nor undone."""
        waits = any(row.done is None for row in self.commands)
        done = any(row.done is not None and not row.refused for row in self.commands)
        return bool(self.answered) or waits or (done and not self.undone)

    @property
    def title(self) -> str:
        begin, ended = clock(self.event.begin), self.event.ended
        if ended is None:
            return f"Event {self.event.number}, since {begin}"
        same_day, end = begin[:10] == clock(ended)[:10], clock(ended)
        return f"Event {self.event.number}, {begin} to {end[11:] if same_day else end}"

    @property
    def strength(self) -> str:
        """How many rows were anomalous, how high the worst score was, and where that is normal."""
        event = self.event.details
        times = event["peak"] / event["threshold"] if event["threshold"] else None
        rows = f"{counted(event['rows'], 'row')} anomalous"
        peak = "" if times is None else f"at most {number(times)} times the threshold"
        return ", ".join(filter(None, [rows, peak, normal_at(event.get("known", ()))]))

    @property
    def causes(self) -> list[str]:
        causes = self.event.details["causes"]
        # A feature below 2 % is no cause that helps anybody. Shares overlap.
        large = [one for one in causes if one["share"] is None or one["share"] >= 0.02]
        ordered = sorted(large or causes, key=lambda one: -(one["share"] or 0.0))
        return [cause_text(cause) for cause in ordered]


def cause_text(cause: Mapping[str, Any]) -> str:
    """Say in words what one feature did, or how much it has to do with it.

    >>> cause_text({"feature": "flow", "share": 0.9, "seen": 22, "expected": 31, "ago": 0})
    'flow was 22 where 31 was to be expected'
    >>> cause_text({"feature": "temp", "share": 0.04, "seen": None, "expected": None, "ago": 0})
    'temp (4 % of the score)'
    """
    text, share = str(cause["feature"]), cause["share"]
    if cause["seen"] is not None and cause["expected"] is not None:
        text += _reading(f"{cause['seen']:.4g}", f"{cause['expected']:.4g}")
    elif share is not None:
        text += f" ({share * 100:.0f} % of the score)"
    if cause["ago"]:
        text += f", {counted(cause['ago'], 'row')} before the anomalous one"
    return text


def _reading(seen: str, expected: str) -> str:
    # Both have few figures.
    if seen == expected:
        return f" was about {seen}, and a little off what was to be expected"
    return f" was {seen} where {expected} was to be expected"


def up_to(time: float) -> dict[str, float]:
    """Return the parameter ``to`` for the rows up to one, with that one.

    >>> up_to(1714573200.0)
    {'to': 1714573200.001}
    """
    # ``to`` itself is not part of it.
    return {"to": time + 0.001}


def shown_events(
    events: Sequence[StoredEvent], commands: Sequence[StoredCommand], status: Status | None
) -> list[ShownEvent]:
    """Put events together with the answers to each."""
    last_row = None if status is None else _time(status.last_row)
    answers = [] if status is None else status.answers
    undone = {one.event: one.action == "undo" for one in answers}
    return [
        ShownEvent(
            one,
            tuple(row for row in commands if _is_about(row, one)),
            last_row,
            undone.get(one.number, False),
        )
        for one in events
    ]


def _is_about(row: StoredCommand, event: StoredEvent) -> bool:
    words = row.command.words
    if "event" in words:
        # A device that was reset counts its events from 1.
        return bool(words["event"] == event.number) and row.command.asked_at >= event.begin
    return words.get("from") == event.begin


def cooperation_text(cooperation: Mapping[str, Any] | None) -> str:
    if cooperation is None:
        return "It has learned nothing from others yet."
    before, after = cooperation["before"], cooperation["after"]
    text = f"It last learned from others at {clock(cooperation['time'])}."
    if before is not None and after is not None:
        text += f" Its own rows then scored {number(after)} on average, {_change(after, before)}."
    share = cooperation["share"]
    if share is not None:
        text += f" {_borrowed(share)}."
    return text


def _change(after: float, before: float) -> str:
    if f"{after:.3g}" == f"{before:.3g}":
        return "as before"
    better = "better" if after < before else "worse"
    return f"{number(before)} before: {better} explained"


def _borrowed(share: float) -> str:
    if share == 0.0:
        return "It borrows nothing"
    percent = "Less than 1 %" if share < 0.01 else f"{share * 100:.0f} %"
    return f"{percent} of what decides here comes from others"


def command_text(row: StoredCommand) -> str:
    words = row.command.words
    if row.command.action == "undo":
        return "The last answer: undone"
    if row.command.action == "reject":
        answer = "a fault"
    else:
        answer = "the normal from now on" if words.get("instead") else "fine"
    begin, end = words.get("from"), words.get("to")
    if "event" in words:
        return f"Event {words['event']}: {answer}"
    if begin is None and end is None:
        return f"All that waits: {answer}"
    since = "Rows" if begin is None else f"Rows from {_shown(begin)}"
    return f"{since} {'until now' if end is None else f'until {_shown(end)}'}: {answer}"


def _shown(time: float | str) -> str:
    # As a command has it: seconds, or ISO 8601.
    return time if isinstance(time, str) else clock(Clock()(time))


def clock_warning(hours: Sequence[tuple[float, float, float]], report: StoredReport | None) -> str:
    """Say that rows are ahead of the clock or behind it as a zone is, and what to do; or nothing.

    ``hours`` are the newest, each with the times of its first and last row, and when the first was
    told. Nothing but a clock puts rows ahead. Behind they may be for many reasons: a zone is likely
    where two hours are so by the same half hours.
    """
    if report is None or not hours:
        return ""
    # Seconds that rows may be ahead of the clock, or come after they were measured, by chance.
    chance = 300.0
    ahead = max(hours[0][0] - hours[0][2], hours[0][1] - report.received)
    if ahead > chance:
        return _zone_asked(_zone(ahead) or ahead)
    zones = [_zone(first - received) for first, _, received in hours]
    every = report.report["status"]["sync_seconds"]
    is_prompt = every is not None and every <= chance
    zone = zones[0] if is_prompt and len(zones) > 1 and zones[0] == zones[1] else None
    return _zone_asked(zone) if zone and zone >= -12 * 3600.0 else ""


def _zone(ahead: float, chance: float = 300.0) -> float | None:
    """The zone by which rows are ahead, if what they are late beside that can be chance."""
    # Zones differ by half hours.
    zone = math.ceil((ahead - chance / 10) / 1800.0) * 1800.0
    return zone if zone - ahead <= chance else None


def _zone_asked(ahead: float) -> str:
    lasts = f"{abs(ahead) / 60:.0f} min" if abs(ahead) < 3600 else f"{number(abs(ahead) / 3600)} h"
    return (
        f"Its rows are {lasts} {'ahead of' if ahead > 0 else 'behind'} the clock here: are their "
        "times local? Times without a zone are read as UTC: write them in UTC, or with their zone "
        "(2026-11-17T08:00:00+02:00)."
    )


def facts(status: Status) -> list[tuple[str, str]]:
    # The page's own word means something else.
    state = "more is anomalous than usual" if status.state == "changing" else status.state
    threshold = number(status.threshold)
    if status.rows_missing:
        threshold += f"; alarms after {counted(status.rows_missing, 'row')}"
    return [
        ("State", f"{state} since {status.since.replace('T', ' ')}" if status.since else state),
        *([("Patterns", status.patterns)] if status.patterns else []),
        ("Threshold", threshold),
        ("Flagged", f"{_percent(status.flagged.share)} of rows, {_percent(status.rate)} stated"),
        *([("Unlike all others", status.unlike)] if status.unlike else []),
        ("Learns from", status.uses or "nobody yet"),
        ("Last sync", (status.sync and status.sync.said) or "—"),
    ]


def _time(stated: str | int | None) -> float | None:
    """A time in ISO 8601 that a calendar has."""
    try:
        return stated_time("last_row", stated) if isinstance(stated, str) else None
    except BadInput:
        return None


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{number(share * 100)} %"


async def show(request: Request, user: User) -> Response:
    caller = await user.caller(request)
    seen = await user.service.store.fleet.marker(caller.federation.name)
    device, span = await _device(request, caller), TimeRange.of(request)
    around: dict[str, Any] = {"federation": caller.federation.name, "device": device, "span": span}
    around["server"] = exchange_of(request)
    if (asked := request.query_params.get("do")) in ("revoke", "leave"):
        return page(request, user, "device_confirm.html", asked=asked, **around)
    return page(
        request,
        user,
        "device.html",
        seen=seen if span.is_moving else None,
        ranges=RANGES,
        path=path_of(request),
        href=partial(address, path_of(request)),
        state_words=WORDS,
        **around,
        **await _found(caller, device.name, span),
    )


async def _found(caller: Caller, name: str, span: TimeRange) -> dict[str, Any]:
    store, federation = caller.service.store, caller.federation.name
    last = await store.reports.get(federation, name)
    minutes = await store.reports.minutes(federation, name, span.begin, span.end)
    commands = await store.reports.commands(federation, name, 2000)
    found = (span.begin, span.until, 50)
    events = await store.reports.events(federation, name, *found)
    report: Mapping[str, Any] = {} if last is None else last.report
    status = read(Status, report["status"]) if report else None
    shown_ones = shown_events(events, commands, status)
    # Of weeks they are many: in a thread, so that others are answered meanwhile.
    course = await asyncio.to_thread(ScoreChart.of, minutes, span.begin, span.end)
    return {
        **_told(status, report.get("quarantine")),
        "answered": _answered(status, commands),
        "cooperation": report.get("cooperation"),
        "cooperation_text": cooperation_text(report.get("cooperation")),
        "course": course,
        "clock_warning": clock_warning(await store.reports.newest_hours(federation, name, 2), last),
        "lines": course.at_most(48),
        "chart": _chart(course, shown_ones, span),
        "events": shown_ones,
        "commands": [(row, command_text(row)) for row in commands[:20]],
    }


def _told(status: Status | None, waiting: list[dict[str, Any]] | None) -> dict[str, Any]:
    last_row = None if status is None else _time(status.last_row)
    is_open = status is not None and status.event is not None and status.event.number
    asked = "" if status is None or status.drift is None else status.drift.text
    return {
        "report": status,
        "facts": [] if status is None else facts(status),
        # The page has buttons instead of these commands.
        "question": asked.removesuffix(" accept or reject"),
        "reported": None if last_row is None else up_to(last_row),
        "open_event": {"event": is_open} if is_open else None,
        "rows": waiting and waiting[::-1],
        "columns": list(waiting[-1]["values"])[:40] if waiting else [],
    }


def _answered(status: Status | None, commands: Sequence[StoredCommand]) -> list[str]:
    """The commands that wait and are about rows since a change began, if that is known."""
    since = None if status is None or status.drift is None else _time(status.drift.since)
    found = [row for row in commands if row.done is None and row.command.action != "undo"]
    ends = [row.command.words.get("to") for row in found]
    return [
        command_text(row)
        for row, end in zip(found, ends, strict=True)
        if since is None or end is None or stated_time("to", end) >= since
    ]


def _chart(course: ScoreChart, events: list[ShownEvent], span: TimeRange) -> dict[str, Any]:
    times = ((one.event.begin, one.event.ended or span.end) for one in events)
    # What is ahead of the clock is at the right edge.
    shaded = [[min(begin, span.end), min(end, span.end)] for begin, end in times]
    return {**dict(course.columns()), "from": span.begin, "to": span.end, "events": shaded}


async def take(request: Request, user: User, form: Form) -> Response:
    caller = await user.caller(request)
    device = await _device(request, caller)
    done = form.get("do", "")
    if done == "revoke":
        await caller.store.federations.revoke(
            caller.federation.name, device.name, actor=caller.actor
        )
    elif done == "leave":
        await caller.store.contributions.leave(
            caller.federation.name, device.name, actor=caller.actor
        )
    else:
        await _ask(caller, device.name, done, form)
    caller.service.wake()
    begin, end = form.get("range_from"), form.get("range_to")
    return RedirectResponse(address(path_of(request), **{"from": begin, "to": end}), 303)


async def _ask(caller: Caller, device: str, action: str, form: Form) -> None:
    words: dict[str, Any] = {"instead": True} if form.get("instead") else {}
    for name, kind in (("from", float), ("to", float), ("event", int)):
        if text := form.get(name):
            try:
                words[name] = kind(text)
            except ValueError:
                raise Problem("malformed", f"{name}: {text!r:.40} is no such number") from None
    await send_command(caller, device, action, words)


async def _device(request: Request, caller: Caller) -> FleetRow:
    name, store = request.path_params["device"], caller.service.store
    found = await store.fleet.device(caller.federation.name, name, now=time.time())
    if found is None:
        raise Problem("not-found", f"{name!r} has not joined {caller.federation.name!r}")
    return found
