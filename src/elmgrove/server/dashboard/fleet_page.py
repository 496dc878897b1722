"""The fleet: one line for each device of a federation."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.errors import Problem
from elmgrove.server.dashboard.federation_page import invitation
from elmgrove.server.dashboard.rendering import (
    RANGES,
    TimeRange,
    clock,
    counted,
    number,
    page,
    part_of_url,
    query,
    root_of_pages,
)
from elmgrove.server.dashboard.session import User
from elmgrove.server.store.fleet import FLEET_STATES, FleetPage, require_known
from elmgrove.server.store.reports import StoredEvent

#: Devices on a page.
AT_ONCE = 100
#: What a state is called.
WORDS = {
    "anomalous": "Anomalous",
    "changing": "Changing",
    "silent": "Silent",
    "unreported": "No report",
    "learning": "Learning",
    "watching": "Watching",
    "revoked": "Revoked",
}
#: What it means.
MEANINGS = {
    "anomalous": "an event is open: rows are anomalous, now",
    "changing": "what is normal seems to have changed, and the device asks about it",
    "silent": "its next report is late",
    "unreported": "it has joined, and has reported nothing",
    "learning": "it has not learned enough yet to recognise anomalies",
    "watching": "it knows what is normal, and sees nothing else",
    "revoked": "its key was revoked",
}


@dataclass(frozen=True)
class FleetQuestion:
    """Which devices to show, and in which order, as a page's address has it."""

    search: str
    state: str | None
    sort: str
    descending: bool
    number: int
    span: TimeRange

    @classmethod
    def of(cls, request: Request) -> "FleetQuestion":
        asked = request.query_params
        state, number = asked.get("state") or None, asked.get("page") or "1"
        sort, descending = asked.get("sort") or "state", asked.get("order") == "down"
        search = asked.get("search", "").strip()
        require_known(state, sort)
        if not (number.isascii() and number.isdigit()) or not 1 <= int(number[:9]) <= 10**6:
            raise Problem("malformed", f"page: {number!r:.40} is not a number from 1 on")
        if len(search) > 200 or "\0" in search:
            raise Problem("malformed", "search: at most 200 characters")
        return cls(search, state, sort, descending, int(number[:9]), TimeRange.of(request))

    def href(self, **other: object) -> str:
        """Return the address of the same question with some changes, on its first page."""
        stated: dict[str, object] = {
            "search": self.search,
            "state": self.state,
            "sort": None if self.sort == "state" else self.sort,
            "order": "down" if self.descending else None,
            **self.span.query,
            **other,
        }
        return query(**stated)


@dataclass(frozen=True)
class Strip:
    """A device's events in a range of time: paths of an SVG picture, and its text.

    ``ended`` and ``open`` are where there was an event that ended and where one is open.
    """

    ended: str = ""
    open: str = ""
    words: str = "No events"

    @classmethod
    def of(cls, events: Sequence[StoredEvent], span: TimeRange) -> "Strip":
        if not events:
            return cls()
        lasting = {step for one in events if one.ended is None for step in _steps(one, span)}
        over = {step for one in events if one.ended is not None for step in _steps(one, span)}
        # Open ones are higher, for who sees no colours.
        return cls(_path(over - lasting, 4, 12), _path(lasting, 0, 20), _words(events))


