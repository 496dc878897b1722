"""``elmgrove plot``: draws scores, events and the sensors behind them, and what was expected."""

import json
import math
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from elmgrove.algebra.rows import Array
from elmgrove.cli.options import SkipBad, file_or_input, notes, read_for
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.plot import draw, save_picture, title
from elmgrove.detector.replay import (
    TIME,
    Interval,
    NamedCauses,
    Replay,
    intervals_by_rule,
    intervals_of_events,
)
from elmgrove.detector.verdict import Cause
from elmgrove.errors import BadFile, BadInput
from elmgrove.federation.member import Member
from elmgrove.reading.formats import STANDARD_INPUT
from elmgrove.storage.disk import load

# What a verdict has at least, by the agent or by score.
_FIELDS = {"score", "threshold", "anomalous", "causes"}
_LINE = re.compile(r"\b(?:line|row) (\d+)$")


def plot(
    file: Annotated[
        Path,
        typer.Argument(
            help="A state (its last rows and those in quarantine), rows that --state judges, or "
            "verdicts that the agent or elmgrove score wrote as JSON lines.",
            parser=file_or_input,
            metavar="FILE",
        ),
    ],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", "-s", help="The state that judges the rows.", exists=True, dir_okay=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The picture; its ending is its format \\[default: FILE.png, like new.csv.png].",
            dir_okay=False,
        ),
    ] = None,
    event: Annotated[
        int | None,
        typer.Option(
            help="Show the sensors around the event of this number \\[default: all rows of a short "
            "file, of a long one what is around the worst event].",
            min=1,
        ),
    ] = None,
    sensors: Annotated[int, typer.Option(help="The most sensors to draw.", min=1, max=20)] = 4,
    skip_bad: SkipBad = False,
) -> None:
    """Draw scores, events, and the sensors that caused them.

    A sensor is drawn with what was expected of it by all others. Nothing is learned.

    Example: [bold]elmgrove plot new.csv --state fan-1.elm[/]
    """
    replay = _course(file, state, skip_bad)
    path = out or Path("plot.png" if str(file) == STANDARD_INPUT else f"{file.name}.png")
    save_picture(draw(replay, event=event, most=sensors), path)
    notes.print(f"{title(replay)}. Wrote {path}.")


def _course(file: Path, state: Path | None, skip_bad: bool) -> Replay:
    if state is not None:
        member = load(state, Member.from_bytes)
        table = read_for(member, file, skip_bad)
        if not len(table.rows):
            raise BadInput(f"{file}: no rows to draw")
        return Replay.of_rows(
            member.detector,
            table.rows,
            table.times,
            table.gaps,
            lines=table.lines,
            name=member.name,
        )
    if str(file) == STANDARD_INPUT:
        raise BadInput("rows from standard input need the state that judges them (--state)")
    if holds_verdicts(file):
        return replay_of_verdicts(file)
    try:
        member = load(file, Member.from_bytes)
    except BadFile as error:
        raise BadInput(
            f"{error}; nor does it hold verdicts: to draw rows, give the state that judges them "
            "(--state)"
        ) from error
    return Replay.of_state(member.detector, member.name)


# Verdicts that were written


def holds_verdicts(path: Path) -> bool:
    """Whether the first line of a file is a verdict, as the agent or ``score`` writes it."""
    with path.open("rb") as file:
        first = file.readline(1 << 20)
    try:
        return _is_verdict(json.loads(first))
    except ValueError:
        return False


def replay_of_verdicts(path: Path) -> Replay:
    """Reads verdicts to be drawn; their sensors are those that they name as causes."""
    verdicts = list(_verdicts(path))
    scores = np.array([math.inf if one["score"] is None else one["score"] for one in verdicts])
    # The agent writes null for what is infinite: it is as anomalous as can be.
    highest = scores[np.isfinite(scores)].max(initial=0.0)
    limits = [math.inf if one["threshold"] is None else one["threshold"] for one in verdicts]
    anomalous = np.array([bool(one["anomalous"]) for one in verdicts])
    causes = [[_cause(cause) for cause in one["causes"]] for one in verdicts]
    axis, where = _where(verdicts)
    return Replay(
        str(verdicts[0].get("device", path.stem)),
        "rows",
        axis,
        where,
        np.minimum(scores, highest),
        np.array(limits, np.float64),
        anomalous,
        _intervals(verdicts, anomalous),
        NamedCauses(causes),
        _gaps(axis, where),
    )


def _verdicts(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except ValueError as error:
                raise BadInput(f"{path}, line {number}: not a verdict ({error})") from error
            if not _is_verdict(found):
                raise BadInput(f"{path}, line {number}: not a verdict, as the lines before are")
            yield found


def _is_verdict(found: Any) -> bool:
    return isinstance(found, dict) and found.keys() >= _FIELDS


def _cause(fields: dict[str, Any]) -> Cause:
    known: dict[str, Any] = {
        name: math.nan if value is None else value for name, value in fields.items()
    }
    return Cause(**known)


def _where(verdicts: list[dict[str, Any]]) -> tuple[str, Array]:
    """The time of each row; else its line; else its number among the verdicts."""
    times = [_seconds(one.get("time")) for one in verdicts]
    if not any(map(math.isnan, times)) and (np.diff(times) >= 0.0).all():
        return TIME, np.array(times)
    lines = [_line(one) for one in verdicts]
    if not any(map(math.isnan, lines)) and (np.diff(lines) > 0.0).all():
        return "line", np.array(lines)
    return "verdict", np.arange(1.0, len(verdicts) + 1.0)


def _seconds(time: Any) -> float:
    if isinstance(time, int | float):
        return float(time)
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return math.nan


def _line(verdict: dict[str, Any]) -> float:
    if "line" in verdict:
        return float(verdict["line"])
    found = _LINE.search(str(verdict.get("where", "")))
    return math.nan if found is None else float(found[1])


def _intervals(verdicts: list[dict[str, Any]], anomalous: Array) -> list[Interval]:
    """The events that verdicts name; without any, those of the usual alarm rule."""
    if "event" not in verdicts[0]:
        return intervals_by_rule(anomalous, AlarmRule())
    return intervals_of_events(
        [one.get("event") for one in verdicts], [bool(one.get("alarm")) for one in verdicts]
    )


def _gaps(axis: str, where: Array) -> list[int]:
    """Where verdicts are missing between two, as far as their lines tell."""
    if axis != "line":
        return []
    return [int(place) for place in np.flatnonzero(np.diff(where) > 1.0) + 1]
