"""The page of a device: its scores and events, what can be said of them, and who it works with."""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from elmgrove.federation import EVENT, FROM, INSTEAD, TO
from elmgrove.server.auth import Caller
from elmgrove.server.dashboard.device_told import DeviceTold, clock_said
from elmgrove.server.dashboard.device_words import (
    ShownEvent,
    answers,
    cooperation_told,
    errand_told,
    shown_events,
)
from elmgrove.server.dashboard.fleet_page import WORDS
from elmgrove.server.dashboard.forms import Form
from elmgrove.server.dashboard.rendering import address, part_of_url, path_of
from elmgrove.server.dashboard.score_course import MOST_LINES, ScoreCourse
from elmgrove.server.dashboard.shell import exchange_of, page
from elmgrove.server.dashboard.time_range import RANGES, TimeRange
from elmgrove.server.dashboard.visitors import Visitor
from elmgrove.server.problems import Problem
from elmgrove.server.store import FleetRow
from elmgrove.server.told import let_wait

#: Events and errands that are shown, the newest.
MOST_EVENTS_SHOWN, MOST_ERRANDS_SHOWN = 50, 20
# Errands among which those of the events are looked for: far more than anybody says of 50 events.
_MOST_ERRANDS = 2000
#: What is asked once more before it is done.
REVOKE, LEAVE = CONFIRMED = "revoke", "leave"


async def show(request: Request, visitor: Visitor) -> Response:
    """Shows a device; with ``do``, asks whether it is to be revoked or to leave."""
    caller = await visitor.caller(request)
    seen = await visitor.service.store.latest(caller.federation.name)
    device, span = await _device(request, caller), TimeRange.of(request)
    around: dict[str, Any] = {"federation": caller.federation.name, "device": device, "span": span}
    around["server"] = exchange_of(request)
    if (asked := request.query_params.get("do")) in CONFIRMED:
        return page(request, visitor, "device_confirm.html", asked=asked, **around)
    return page(
        request,
        visitor,
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
    """What the store holds of a device, as its page shows it."""
    store, federation = caller.service.store, caller.federation.name
    told = await store.told(federation, name)
    minutes = await store.minutes(federation, name, span.begin, span.end)
    errands = await store.errands(federation, name, _MOST_ERRANDS)
    found = (span.begin, span.until, MOST_EVENTS_SHOWN)
    occurrences = await store.occurrences(federation, name, *found)
    shown = None if told is None else DeviceTold.of(told.summary)
    known = (None, ()) if shown is None else (shown.last_row, shown.undone)
    events = shown_events(occurrences, errands, *known)
    # Of weeks they are many: in a thread, so that others are answered meanwhile.
    course = await asyncio.to_thread(ScoreCourse.of, minutes, span.begin, span.end)
    summary: Mapping[str, Any] = {} if told is None else told.summary
    since = None if shown is None else shown.drift_since
    return {
        "told": shown,
        "answered": [errand_told(row) for row in errands if answers(row, since)],
        "cooperation": summary.get("cooperation"),
        "cooperated": cooperation_told(summary.get("cooperation")),
        "course": course,
        "clock_said": clock_said(await store.newest_hours(federation, name, 2), told),
        "lines": course.at_most(MOST_LINES),
        "chart": _chart(course, events, span),
        "events": events,
        "errands": [(row, errand_told(row)) for row in errands[:MOST_ERRANDS_SHOWN]],
    }


def _chart(course: ScoreCourse, events: list[ShownEvent], span: TimeRange) -> dict[str, Any]:
    """What the chart draws, for its script."""
    times = ((one.occurrence.begin, one.occurrence.ended or span.end) for one in events)
    # What is ahead of the clock is at the right edge.
    shaded = [[min(begin, span.end), min(end, span.end)] for begin, end in times]
    return {
        **dict(course.columns()),
        "from": span.begin,
        "to": span.end,
        "events": shaded,
    }


async def take(request: Request, visitor: Visitor, form: Form) -> Response:
    """Does what was said of a device, or lets it wait until the device comes for it."""
    caller = await visitor.caller(request)
    device = await _device(request, caller)
    done = form.get("do", "")
    if done == REVOKE:
        await caller.store.revoke(caller.federation, device.name, actor=caller.actor)
    elif done == LEAVE:
        await caller.store.depart(caller.federation, device.name, actor=caller.actor)
    else:
        await _ask(caller, device.name, done, form)
    caller.service.wake()
    path = f"/ui/{part_of_url(caller.federation.name)}/devices/{part_of_url(device.name)}"
    begin, end = form.get("range_from"), form.get("range_to")
    return RedirectResponse(address(path, **{"from": begin, "to": end}), 303)


async def _ask(caller: Caller, device: str, action: str, form: Form) -> None:
    """Lets the device be asked; what is wrong with it is told."""
    words: dict[str, Any] = {
        name: _seconds(name, form[name]) for name in (FROM, TO) if form.get(name)
    }
    if form.get(EVENT):
        words[EVENT] = _whole(EVENT, form[EVENT])
    if form.get(INSTEAD):
        words[INSTEAD] = True
    await let_wait(caller, device, action, words)


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Problem("malformed", f"{name}: {text!r:.40} is no whole number") from None


def _seconds(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Problem("malformed", f"{name}: {text!r:.40} is no time in seconds") from None


async def _device(request: Request, caller: Caller) -> FleetRow:
    """The device in the path, as its fleet knows it."""
    name, store = request.path_params["device"], caller.service.store
    found = await store.fleet_row(caller.federation.name, name, now=time.time())
    if found is None:
        raise Problem("not-found", f"{name!r} has not joined {caller.federation.name!r}")
    return found
