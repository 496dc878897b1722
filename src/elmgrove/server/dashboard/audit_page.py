"""The audit page of a federation: contributions over time, refusals with reasons, all records."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.errors import Problem
from elmgrove.federation.audit import AuditRecord
from elmgrove.server.dashboard.rendering import (
    RANGES,
    TimeRange,
    address,
    clock,
    counted,
    page,
    path_of,
    step_of,
    step_text,
)
from elmgrove.server.dashboard.session import User
from elmgrove.server.store.store import Store


class ActCounts:
    """Counts what was published, and remembers how much it was in each time that is over.

    A live page so counts the newest records alone, however many there are. Pruning takes the oldest
    away: a time that began before the oldest record is counted again when that is another one.
    """

    def __init__(self) -> None:
        # By federation, step and place: how many there were, and the number of the oldest record.
        self._known: OrderedDict[tuple[str, int, int], tuple[int, int]] = OrderedDict()
        self._locks = WeakValueDictionary[str, asyncio.Lock]()

    async def of(self, store: Store, federation: str, seconds: int, places: range) -> list[int]:
        """Count in each of these times: a place is its begin, in steps of so many seconds."""
        # One by one, so that others are answered meanwhile; and once for all who look on.
        async with self._locks.setdefault(federation, asyncio.Lock()):
            oldest = await store.audit.records(federation, 1, after=0)
            return [
                await self._count(store, (federation, seconds, place), oldest) for place in places
            ]

    async def _count(
        self, store: Store, key: tuple[str, int, int], oldest: Sequence[AuditRecord]
    ) -> int:
        if not oldest:
            return 0
        federation, seconds, place = key
        begin, known = place * seconds, self._known.get(key)
        if known is not None and (known[1] == oldest[0].number or begin >= oldest[0].at):
            return known[0]
        count = await store.audit.count(federation, "published", begin, begin + seconds)
        # Two minutes later: writes take a while, and another server's clock may be late.
        if begin + seconds < time.time() - 120.0:
            self._known[key] = count, oldest[0].number
            while len(self._known) > 20_000:
                self._known.popitem(last=False)
        return count


async def show(request: Request, user: User) -> Response:
    caller = await user.caller(request)
    store, name, span = user.service.store, caller.federation.name, TimeRange.of(request)
    seen, before = await store.fleet.marker(name), _before(request)
    records = await store.audit.records(
        name, 100, before=before, since=span.begin, until=span.until
    )
    return page(
        request,
        user,
        "audit.html",
        federation=name,
        seen=seen if span.is_moving and before is None else None,
        bars=await _bars(request.app.state.act_counts, store, name, span),
        refusals=await store.audit.of_act(name, "refused", span.begin, span.until, 50),
        records=[(record, detail_text(record)) for record in reversed(records)],
        older=records[0].number if len(records) == 100 else None,
        before=before,
        span=span,
        ranges=RANGES,
        path=path_of(request),
        href=partial(address, path_of(request)),
    )


async def _bars(
    counts: ActCounts, store: Store, federation: str, span: TimeRange
) -> dict[str, Any] | None:
    """One bar for each step of a range; None where that is too long to be counted."""
    lasts = span.end - span.begin
    # A large fleet contributes millions of times a day.
    if lasts > 31 * 86_400.0:
        return None
    seconds = step_of(lasts, 96)
    places = range(math.floor(span.begin / seconds), math.ceil(span.end / seconds))
    found = await counts.of(store, federation, seconds, places)
    most, begins = max(found, default=0), [place * seconds for place in places]
    bars = [
        (100.0 * count / (most or 1), f"{clock(begin)}: {counted(count, 'contribution')}")
        for begin, count in zip(begins, found, strict=True)
    ]
    return {"step": step_text(seconds), "bars": bars, "total": sum(found), "most": most}


def detail_text(record: AuditRecord) -> str:
    """Say in one line what a record knows beside who did what."""
    return "; ".join(_told(name, value) for name, value in _worth(record.detail))


def _worth(detail: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in detail.items() if value]


def _told(name: str, value: Any) -> str:
    title = name.replace("_", " ")
    if value is True:
        return title
    if isinstance(value, Mapping):
        return f"{title} ({', '.join(_told(*one) for one in _worth(value))})"
    if name in ("expires", "until", "from", "to", "at") and isinstance(value, int | float):
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
