"""``elmgrove status``: how a device is doing, in one screen."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import percent, shown
from elmgrove.cli.running import Device, StateOrAgent
from elmgrove.detector.events import normal_at
from elmgrove.detector.false_alarms import LEARNING
from elmgrove.federation.member import Borrowing

Fields = Mapping[str, Any]
# Answers that are shown, the newest.
_ANSWERS = 3


def status(
    state: StateOrAgent,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
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
    """Says how a device is doing, a line for each thing; what is not there has none."""
    agent = {"agent": _agent(found["agent"])} if "agent" in found else {}
    if "state" not in found:
        # It waits for something, and the agent says for what.
        return agent
    lines = {
        "learned": _learned(found),
        "state": state_of(found),
        "flagged": f"{flagged(found)}{_stated(found)}",
        "events": _events(found),
        "drift": "none" if found["drift"] is None else found["drift"]["text"],
        **_answers(found["answers"]),
        "waiting": _waiting(found["quarantine"]),
        "others": what_others_are(found),
        "borrows": str(Borrowing(**found["borrows"])),
        "shared": _shared(found),
    }
    if found["unlike"] is not None:
        lines["unlike"] = f"unlike all others: {found['unlike']}"
    if found["rows"] is not None:
        lines["rows"] = _rows(found["rows"])
    if found["sync"] is not None:
        lines["sync"] = _sync(found["sync"])
    return lines | agent


def state_of(found: Fields) -> str:
    """Says what the device does, and since when."""
    since = f" since {shown(found['since'])}" if found["since"] else ""
    if found["state"] == LEARNING:
        missing = f"{found['rows_missing']:,} more {found['counted']}"
        return f"learning{since}: {missing} without an anomalous one until there are alarms"
    return f"{found['state']}{since}: scores above {found['threshold']:.4g} are anomalous"


def flagged(found: Fields) -> str:
    """Says how many rows were above the threshold since the state is what it is."""
    seen = found["flagged"]
    if not seen["rows"]:
        return "no rows counted yet"
    low, high = map(percent, seen["band"])
    share = f"{percent(seen['share'])} (95 % sure: {low} to {high})"
    return f"{seen['flagged']} of {seen['rows']} rows: {share}"


def what_others_are(found: Fields) -> str:
    """Says from whom a device learns, and what they are to it."""
    count = found["others"]
    if not count:
        return "none: its own rows alone"
    many = "1 other" if count == 1 else f"{count:,} others"
    where = "" if found["federation"] is None else f" of {found['federation']!r}"
    if found["merged"]:
        models = found["models"]
        what = "one model" if models == 1 else f"{models:,} models, of which the best answers,"
        return f"{what} of its own rows and those of {many}{where}"
    told = found["groups"]
    groups = f", in {told:,} group{'s' * (told != 1)}" if told is not None else ""
    return f"asks {many}{where}{groups}; events say who knows their like"


def _stated(found: Fields) -> str:
    return "" if found["rate"] is None else f"; stated: {100.0 * found['rate']:g} %"


def _events(found: Fields) -> str:
    events = [*found["last_events"], *([found["event"]] if found["event"] else [])]
    return "\n".join(map(_event, events)) or "none"


def _event(event: Fields) -> str:
    """Tells an event in a line; elmgrove quarantine tells of its rows."""
    begin, end = event["begin"], event["end"]
    lasted = ", still open" if end is None else f" to {_when(end, begin)}"
    peak = f", {event['peak'] / event['threshold']:.3g} × threshold" if event["threshold"] else ""
    cause = f": {event['causes'][0]['feature']}" if event["causes"] else ""
    rows = f"{event['rows']:,} row{'s' * (event['rows'] != 1)}"
    known = f", {normal_at(event['known'])}" if event["known"] else ""
    said = f"; answered: {event['answered']}" if event["answered"] else ""
    return f"{event['number']}. {_when(begin)}{lasted}, {rows}{peak}{known}{cause}{said}"


def _answers(answers: Sequence[Fields]) -> dict[str, str]:
    """Who said what of events and rows, newest last; elmgrove undo undoes the last."""
    return {"answers": "\n".join(one["text"] for one in answers[-_ANSWERS:])} if answers else {}


def _when(when: str | int, day: str | int | None = None) -> str:
    """A time, without the date where that is today's or the ``day`` told already; or a row."""
    return f"row {when:,}" if isinstance(when, int) else shown(when, day)


def _waiting(rows: int) -> str:
    return f"{rows:,} anomalous row{'s' * (rows != 1)} in quarantine"


def _shared(found: Fields) -> str:
    if found["shared"] is None:
        return "nothing yet"
    return f"sums of {found['shared']:,} {found['counted']}"


def _rows(rows: Fields) -> str:
    said = f"{rows['used']:,} used, {rows['left_out']:,} left out"
    if not rows.get("reason"):
        return said
    deaf = "most of the last can't be used! " if rows.get("deaf") else ""
    return f"{said}; {deaf}the last: {rows['reason']}"


def _sync(sync: Fields) -> str:
    due = "" if sync["next"] is None else f"; next {shown(sync['next'])}"
    failed = "failed: " if sync["failed"] else ""
    return f"{shown(sync['time'])}: {failed}{sync['said']}{due}"


def _learned(found: Fields) -> str:
    """How much was learned, and what is left of it where rows were taken out or forgotten."""
    learned, kept = found["learned"], round(found["kept"])
    left = f"; {kept:,} of them are in the model" if kept < learned else ""
    return f"{learned:,} {found['counted']}{left}"


def _agent(agent: Fields) -> str:
    said = f"process {agent['pid']} since {shown(agent['since'])}, reads {agent['source']}"
    if "waits_for" in agent:
        return f"{said}, waits for {agent['waits_for']}"
    where = f"; last: {agent['where']}" if agent["where"] else ""
    return f"{said}: {agent['rows']:,} rows{where}"
