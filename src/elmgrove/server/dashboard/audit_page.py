"""The audit page of a federation: contributions over time, refusals with reasons, all records."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.federation import AuditRecord
from elmgrove.server.dashboard.act_counts import ActCounts
from elmgrove.server.dashboard.rendering import address, clock, counted, path_of
from elmgrove.server.dashboard.shell import page
from elmgrove.server.dashboard.time_range import RANGES, TimeRange, step_of, step_told
from elmgrove.server.dashboard.visitors import Visitor
from elmgrove.server.problems import Problem
from elmgrove.server.store import Store

#: Records on a page, refusals that are shown, and bars of the picture.
RECORDS, REFUSALS, MOST_BARS = 100, 50, 96
#: Seconds of the longest time in which contributions are counted: of a large fleet, millions a day.
LONGEST_COUNTED = 31 * 86_400.0
# Details that are times, in seconds.
_TIMES = ("expires", "until", "from", "to", "at")


@dataclass(frozen=True)
class Bar:
    """How much was published in some time."""

    begin: float
    count: int
    height: float

    @property
    def said(self) -> str:
        """The bar in words."""
        return f"{clock(self.begin)}: {counted(self.count, 'contribution')}"


@dataclass(frozen=True)
class Bars:
    """Contributions over time: one bar for each step of so many seconds."""

    seconds: int
    bars: tuple[Bar, ...]

    @property
    def total(self) -> int:
        """All of them together."""
        return sum(bar.count for bar in self.bars)

    @property
    def most(self) -> int:
        """The highest bar."""
        return max((bar.count for bar in self.bars), default=0)

    @property
    def step(self) -> str:
        """What one bar stands for, in words."""
        return step_told(self.seconds)


async def show(request: Request, visitor: Visitor) -> Response:
    """Shows what was done in a federation in a time, by whom, and what was refused, and why."""
    caller = await visitor.caller(request)
    store, name, span = visitor.service.store, caller.federation.name, TimeRange.of(request)
    seen, before = await store.latest(name), _before(request)
    records = await store.audit(name, RECORDS, before=before, since=span.begin, until=span.until)
    return page(
        request,
        visitor,
        "audit.html",
        federation=name,
        seen=seen if span.is_moving and before is None else None,
        bars=await _bars(request.app.state.act_counts, store, name, span),
        refusals=await store.acts(name, "refused", span.begin, span.until, REFUSALS),
        records=[(record, detail_told(record)) for record in reversed(records)],
        older=records[0].number if len(records) == RECORDS else None,
        before=before,
        span=span,
        ranges=RANGES,
        path=path_of(request),
        href=partial(address, path_of(request)),
    )


async def _bars(counts: ActCounts, store: Store, federation: str, span: TimeRange) -> Bars | None:
    """One bar for each step of a range; None where that is too long to be counted."""
    lasts = span.end - span.begin
    if lasts > LONGEST_COUNTED:
        return None
    seconds = step_of(lasts, MOST_BARS)
    places = range(math.floor(span.begin / seconds), math.ceil(span.end / seconds))
    found = await counts.of(store, federation, seconds, places)
    most = max(found, default=0) or 1
    drawn = zip(places, found, strict=True)
    return Bars(seconds, tuple(Bar(place * seconds, n, n / most) for place, n in drawn))


def detail_told(record: AuditRecord) -> str:
    """Says in one line what a record knows beside who did what."""
    return "; ".join(_told(name, value) for name, value in _worth(record.detail))


def _worth(detail: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The details that say something: neither nothing, nor False, nor 0."""
    return [(name, value) for name, value in detail.items() if value]


def _told(name: str, value: Any) -> str:
    title = name.replace("_", " ")
    if value is True:
        return title
    if isinstance(value, Mapping):
        return f"{title} ({', '.join(_told(*one) for one in _worth(value))})"
    if name in _TIMES and isinstance(value, int | float):
        return f"{title} {clock(value)} UTC"
    return f"{title} {_short(name, value)}"


def _short(name: str, value: Any) -> str:
    """A value as far as it can be taken in; of a digest as much as tells it from others."""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    text, most = str(value), 12 if name == "digest" else 200
    return text if len(text) <= most else f"{text[:most]}…"


def _before(request: Request) -> int | None:
    text = request.query_params.get("before")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Problem("malformed", f"before: {text!r:.40} is not the number of a record")
    return int(text)
