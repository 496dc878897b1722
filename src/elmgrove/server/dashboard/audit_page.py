"""The audit page of a federation: contributions over time, refusals with reasons, all records."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.federation import AuditRecord
from elmgrove.server.dashboard.rendering import address, clock, counted, path_of
from elmgrove.server.dashboard.shell import page
from elmgrove.server.dashboard.time_range import RANGES, TimeRange
from elmgrove.server.dashboard.visitors import Visitor
from elmgrove.server.problems import Problem

#: Records on a page, refusals that are shown, and bars of the picture.
RECORDS, REFUSALS, MOST_BARS = 100, 50, 96
# Details that are times, in seconds.
_TIMES = ("expires", "until", "from", "to", "at")
# Seconds that one bar stands for: times that a clock shows.
_STEPS = (60, 300, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 7 * 86_400)


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
    def span(self) -> str:
        """What one bar stands for, in words."""
        minutes = self.seconds // 60
        if minutes < 60:
            return counted(minutes, "minute")
        return counted(minutes // 60, "hour") if minutes < 1440 else counted(minutes // 1440, "day")


async def show(request: Request, visitor: Visitor) -> Response:
    """Shows what was done in a federation, by whom, and what was refused, with reasons."""
    caller = await visitor.caller(request)
    store, name, span = visitor.service.store, caller.federation.name, TimeRange.of(request)
    seen, before = await store.latest(name), _before(request)
    records = await store.audit(name, RECORDS, before=before)
    return page(
        request,
        visitor,
        "audit.html",
        federation=name,
        seen=seen if span.is_moving and before is None else None,
        bars=await _bars(visitor, name, span),
        refusals=await store.acts(name, "refused", REFUSALS),
        records=[(record, detail_told(record)) for record in reversed(records)],
        older=records[0].number if len(records) == RECORDS else None,
        before=before,
        span=span,
        ranges=RANGES,
        path=path_of(request),
        href=partial(address, path_of(request)),
    )


async def _bars(visitor: Visitor, federation: str, span: TimeRange) -> Bars:
    lasts = span.end - span.begin
    seconds = next((one for one in _STEPS if lasts / one <= MOST_BARS), _STEPS[-1])
    first, last = math.floor(span.begin / seconds), math.ceil(span.end / seconds)
    times = [float(place * seconds) for place in range(first, last + 1)]
    counts = await visitor.service.store.act_counts(federation, "published", times)
    most = max(counts, default=0) or 1
    return Bars(
        seconds,
        tuple(
            Bar(begin, count, count / most) for begin, count in zip(times[:-1], counts, strict=True)
        ),
    )


def detail_told(record: AuditRecord) -> str:
    """Says in one line what a record knows beside who did what."""
    return "; ".join(_told(name, value) for name, value in _worth(record.detail))


def _worth(detail: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What says something: neither nothing, nor that something was not so, nor that none was."""
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
