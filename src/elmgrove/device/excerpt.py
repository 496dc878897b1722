"""Excerpts for a summary: what a status, events and rows tell, within the bytes that are taken."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Basis
from elmgrove.detector import Event, Waiting
from elmgrove.device.status import told
from elmgrove.exchange import plain
from elmgrove.federation import (
    MOST_BYTES_EVENTS,
    MOST_BYTES_STATUS,
    MOST_BYTES_WAITING,
    MOST_EVENTS,
    MOST_WAITING,
    json_size,
    seconds_of,
)

#: Letters of a name, and of a text, that are told.
NAME, TEXT = 200, 1000
# Causes of an event that are told; fewer where events are too many bytes.
_CAUSES = (8, 3, 0)
# Figures of a value that are told.
_FIGURES = 9
_CUT = "what explains the event and the drift is left out: with that it would be too long"


def cleaned(value: Any) -> Any:
    """Makes fields what any JSON and any data base holds: plain texts, and numbers or null.

    >>> cleaned({"flow\\n": [math.inf, 2.5, "x\\0"]})
    {'flow': [None, 2.5, 'x?']}
    """
    if isinstance(value, dict):
        return {plain(str(key), NAME): cleaned(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(one) for one in value]
    if isinstance(value, str):
        return plain(value, TEXT)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def status_within(status: dict[str, Any], most: int = MOST_BYTES_STATUS) -> dict[str, Any]:
    """Gives a status within so many bytes; what was cut is said in ``cut``."""
    found: dict[str, Any] = cleaned(status)
    if json_size(found) <= most:
        return found
    found["cut"] = _CUT
    for name, inside in (("event", "causes"), ("drift", "sensors"), ("drift", "relations")):
        if found[name] is not None:
            found[name] |= {inside: []}
    return found


def events_within(events: Sequence[Event], most: int = MOST_BYTES_EVENTS) -> list[dict[str, Any]]:
    """Gives the newest events, as many as have so few bytes together; first they lose causes."""
    newest = list(events)[-MOST_EVENTS:]
    for causes in _CAUSES:
        found = [one for event in newest if (one := _event(event, causes)) is not None]
        if json_size(found) <= most:
            return found
    while json_size(found) > most:
        del found[0]
    return found


def _event(event: Event, most: int) -> dict[str, Any] | None:
    """What there is to tell of an event; None if it is nothing that a calendar or JSON has."""
    fields: dict[str, Any] = cleaned(told(event))
    causes = [one | {"feature": plain(one["feature"], NAME)} for one in fields["causes"]]
    fields["causes"] = [one for one in causes if one["share"] is not None][:most]
    if len(fields["causes"]) < len(causes):
        fields["text"] += f" ({len(fields['causes'])} of {len(causes)} causes are told)"
    try:
        for name in ("begin", "peak_at", "end"):
            seconds_of(fields[name] or 0)
    except ValueError:
        return None
    return None if None in (fields["peak"], fields["threshold"]) else fields


def rows_within(
    waiting: Sequence[Waiting], basis: Basis, most: int = MOST_BYTES_WAITING
) -> list[dict[str, Any]]:
    """Gives strange rows with their values, the newest, as many as have so few bytes together.

    Of rows with very many columns there is one, with the first columns; ``cut`` says so.
    """
    found, size = list[dict[str, Any]](), 2
    for one in list(waiting)[: -MOST_WAITING - 1 : -1]:
        row = _row(one, basis)
        size += json_size(row) + 1
        if size > most:
            break
        found.insert(0, row)
    return found or [_cut(_row(one, basis), most) for one in list(waiting)[-1:]]


def _row(one: Waiting, basis: Basis) -> dict[str, Any]:
    """A row in the data's own units: of a window the last one."""
    values, scaling = np.asarray(one.row[-basis.layer.inputs :], np.float64), basis.scaling
    if scaling.kind != "none":
        values = values * scaling.scale + scaling.shift
    named = {
        name: float(f"{value:.{_FIGURES}g}")
        for name, value in zip(basis.names, values.tolist(), strict=True)
    }
    row: dict[str, Any] = cleaned({"time": one.time, "score": one.score, "values": named})
    return row


def _cut(row: dict[str, Any], most: int) -> dict[str, Any]:
    columns = list(row["values"].items())
    shown = len(columns)
    while json_size(row) > most:
        shown //= 2
        row = row | {"values": dict(columns[:shown])}
        row["cut"] = f"the first {shown} of {len(columns)} columns"
    return row
