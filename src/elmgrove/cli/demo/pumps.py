"""Simulated centrifugal pumps from textbook equations, and what happens to each of them."""

import math
from collections.abc import Iterator
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


class PumpRow(NamedTuple):
    """What a pump's sensors show in one minute."""

    minute: int
    values: tuple[float, ...]


class Duty(NamedTuple):
    """The demand on a pump, as a share of the rated flow.

    ``load`` is its mean, ``swing`` how far that follows the day, and ``spread`` the deviation from
    minute to minute, as valves open and close.
    """

    load: float
    swing: float
    spread: float


class Pump:
    """One pump. ``load`` may be set while it runs; ``wear`` and ``clog`` go from 0 to 1.

    The same seed and number make the same pump.
    """

    def __init__(self, seed: int, number: int, minute: int, duty: Duty) -> None:
        self._rng = np.random.default_rng([seed, number])
        # Pumps of one make, calibrated alike, differ as little as this, in pressure, power, heat
        # and vibration. If they differed by much more, none could say what is normal at another.
        tolerance = np.array([0.002, 0.002, 0.003, 0.008])
        made = 1.0 + tolerance * self._rng.normal(size=len(tolerance))
        self._head, self._draw, self._heat, self._shake = map(float, made)
        self.minute = minute
        self.load, self._swing, self._spread = duty
        self.wear = self.clog = 0.0
        self._weather = 0.0
        # It has run for long, unless it rests first: 2.2 degrees a kW above the air.
        self._above = 2.2 * self._heat * self._power(self.load)

    def run(self, minutes: int, wear: float | None = None) -> list[PumpRow]:
        """Runs, with wear that grows evenly to ``wear``."""
        end = self.wear if wear is None else wear
        worn = np.linspace(self.wear, end, minutes + 1)[1:].tolist()
        draws = self._rng.normal(size=(minutes, len(SENSORS) + 2)).tolist()
        return [self._row(one, now) for one, now in zip(draws, worn, strict=True)]

    def rest(self, minutes: int) -> None:
        for draw in self._rng.normal(size=minutes).tolist():
            self._air(draw)
            self._above -= self._above / 40.0
            self.minute += 1

    def _row(self, draws: list[float], wear: float) -> PumpRow:
        self.wear = wear
        day = math.sin(2.0 * math.pi * (self.minute / DAY - 0.25))
        load = max(self.load + self._swing * day + self._spread * draws[-1], 0.1)
        air, power = self._air(draws[-2]), self._power(load)
        # It warms up within 40 minutes or so; a worn bearing adds 18 degrees and 2 mm/s.
        self._above += (2.2 * self._heat * power + 18.0 * wear - self._above) / 40.0
        vibration = self._shake * (1.0 + 0.5 * load + (load - 1.0) ** 2) + 2.0 * wear
        true = (100.0 * load, self._pressure(load), power, air + self._above, vibration, air)
        noise = (1.0, 0.04, 0.15, 0.4, 0.05, 0.2)
        values = (value + off * draw for value, off, draw in zip(true, noise, draws, strict=False))
        row = PumpRow(self.minute, tuple(values))
        self.minute += 1
        return row

    def _pressure(self, load: float) -> float:
        # 6.2 bar without flow, 1.8 bar less at the rated one; a clogged impeller takes a tenth.
        return self._head * (1.0 - 0.1 * self.clog) * (6.2 - 1.8 * load**2)

    def _power(self, load: float) -> float:
        efficiency = 0.8 * (1.0 - 0.5 * (load - 1.0) ** 2)
        # bar × m³/h / 36 are kW; 1 kW turns it, and friction in a worn bearing takes 0.4.
        moving = self._pressure(load) * 100.0 * load / 36.0 / efficiency
        return self._draw * (moving + 1.0) + 0.4 * self.wear

    def _air(self, draw: float) -> float:
        self._weather += 0.1 * draw - self._weather / 120.0
        day = math.sin(2.0 * math.pi * (self.minute / DAY - 0.375))
        return 18.0 + 5.0 * day + self._weather


