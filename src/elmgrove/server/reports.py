"""Reports of devices over HTTP, and commands to them."""

import asyncio
import math
import secrets
import time
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.errors import Problem
from elmgrove.federation.commands import Command
from elmgrove.federation.policy import DAY
from elmgrove.federation.report import MOST_BYTES_REPORT, Report
from elmgrove.server.auth import (
    LONGEST_JSON,
    Caller,
    body_of,
    caller_of,
    json_of,
    number_in,
    object_of,
    text_in,
    time_in,
)
from elmgrove.server.store.fleet import require_known
from elmgrove.server.store.reports import StoredCommand, StoredEvent, StoredReport


async def put_report(request: Request) -> Response:
    """Store a device's report; the answer holds the commands that wait for it."""
    caller = await caller_of(request)
    name = request.path_params["device"]
    caller.require_device(name)
    body = await body_of(request, MOST_BYTES_REPORT)
    # A large one takes a while: in a thread, so that others are answered meanwhile.
    large = len(body) > LONGEST_JSON
    report = await asyncio.to_thread(_report, body) if large else _report(body)
    if report.device != name:
        raise Problem("forbidden", f"{name!r} may not report for {report.device!r}")
    commands = await caller.store.reports.put(caller.federation.name, report, time.time())
    caller.service.live_fleet.wake()
    return JSONResponse({"commands": [command.fields for command in commands]})


def _report(body: bytes) -> Report:
    return Report.from_fields(object_of(body))


async def index(request: Request) -> Response:
    """List devices with their states, a page at a time, and count them by state."""
    caller = await _looking(request)
    state, sort = text_in(request, "state"), text_in(request, "sort") or "name"
    limit, offset = number_in(request, "limit"), number_in(request, "offset")
    require_known(state, sort.removeprefix("-"))
    page = await caller.service.store.fleet.page(
        caller.federation.name,
        search=text_in(request, "search") or "",
        state=state,
        sort=sort.removeprefix("-"),
        descending=sort.startswith("-"),
        limit=100 if limit is None else min(int(limit), 1000),
        offset=min(int(offset or 0), 2**62),
        now=time.time(),
    )
    return JSONResponse(asdict(page))


async def show(request: Request) -> Response:
    """Return a device's last report, and its minutes, events and commands of a time."""
    caller = await _looking(request)
    store, federation = caller.service.store, caller.federation.name
    name = request.path_params["device"]
    stated, begin = time_in(request, "to"), time_in(request, "from")
    end = stated or time.time()
    begin = end - DAY if begin is None else begin
    if not begin < end <= begin + 31 * DAY:
        raise Problem("malformed", "from: it must be up to 31 days before to")
    report = await store.reports.get(federation, name)
    # Rows may be ahead of the clock here: a range without an end has them all.
    events = await store.reports.events(federation, name, begin, stated or math.inf, 1000)
    commands = await store.reports.commands(federation, name, 100)
    if report is None and not events and not commands:
        raise Problem("not-found", f"{name!r} has reported nothing, or has not joined")
    minutes = await store.reports.minutes(federation, name, begin, end)
    found = {"minutes": minutes, "events": [*map(_event, events)]}
    found |= {"report": _report_fields(report), "commands": [*map(_command, commands)]}
    return await asyncio.to_thread(JSONResponse, {"device": name, **found})


async def ask_command(request: Request) -> Response:
    """Store a command, which the device runs at its next sync."""
    caller = await caller_of(request)
    caller.require_admin()
    asked, name = await json_of(request), request.path_params["device"]
    if unknown := sorted(asked.keys() - {"action", "words"}):
        raise Problem("malformed", f"a command has an action and words, not {unknown[0]!r:.40}")
    command = await send_command(caller, name, asked.get("action", ""), asked.get("words", {}))
    caller.service.live_fleet.wake()
    return JSONResponse(command.fields, 201)


async def send_command(caller: Caller, device: str, action: str, words: dict[str, Any]) -> Command:
    name = caller.administrator or ""
    command = Command(secrets.token_urlsafe(12), action, words, name, time.time())
    refusal = await caller.store.reports.ask(
        caller.federation.name, device, command, actor=caller.actor
    )
    if refusal is not None:
        raise Problem("refused", refusal)
    return command


async def _looking(request: Request) -> Caller:
    caller = await caller_of(request)
    caller.require_admin()
    return caller


def _report_fields(found: StoredReport | None) -> dict[str, Any] | None:
    if found is None:
        return None
    times = {"received": found.received, "time": found.time, "silent_after": found.silent_after}
    return times | found.report


def _event(found: StoredEvent) -> dict[str, Any]:
    return {**found.details, "begin": found.begin, "end": found.ended}


def _command(found: StoredCommand) -> dict[str, Any]:
    result = {"done": found.done, "refused": found.refused, "said": list(found.said)}
    return {**found.command.fields, **result}
