"""The fleet: one line for each device of a federation."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.errors import Problem
from elmgrove.server.dashboard.federation_page import Invitation
from elmgrove.server.dashboard.rendering import clock, counted, number, part_of_url, query
from elmgrove.server.dashboard.session import User
from elmgrove.server.dashboard.shell import page
from elmgrove.server.dashboard.time_range import RANGES, TimeRange
from elmgrove.server.store.fleet import FLEET_STATES, FleetPage, FleetRow, require_known
from elmgrove.server.store.records import Event

#: Devices on a page, and events that are drawn on it.
AT_ONCE, MOST_EVENTS = 100, 100
#: Letters of a search.
LONGEST_SEARCH = 200
#: A page that nobody could want to turn to.
_LAST_PAGE = 10**6
#: What a state is called.
WORDS = {
    "anomalous": "Anomalous",
    "changing": "Changing",
    "silent": "Silent",
    "untold": "Not heard of",
    "learning": "Learning",
    "watching": "Watching",
    "revoked": "Revoked",
}
#: What it means.
MEANINGS = {
    "anomalous": "an event is open: rows are anomalous, now",
    "changing": "what is normal seems to have changed, and the device asks about it",
    "silent": "it should have reported by now",
    "untold": "it has joined, and reports nothing",
    "learning": "it has not learned enough yet to tell what is anomalous",
    "watching": "it knows what is normal, and sees nothing else",
    "revoked": "its key was taken back",
}
#: The columns that devices can be sorted by: name, title, and whether numbers stand in it.
_COLUMNS = (
    ("name", "Device", False),
    ("state", "State", False),
    ("event", "Events", False),
    ("seen", "Last seen", False),
    ("learned", "Rows learned", True),
    ("drift", "Question", False),
)


#: The picture is so wide, in steps in which something was or was not.
STEPS = 144
#: Where events are drawn, from above, and how high: open ones are higher, for who sees no colours.
ENDED, OPEN = (4, 12), (0, 20)
#: Events that are told of one by one.
TOLD = 5


@dataclass(frozen=True)
class FleetQuestion:
    """Which devices are asked for, and in which order, as a page's address says it."""

    search: str
    state: str | None
    sort: str
    descending: bool
    number: int
    span: TimeRange

    @classmethod
    def of(cls, request: Request) -> "FleetQuestion":
        """Reads a page's address; refuses what can't be asked for, and says what can."""
        asked = request.query_params
        state, number = asked.get("state") or None, asked.get("page") or "1"
        sort, descending = asked.get("sort") or "state", asked.get("order") == "down"
        search = asked.get("search", "").strip()
        require_known(state, sort)
        if not (number.isascii() and number.isdigit()) or not 1 <= int(number[:9]) <= _LAST_PAGE:
            raise Problem("malformed", f"page: {number!r:.40} is not a number from 1 on")
        if len(search) > LONGEST_SEARCH or "\0" in search:
            raise Problem("malformed", f"search: at most {LONGEST_SEARCH} letters")
        return cls(search, state, sort, descending, int(number[:9]), TimeRange.of(request))

    def href(self, **other: object) -> str:
        """Writes the address of the same question but for what is other, on its first page."""
        said: dict[str, object] = {
            "search": self.search,
            "state": self.state,
            "sort": None if self.sort == "state" else self.sort,
            "order": "down" if self.descending else None,
            **self.span.query,
            **other,
        }
        return query(**said)


@dataclass(frozen=True)
class Strip:
    """A device's events in a range of time: paths of an SVG picture, and what it says.

    ``ended`` and ``open`` are where there was an event that ended and where one is open.
    """

    ended: str = ""
    open: str = ""
    words: str = "No events"

    @classmethod
    def of(cls, events: Sequence[Event], span: TimeRange) -> "Strip":
        """Draws events, the newest first."""
        if not events:
            return cls()
        lasting = {step for one in events if one.ended is None for step in _steps(one, span)}
        over = {step for one in events if one.ended is not None for step in _steps(one, span)}
        return cls(_path(over - lasting, *ENDED), _path(lasting, *OPEN), _words(events))