async def show(request: Request, user: User) -> Response:
    caller = await user.caller(request)
    store, federation = user.service.store, caller.federation
    question, seen = FleetQuestion.of(request), await store.fleet.marker(federation.name)
    found = await store.fleet.page(
        federation.name,
        search=question.search,
        state=question.state,
        sort=question.sort,
        descending=question.descending,
        limit=AT_ONCE,
        offset=(question.number - 1) * AT_ONCE,
        now=time.time(),
    )
    names, span = [row.name for row in found.rows], question.span
    events = await store.reports.event_times(
        federation.name, names, span.begin, span.until, each=100
    )
    drawn = strips(events, span)
    groups = user.service.live_others.groups_of(federation, names)
    root = f"{root_of_pages(request)}/{part_of_url(federation.name)}/"
    lines = [
        {
            "row": row,
            "href": f"{root}devices/{part_of_url(row.name)}{query(**span.query)}",
            "strip": drawn.get(row.name, Strip()),
            "groups": ", ".join(str(number + 1) for number in groups.get(row.name, ())),
        }
        for row in found.rows
    ]
    return page(
        request,
        user,
        "fleet.html",
        federation=federation.name,
        seen=seen if span.is_moving else None,
        question=question,
        lines=lines,
        total=found.total,
        columns=_columns(question),
        chips=_chips(question, found),
        ranges=RANGES,
        words=WORDS,
        meanings=MEANINGS,
        last=-(-found.total // AT_ONCE),
        first_shown=(question.number - 1) * AT_ONCE + 1,
        unlike=list(user.service.live_others.unlike(federation).items()),
        invitation=invitation(request, federation),
    )


def _columns(question: FleetQuestion) -> list[dict[str, Any]]:
    made = list[dict[str, Any]]()
    titles = {
        "name": "Device",
        "state": "State",
        "event": "Events",
        "seen": "Last seen",
        "learned": "Rows learned",
        "drift": "Question",
    }
    for name, title in titles.items():
        is_by = question.sort == name
        # The most rows, and what was seen last, are looked for first.
        down = not question.descending if is_by else name in ("event", "seen", "learned", "drift")
        href = question.href(sort=name, order="down" if down else None)
        by = ("descending" if question.descending else "ascending") if is_by else ""
        made.append(
            {"name": name, "title": title, "href": href, "by": by, "is_number": name == "learned"}
        )
    return made


def _chips(question: FleetQuestion, found: FleetPage) -> list[dict[str, Any]]:
    """How many devices are in which state, each with a link to these alone."""
    every: list[tuple[str | None, str, int]] = [(None, "All", sum(found.counts.values()))]
    every += [(state, WORDS[state], found.counts[state]) for state in FLEET_STATES]
    return [
        {
            "state": state,
            "words": words,
            "count": count,
            "href": question.href(state=state),
            "is_here": question.state == state,
        }
        for state, words, count in every
        if count or state in (None, question.state)
    ]


def strips(events: Sequence[StoredEvent], span: TimeRange) -> dict[str, Strip]:
    by_device = defaultdict[str, list[StoredEvent]](list)
    for one in events:
        by_device[one.device].append(one)
    return {name: Strip.of(found, span) for name, found in by_device.items()}


def _steps(one: StoredEvent, span: TimeRange) -> range:
    """Which of 144 steps an event touches; a short one is one step wide, so that it is seen."""
    width = (span.end - span.begin) / 144
    first = int((one.begin - span.begin) // width)
    last = 143 if one.ended is None else int((one.ended - span.begin) // width)
    return range(min(max(first, 0), 143), min(last, 143) + 1)


def _path(steps: set[int], top: int, height: int) -> str:
    starts = sorted(step for step in steps if step - 1 not in steps)
    ends = sorted(step + 1 for step in steps if step + 1 not in steps)
    return "".join(
        f"M{start} {top}h{end - start}v{height}h-{end - start}z"
        for start, end in zip(starts, ends, strict=True)
    )


def _words(events: Sequence[StoredEvent]) -> str:
    shown = [_described(one) for one in events[:5]]
    if len(events) > 5:
        shown.append(f"and {len(events) - 5} before these")
    return f"{counted(len(events), 'event')}: {'; '.join(shown)}"


def _described(one: StoredEvent) -> str:
    worst = f"worst score {number(one.peak)}"
    if one.ended is None:
        return f"since {clock(one.begin)} UTC and not over, {worst}"
    return f"{clock(one.begin)} to {clock(one.ended)} UTC, {worst}"
