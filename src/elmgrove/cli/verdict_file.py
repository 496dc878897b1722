"""Verdicts that were written as lines of JSON, read back to be drawn."""

import json
import math
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector import (
    TIME,
    AlarmRule,
    Cause,
    Course,
    Spell,
    ToldSensors,
    spells_of,
    spells_told,
)
from elmgrove.errors import BadInput

# What a verdict has at least, whoever wrote it.
_FIELDS = {"score", "threshold", "anomalous", "causes"}
_LINE = re.compile(r"\b(?:line|row) (\d+)$")


def holds_verdicts(path: Path) -> bool:
    """Says whether the first line of a file is a verdict, as the agent or ``score`` writes it."""
    with path.open("rb") as file:
        first = file.readline(1 << 20)
    try:
        return _is_verdict(json.loads(first))
    except ValueError:
        return False


def course_of_verdicts(path: Path) -> Course:
    """Reads verdicts to be drawn; their sensors are those that were told as causes."""
    told = list(_verdicts(path))
    scores = np.array([math.inf if one["score"] is None else one["score"] for one in told])
    # The agent writes null for what is infinite: it is as strange as can be.
    highest = scores[np.isfinite(scores)].max(initial=0.0)
    limits = [math.inf if one["threshold"] is None else one["threshold"] for one in told]
    anomalous = np.array([bool(one["anomalous"]) for one in told])
    causes = [[_cause(cause) for cause in one["causes"]] for one in told]
    axis, where = _where(told)
    return Course(
        str(told[0].get("device", path.stem)),
        "rows",
        axis,
        where,
        np.minimum(scores, highest),
        np.array(limits, np.float64),
        anomalous,
        _spells(told, anomalous),
        ToldSensors(causes),
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


def _where(told: list[dict[str, Any]]) -> tuple[str, Array]:
    """When each row was; else the line it stood in; else its number among the verdicts."""
    times = [_seconds(one.get("time")) for one in told]
    if not any(map(math.isnan, times)) and (np.diff(times) >= 0.0).all():
        return TIME, np.array(times)
    lines = [_line(one) for one in told]
    if not any(map(math.isnan, lines)) and (np.diff(lines) > 0.0).all():
        return "line", np.array(lines)
    return "verdict", np.arange(1.0, len(told) + 1.0)


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


def _spells(told: list[dict[str, Any]], anomalous: Array) -> list[Spell]:
    """The events that were told; of verdicts without them, those of the usual alarm rule."""
    if "event" not in told[0]:
        return spells_of(anomalous, AlarmRule())
    return spells_told([one.get("event") for one in told], [bool(one.get("alarm")) for one in told])


def _gaps(axis: str, where: Array) -> list[int]:
    """Where verdicts are missing between two, as far as their lines tell."""
    if axis != "line":
        return []
    return [int(place) for place in np.flatnonzero(np.diff(where) > 1.0) + 1]