@dataclass(frozen=True)
class FleetLine:
    """A device, as its line of the page shows it."""

    row: FleetRow
    href: str
    strip: Strip
    groups: str

    @property
    def words(self) -> str:
        """The state in words."""
        return WORDS[self.row.state]

    @property
    def meaning(self) -> str:
        """What the state means."""
        return MEANINGS[self.row.state]


async def show(request: Request, user: User) -> Response:
    """Shows the devices of a federation: how each is doing, and its events of a time."""
    caller = await user.caller(request)
    store, federation = user.service.store, caller.federation
    question, seen = FleetQuestion.of(request), await store.latest(federation.name)
    found = await store.fleet(
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
    events = await store.event_times(federation.name, names, span.begin, span.until, MOST_EVENTS)
    drawn = strips(events, span)
    groups = user.service.live_others.groups_of(federation, names)
    root = f"/ui/{part_of_url(federation.name)}/"
    lines = [
        FleetLine(
            row,
            f"{root}devices/{part_of_url(row.name)}{query(**span.query)}",
            drawn.get(row.name, Strip()),
            ", ".join(str(number + 1) for number in groups.get(row.name, ())),
        )
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
        last=-(-found.total // AT_ONCE),
        first_shown=(question.number - 1) * AT_ONCE + 1,
        unlike=list(user.service.live_others.unlike(federation).items()),
        invitation=Invitation.of(request, federation),
    )


def _columns(question: FleetQuestion) -> list[dict[str, Any]]:
    """The table's head: where each column leads, and by which devices are sorted."""
    made = list[dict[str, Any]]()
    for name, title, is_number in _COLUMNS:
        is_by = question.sort == name
        # Many rows, and what was seen last, are what one looks for first.
        down = not question.descending if is_by else name in ("event", "seen", "learned", "drift")
        href = question.href(sort=name, order="down" if down else None)
        by = ("descending" if question.descending else "ascending") if is_by else ""
        made.append({"name": name, "title": title, "href": href, "by": by, "is_number": is_number})
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


def strips(events: Sequence[Event], span: TimeRange) -> dict[str, Strip]:
    """Draws the events of several devices, the newest first, by the device's name."""
    by_device = defaultdict[str, list[Event]](list)
    for one in events:
        by_device[one.device].append(one)
    return {name: Strip.of(found, span) for name, found in by_device.items()}


def _steps(one: Event, span: TimeRange) -> range:
    """The steps that an event touches; a short one is one step wide, so that it is seen."""
    width = (span.end - span.begin) / STEPS
    first = int((one.begin - span.begin) // width)
    last = STEPS if one.ended is None else int((one.ended - span.begin) // width)
    return range(min(max(first, 0), STEPS - 1), min(last, STEPS - 1) + 1)


def _path(steps: set[int], top: int, height: int) -> str:
    """Rectangles, one for all steps that follow each other."""
    starts = sorted(step for step in steps if step - 1 not in steps)
    ends = sorted(step + 1 for step in steps if step + 1 not in steps)
    return "".join(
        f"M{start} {top}h{end - start}v{height}h-{end - start}z"
        for start, end in zip(starts, ends, strict=True)
    )


def _words(events: Sequence[Event]) -> str:
    told = [_told(one) for one in events[:TOLD]]
    if len(events) > TOLD:
        told.append(f"and {len(events) - TOLD} before these")
    return f"{counted(len(events), 'event')}: {'; '.join(told)}"


def _told(one: Event) -> str:
    worst = f"worst score {number(one.peak)}"
    if one.ended is None:
        return f"since {clock(one.begin)} UTC and not over, {worst}"
    return f"{clock(one.begin)} to {clock(one.ended)} UTC, {worst}"
