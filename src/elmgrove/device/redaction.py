"""What a report holds where rows are to stay on the device, within the bytes that are taken."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis, columns_of
from elmgrove.detector.drift import Drift, Shift
from elmgrove.detector.events import Event
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.verdict import Cause
from elmgrove.device.status import told
from elmgrove.exchange.responses import plain
from elmgrove.federation.report import (
    MOST_BYTES_EVENTS,
    MOST_BYTES_STATUS,
    MOST_BYTES_WAITING,
    MOST_EVENTS,
    MOST_WAITING,
    seconds_of,
)
from elmgrove.federation.validation import json_size

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
        fields["text"] += f" ({len(fields['causes'])} of {len(causes)} causes are shown)"
    try:
        for name in ("begin", "peak_at", "end"):
            seconds_of(fields[name] or 0)
    except ValueError:
        return None
    return None if None in (fields["peak"], fields["threshold"]) else fields


def rows_within(
    waiting: Sequence[Waiting], basis: Basis, most: int = MOST_BYTES_WAITING
) -> list[dict[str, Any]]:
    """Gives anomalous rows with their values, the newest, as many as have so few bytes together.

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


#: Sensors whose readings are told of an event, at most.
MOST_SENSORS = 3
# Figures of a reading and of the peak, of a share of the score (after the point: a share is about
# the untold sensors, too), and of what a drift tells.
_READING, _SHARE, _DRIFT = 3, 1, 2
_OF_SHIFT = ("percent", "size", "varied", "varies", "per_hour", "per_row")


class Redaction:
    """Leaves the readings of few sensors in an event: rounded, and never those of a whole row.

    What was seen and what was expected of a sensor are two equations about a row, and the peak of
    its event one more: all that are told are fewer than the sensors. They are chosen when the event
    opens, and are the same as long as it lasts: no row of it is told piece by piece, however its
    causes change. Of other causes the name and a coarse share are left. ``chosen`` is what a
    restart must know.
    """

    def __init__(self, basis: Basis, chosen: dict[str, list[str]]) -> None:
        self.chosen = chosen
        self._sensors = _sensors(basis)
        self._most = max(min(MOST_SENSORS, len(set(self._sensors.values())) // 2 - 1), 0)

    def choose(self, event: Event) -> list[str]:
        """Finds the sensors whose readings are told: those that explained most the first time."""
        key = f"{event.number} {event.begin}"
        if key not in self.chosen:
            sensors = dict.fromkeys(self._sensor(cause) for cause in event.causes)
            newest = list(self.chosen.items())[1 - MOST_EVENTS :]
            self.chosen = dict([*newest, (key, list(sensors)[: self._most])])
        return self.chosen[key]

    def event(self, event: Event) -> Event:
        """Gives an event as it is told."""
        chosen = self.choose(event)
        causes = (_rounded(one, self._sensor(one) in chosen) for one in event.causes)
        return replace(event, causes=tuple(causes), peak=_figures(event.peak, _READING))

    def _sensor(self, cause: Cause) -> str:
        # A state may remember an event of other columns.
        return self._sensors.get(cause.feature, cause.feature)


def discreet(drift: Drift) -> Drift:
    """Gives a drift as it is told: means of so few figures that two of them tell of no row between.

    They are of all rows since the drift began, and told again with each sync.
    """
    return replace(drift, sensors=tuple(map(_coarse, drift.sensors)))


def _sensors(basis: Basis) -> dict[str, str]:
    """Says whose each input is: a word is its column's, and a band that of the first beside it."""
    words = dict(basis.categories)
    first = [basis.names[place - place % basis.bands] for place in range(len(basis.names))]
    return {name: columns_of([one], words)[0] for name, one in zip(basis.names, first, strict=True)}


def _rounded(cause: Cause, shown: bool) -> Cause:
    seen, expected = (
        _figures(value, _READING) if shown else math.nan for value in (cause.seen, cause.expected)
    )
    return cause._replace(share=round(cause.share, _SHARE), seen=seen, expected=expected)


def _coarse(shift: Shift) -> Shift:
    """Levels to two figures of what changed, and all else to two figures of its own."""
    change = shift.varies - shift.varied if shift.by_spread else shift.after - shift.before
    moved = 0.0 < abs(change) < math.inf
    digits = _DRIFT - 1 - math.floor(math.log10(abs(change))) if moved else 0
    fields: dict[str, Any] = shift._asdict()
    for name in (name for name in _OF_SHIFT if fields[name] is not None):
        fields[name] = _figures(fields[name], _DRIFT)
    before, after = (round(float(level), digits) for level in (shift.before, shift.after))
    return Shift(**fields | {"before": before, "after": after})


def _figures(value: float, figures: int) -> float:
    return float(f"{value:.{figures}g}")
