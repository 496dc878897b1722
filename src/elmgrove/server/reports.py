"""What devices report of themselves, over HTTP: taken and shown; and their commands."""

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
from elmgrove.federation.report import MOST_BYTES_REPORT, Report
from elmgrove.federation.terms import DAY
from elmgrove.server.auth import Caller, caller_of
from elmgrove.server.query import number_in, text_in, time_in
from elmgrove.server.service import LONGEST_JSON, body_of, json_of, object_of
from elmgrove.server.store.fleet import require_known
from elmgrove.server.store.records import CommandRow, Event, ToldRow

#: Devices of an answer unless stated, and at most.
PAGE, LONGEST_PAGE = 100, 1000
#: Days of minutes and events in one answer, unless stated and at most; events and commands of it.
DAYS, MOST_DAYS = 1.0, 31.0
MOST_SHOWN, COMMANDS_SHOWN = 1000, 100


async def put_report(request: Request) -> Response:
    """Takes a device's status in place of the one before; gives the commands that wait for it."""
    caller = await caller_of(request)
    name = request.path_params["device"]
    caller.require_device(name)
    body = await body_of(request, MOST_BYTES_REPORT)
    # A large one takes a while, in which others are answered.
    large = len(body) > LONGEST_JSON
    report = await asyncio.to_thread(_report, body) if large else _report(body)
    if report.device != name:
        raise Problem("forbidden", f"{name!r} may not tell of {report.device!r}")
    commands = await caller.store.take_report(caller.federation, report, time.time())
    caller.service.live_fleet.wake()
    return JSONResponse({"commands": [command.fields for command in commands]})


def _report(body: bytes) -> Report:
    return Report.from_fields(object_of(body))


async def index(request: Request) -> Response:
    """Lists devices and how each is doing, a page at a time, and counts them by state."""
    caller = await _looking(request)
    state, sort = text_in(request, "state"), text_in(request, "sort") or "name"
    limit, offset = number_in(request, "limit"), number_in(request, "offset")
    require_known(state, sort.removeprefix("-"))
    page = await caller.service.store.fleet(
        caller.federation.name,
        search=text_in(request, "search") or "",
        state=state,
        sort=sort.removeprefix("-"),
        descending=sort.startswith("-"),
        limit=PAGE if limit is None else min(int(limit), LONGEST_PAGE),
        offset=min(int(offset or 0), 2**62),
        now=time.time(),
    )
    return JSONResponse(asdict(page))


async def show(request: Request) -> Response:
    """Gives all that is known of a device in a time: status, minutes, events and commands."""
    caller = await _looking(request)
    store, federation = caller.service.store, caller.federation.name
    name = request.path_params["device"]
    stated, begin = time_in(request, "to"), time_in(request, "from")
    end = stated or time.time()
    begin = end - DAYS * DAY if begin is None else begin
    if not begin < end <= begin + MOST_DAYS * DAY:
        raise Problem("malformed", f"from: it must be up to {MOST_DAYS:g} days before to")
    told = await store.told(federation, name)
    # Rows may be ahead of the clock here: what is not said to end leaves out none of them.
    events = await store.events(federation, name, begin, stated or math.inf, MOST_SHOWN)
    commands = await store.commands(federation, name, COMMANDS_SHOWN)
    if told is None and not events and not commands:
        raise Problem("not-found", f"{name!r} has reported nothing, or has not joined")
    minutes = await store.minutes(federation, name, begin, end)
    found = {"minutes": minutes, "events": [*map(_event, events)]}
    found |= {"told": _told(told), "commands": [*map(_command, commands)]}
    return await asyncio.to_thread(JSONResponse, {"device": name, **found})


async def ask_command(request: Request) -> Response:
    """Lets a command wait for a device, which does it at its next sync."""
    caller = await caller_of(request)
    caller.require_admin()
    asked, name = await json_of(request), request.path_params["device"]
    if unknown := sorted(asked.keys() - {"action", "words"}):
        raise Problem("malformed", f"a command has an action and words, and no {unknown[0]!r:.40}")
    command = await let_wait(caller, name, asked.get("action", ""), asked.get("words", {}))
    caller.service.live_fleet.wake()
    return JSONResponse(command.fields, 201)


async def let_wait(caller: Caller, device: str, action: str, words: dict[str, Any]) -> Command:
    """Makes a command, which waits for its device from then on; refuses what can't be asked."""
    name = caller.administrator or ""
    command = Command(secrets.token_urlsafe(12), action, words, name, time.time())
    refusal = await caller.store.ask_command(caller.federation, device, command, actor=caller.actor)
    if refusal is not None:
        raise Problem("refused", refusal)
    return command


async def _looking(request: Request) -> Caller:
    caller = await caller_of(request)
    caller.require_admin()
    return caller


def _told(told: ToldRow | None) -> dict[str, Any] | None:
    if told is None:
        return None
    times = {"received": told.received, "time": told.time, "due": told.due}
    return times | told.report


def _event(found: Event) -> dict[str, Any]:
    return {**found.details, "begin": found.begin, "end": found.ended}


def _command(found: CommandRow) -> dict[str, Any]:
    outcome = {"done": found.done, "refused": found.refused, "said": list(found.said)}
    return {**found.command.fields, **outcome}
