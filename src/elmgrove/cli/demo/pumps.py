"""Simulated centrifugal pumps: what six sensors show, a row a minute, from textbook equations.

Nothing here was measured. A pump follows its curve: with more flow comes less pressure. Its power
is what moves the water, divided by an efficiency that is best at the rated flow. Power heats it,
slowly, above the air around it, and away from the rated flow the water shakes it. Wear of the
bearing adds friction, heat and vibration; a clogged impeller takes pressure away.
"""

import math
from typing import NamedTuple

import numpy as np

#: The sensors in the order of a row's values, with their units.
SENSORS = {
    "flow": "m³/h",
    "pressure": "bar",
    "power": "kW",
    "temperature": "°C",
    "vibration": "mm/s",
    "ambient": "°C",
}
#: Minutes of a day.
DAY = 1440
# How far each sensor is off, at random: its standard deviation.
_NOISE = (1.0, 0.04, 0.15, 0.4, 0.05, 0.2)
# How far pumps of one make differ whose sensors were calibrated alike: in pressure, power, heat and
# vibration, as shares. If they differed by much more, none could say what is normal at another one.
_TOLERANCE = (0.002, 0.002, 0.003, 0.008)
# The rated flow, the pressure without flow, and what of it is gone at the rated flow.
_RATED, _SHUT, _DROP = 100.0, 6.2, 1.8
# The best efficiency, how fast it falls away from the rated flow, and the power that turns it.
_EFFICIENCY, _FALL, _IDLE = 0.8, 0.5, 1.0
# Degrees a kW; minutes in which it warms up while it runs, and cools down while it stands.
_HEAT, _WARMING, _COOLING = 2.2, 40.0, 40.0
# The air: its mean, how far it follows the day, its steps, and minutes that it remembers.
_AIR, _SWING, _STEP, _WEATHER = 18.0, 5.0, 0.1, 120.0
# What a worn bearing adds: kW, degrees and mm/s. What a clogged impeller takes: a share.
_FRICTION, _GLOW, _SHAKE, _LOST = 0.4, 18.0, 2.0, 0.1


class PumpRow(NamedTuple):
    """What a pump's sensors show in one minute."""

    minute: int
    values: tuple[float, ...]


class Duty(NamedTuple):
    """What is asked of a pump: its demand, as a share of the rated flow.

    ``load`` is its mean, ``swing`` how far that follows the day, and ``spread`` the deviation from
    minute to minute, as valves open and close.
    """

    load: float
    swing: float
    spread: float


class Pump:
    """One pump: what it does is set, and ``run`` gives its rows.

    ``load`` is the mean of its demand, and may be set while it runs; ``wear`` and ``clog`` are 0
    for a pump in order and 1 for one that is to be repaired. The same seed and number make the same
    pump.
    """

    def __init__(self, seed: int, number: int, minute: int, duty: Duty) -> None:
        self._rng = np.random.default_rng([seed, number])
        made = 1.0 + np.array(_TOLERANCE) * self._rng.normal(size=len(_TOLERANCE))
        self._head, self._draw, self._heat, self._shake = map(float, made)
        self.minute = minute
        self.load, self._swing, self._spread = duty
        self.wear = self.clog = 0.0
        self._weather = 0.0
        # It has run for long, unless it rests first.
        self._above = _HEAT * self._heat * self._power(self.load)

    def run(self, minutes: int, wear: float | None = None) -> list[PumpRow]:
        """Runs so long, and lets the wear grow evenly to what it is to be at the end."""
        end = self.wear if wear is None else wear
        worn = np.linspace(self.wear, end, minutes + 1)[1:].tolist()
        draws = self._rng.normal(size=(minutes, len(SENSORS) + 2)).tolist()
        return [self._row(one, now) for one, now in zip(draws, worn, strict=True)]

    def rest(self, minutes: int) -> None:
        """Stands still for so long, and cools down: no rows."""
        for draw in self._rng.normal(size=minutes).tolist():
            self._air(draw)
            self._above -= self._above / _COOLING
            self.minute += 1

    def _row(self, draws: list[float], wear: float) -> PumpRow:
        self.wear = wear
        day = math.sin(2.0 * math.pi * (self.minute / DAY - 0.25))
        load = max(self.load + self._swing * day + self._spread * draws[-1], 0.1)
        air, power = self._air(draws[-2]), self._power(load)
        self._above += (_HEAT * self._heat * power + _GLOW * wear - self._above) / _WARMING
        shaken = self._shake * (1.0 + 0.5 * load + (load - 1.0) ** 2) + _SHAKE * wear
        true = (_RATED * load, self._pressure(load), power, air + self._above, shaken, air)
        values = (value + off * draw for value, off, draw in zip(true, _NOISE, draws, strict=False))
        row = PumpRow(self.minute, tuple(values))
        self.minute += 1
        return row

    def _pressure(self, load: float) -> float:
        return self._head * (1.0 - _LOST * self.clog) * (_SHUT - _DROP * load**2)

    def _power(self, load: float) -> float:
        efficiency = _EFFICIENCY * (1.0 - _FALL * (load - 1.0) ** 2)
        # bar × m³/h / 36 are kW.
        moving = self._pressure(load) * _RATED * load / 36.0 / efficiency
        return self._draw * (moving + _IDLE) + _FRICTION * self.wear

    def _air(self, draw: float) -> float:
        self._weather += _STEP * draw - self._weather / _WEATHER
        day = math.sin(2.0 * math.pi * (self.minute / DAY - 0.375))
        return _AIR + _SWING * day + self._weather