#: Who breaks, moves to another operating point, knows much and leaves, warms up, and comes late.
BREAKS, MOVES, LEAVES, WARMS, LATE = NAMES = tuple(f"pump-{number}" for number in range(1, 6))
#: Those that have run for days when the late one comes, and what each of them does.
DUTIES = {
    BREAKS: "steady, about 70 m³/h",
    MOVES: "steady, about 70 m³/h",
    LEAVES: "batches at 60 to 115 m³/h, from cold",
    WARMS: "steady, about 70 m³/h",
}
# Rows begin at 6 o'clock. Two days and a half are learned, then nothing happens for a night, and
# the next morning begins the day on which it all does.
_BEGIN, _LEARNED, _NIGHT = 360, 5 * DAY // 2, DAY // 2
_TODAY = _BEGIN + _LEARNED + _NIGHT
# Minutes of a batch, and of the pause before it.
_BATCH, _PAUSE = 85, 75
#: The first minute after the story: of the mover 240 before the move, 480 after it, 120 after it
#: was accepted, 90 after one left, and 240 of rest.
END = _TODAY + 240 + 480 + 120 + 90 + 240


class Plant:
    """Five pumps from one seed: rows to learn, and a day with a fault, a move and a cold start."""

    def __init__(self, seed: int) -> None:
        duties = dict.fromkeys(NAMES, Duty(0.70, 0.04, 0.05))
        duties |= {LEAVES: Duty(0.88, 0.0, 0.15), LATE: Duty(0.70, 0.08, 0.05)}
        begins = dict.fromkeys(NAMES, _BEGIN) | {LEAVES: _BEGIN - _PAUSE, LATE: _TODAY}
        self.pumps = {
            name: Pump(seed, number, begins[name], duties[name])
            for number, name in enumerate(NAMES)
        }
        #: The minute from which on each is another, on the day.
        self.onsets = {BREAKS: _TODAY + 420, MOVES: _TODAY + 240, WARMS: _TODAY + 240}

    def run(self, name: str, minutes: int) -> list[PumpRow]:
        return self.pumps[name].run(minutes)

    def learned(self) -> dict[str, list[PumpRow]]:
        return self._quiet(_LEARNED, batches=22)

    def night(self) -> dict[str, list[PumpRow]]:
        return self._quiet(_NIGHT, batches=5)

    def day(self) -> dict[str, list[PumpRow]]:
        """The rows of the day on which one breaks, one moves and one starts cold."""
        breaks, moves, warms = (self.pumps[name] for name in (BREAKS, MOVES, WARMS))
        rows = {BREAKS: breaks.run(420) + breaks.run(180, wear=1.0) + breaks.run(120)}
        rows[MOVES] = moves.run(240)
        moves.load = 0.92
        rows[MOVES] += moves.run(480)
        rows[LEAVES] = self._run_batches(4)
        rows[WARMS] = warms.run(120)
        warms.rest(120)
        rows[WARMS] += warms.run(480)
        return rows

    def rest(self) -> dict[str, list[PumpRow]]:
        rows = dict[str, list[PumpRow]]()
        for name, pump in self.pumps.items():
            pump.wear = pump.clog = 0.0
            left = END - pump.minute
            many = left // (_BATCH + _PAUSE)
            rows[name] = self._run_batches(many) if name == LEAVES else pump.run(left)
        return rows

    def batch(self) -> Iterator[list[PumpRow]]:
        """The rows of the next batch, one by one, after a pause."""
        pump = self.pumps[LEAVES]
        pump.rest(_PAUSE)
        for _ in range(_BATCH):
            yield pump.run(1)

    def _quiet(self, minutes: int, batches: int) -> dict[str, list[PumpRow]]:
        rows = {name: self.pumps[name].run(minutes) for name in DUTIES if name != LEAVES}
        return rows | {LEAVES: self._run_batches(batches)}

    def _run_batches(self, many: int) -> list[PumpRow]:
        return [row for _ in range(many) for [row] in self.batch()]
