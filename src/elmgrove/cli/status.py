"""``elmgrove status``: how a device is doing, in one screen."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import percent, shown
from elmgrove.cli.running import Device, StateOrAgent
from elmgrove.detector.decision import LEARNING
from elmgrove.detector.events import normal_at
from elmgrove.federation.member import Borrowing

Fields = Mapping[str, Any]


def status(
    state: StateOrAgent,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show how a device is doing.

    What it learned, whether it watches, its events, and what it has from others. A running agent
    answers for now; otherwise it is what was saved last.

    Example: [bold]elmgrove status fan-1.elm[/]
    """
    found, live = Device(state).ask("status")
    if as_json:
        Console().print_json(json.dumps({**found, "live": live}))
        return
    running = "its agent is running" if live else "as it was saved; no agent is running"
    grid = Grid(title=f"{found.get('name', state)}: {running}", show_header=False)
    for name, text in lines_of(found).items():
        grid.add_row(name, text)
    Console(markup=False, emoji=False, highlight=False).print(grid)


def lines_of(found: Fields) -> dict[str, str]:
    """The lines of the table, by their names; what is not known has none."""
    agent = {"agent": _agent(found["agent"])} if "agent" in found else {}
    if "state" not in found:
        # The agent waits for something, and its line says for what.
        return agent
    learned, kept, counted = found["learned"], round(found["kept"]), found["counted"]
    left = f"; {kept:,} of them are in the model" if kept < learned else ""
    stated = "" if found["rate"] is None else f"; stated: {100.0 * found['rate']:g} %"
    events = [*found["last_events"], *([found["event"]] if found["event"] else [])]
    waiting = found["quarantine"]
    lines = {
        "learned": f"{learned:,} {counted}{left}",
        "patterns": found["patterns"] or "",
        "state": _state(found),
        "flagged": f"{flagged(found)}{stated}",
        "events": "\n".join(map(_event, events)) or "none",
        "drift": "none" if found["drift"] is None else found["drift"]["text"],
        "answers": "\n".join(one["text"] for one in found["answers"][-3:]),
        "waiting": f"{waiting:,} anomalous row{'s' * (waiting != 1)} in quarantine",
        "others": learns_from(found),
        "borrows": str(Borrowing(**found["borrows"])),
        "shared": "nothing yet"
        if found["shared"] is None
        else f"sums of {found['shared']:,} {counted}",
        "unlike": "" if found["unlike"] is None else f"unlike all others: {found['unlike']}",
        "rows": "" if found["rows"] is None else _rows(found["rows"]),
        "sync": "" if found["sync"] is None else _sync(found["sync"]),
    }
    return {name: text for name, text in lines.items() if text} | agent


def flagged(found: Fields) -> str:
    """How many rows were above the threshold since the state began, in words."""
    seen = found["flagged"]
    if not seen["rows"]:
        return "no rows counted yet"
    low, high = map(percent, seen["band"])
    share = f"{percent(seen['share'])} (95 % sure: {low} to {high})"
    return f"{seen['flagged']} of {seen['rows']} rows: {share}"


def learns_from(found: Fields) -> str:
    """The other devices that a device learns from, in words."""
    others, groups = found["others"], found["groups"]
    if not others:
        return "none: its own rows alone"
    count = "1 other" if others == 1 else f"{others:,} others"
    where = "" if found["federation"] is None else f" of {found['federation']!r}"
    if found["merged"]:
        models = found["models"]
        what = "one model" if models == 1 else f"{models:,} models, of which the best answers,"
        return f"{what} of its own rows and those of {count}{where}"
    in_groups = "" if groups is None else f", in {groups:,} group{'s' * (groups != 1)}"
    return f"asks {count}{where}{in_groups}; events say who knows their like"


def _state(found: Fields) -> str:
    since = f" since {shown(found['since'])}" if found["since"] else ""
    if found["state"] == LEARNING:
        missing = f"{found['rows_missing']:,} more {found['counted']}"
        return f"learning{since}: {missing} without an anomalous one until there are alarms"
    return f"{found['state']}{since}: scores above {found['threshold']:.4g} are anomalous"


def _event(event: Fields) -> str:
    """An event in one line; elmgrove quarantine lists its rows."""
    begin, end = event["begin"], event["end"]
    lasted = ", still open" if end is None else f" to {_when(end, begin)}"
    peak = f", {event['peak'] / event['threshold']:.3g} × threshold" if event["threshold"] else ""
    cause = f": {event['causes'][0]['feature']}" if event["causes"] else ""
    rows = f"{event['rows']:,} row{'s' * (event['rows'] != 1)}"
    known = f", {normal_at(event['known'])}" if event["known"] else ""
    answer = f"; answered: {event['answered']}" if event["answered"] else ""
    return f"{event['number']}. {_when(begin)}{lasted}, {rows}{peak}{known}{cause}{answer}"


def _when(when: str | int, day: str | int | None = None) -> str:
    """A time, without the date where that is today's or that of ``day``; or the number of a row."""
    return f"row {when:,}" if isinstance(when, int) else shown(when, day)


def _rows(rows: Fields) -> str:
    counts = f"{rows['used']:,} used, {rows['left_out']:,} left out"
    if not rows.get("reason"):
        return counts
    unreadable = "most of the last can't be used! " if rows.get("deaf") else ""
    return f"{counts}; {unreadable}the last: {rows['reason']}"


def _sync(sync: Fields) -> str:
    due = "" if sync["next"] is None else f"; next {shown(sync['next'])}"
    failed = "failed: " if sync["failed"] else ""
    return f"{shown(sync['time'])}: {failed}{sync['said']}{due}"


def _agent(agent: Fields) -> str:
    process = f"process {agent['pid']} since {shown(agent['since'])}, reads {agent['source']}"
    if "waits_for" in agent:
        return f"{process}, waits for {agent['waits_for']}"
    where = f"; last: {agent['where']}" if agent["where"] else ""
    return f"{process}: {agent['rows']:,} rows{where}"
