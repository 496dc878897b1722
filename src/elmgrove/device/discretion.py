"""Discretion: what is told of events and drift where rows are to stay on the device."""

import math
from dataclasses import replace
from typing import Any

from elmgrove.algebra import Basis, columns_of
from elmgrove.detector import Cause, Drift, Event, Shift
from elmgrove.federation import MOST_EVENTS

#: Sensors whose readings are told of an event, at most.
MOST_SENSORS = 3
# Figures of a reading and of the peak, of a share of the score (after the point: a share is about
# the untold sensors, too), and of what a drift tells.
_READING, _SHARE, _DRIFT = 3, 1, 2
_OF_SHIFT = ("percent", "size", "varied", "varies", "per_hour", "per_row")


class Discretion:
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
