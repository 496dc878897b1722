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


#: Who breaks, moves to another operating point, knows much and leaves, warms up, and comes late.
BREAKS, MOVES, LEAVES, WARMS, LATE = NAMES = tuple(f"pump-{number}" for number in range(1, 6))
#: Those that have run for days when the late one comes, and what each of them does.
DUTIES = {
    BREAKS: "steady, about 70 m³/h",
    MOVES: "steady, about 70 m³/h",
    LEAVES: "batches at 60 to 115 m³/h, from cold",
    WARMS: "steady, about 70 m³/h",
}
# The first minute is 6 o'clock. Two days and a half are learned, then nothing happens for a night,
# and the next morning begins the day on which it all does.
_BEGIN, _LEARNED, _NIGHT = 360, 5 * DAY // 2, DAY // 2
_TODAY = _BEGIN + _LEARNED + _NIGHT
# Minutes of a batch and of the pause before it.
_BATCH, _PAUSE = 85, 75
_STEADY, _BATCHES, _NEW = Duty(0.70, 0.04, 0.05), Duty(0.88, 0.0, 0.15), Duty(0.70, 0.08, 0.05)
_MOVED = 0.92
# On that day, in minutes: until a bearing begins to wear, while the wear grows, and after it.
_SOUND, _WEARING, _WORN = 420, 180, 120
# ...until one moves, and after it; until one is stopped, while it stands, and after it.
_STAYS, _MOVED_FOR, _RUNS, _STANDS, _RUNS_AGAIN = 240, 480, 120, 120, 480
# Batches that are learned, of the night and of the day.
_MANY, _AT_NIGHT, _BY_DAY = 22, 5, 4
# Rows of the mover after the move was accepted, and when one has left.
_ACCEPTED, _LEFT = 120, 90
# Then nothing happens for a while.
_REST = 240
#: The first minute after all that.
END = _TODAY + _STAYS + _MOVED_FOR + _ACCEPTED + _LEFT + _REST
#: Rows that the late one learns, its next rows in order, and those of a fault.
MORNING, NEXT, CLOGGED = 300, 120, 40


class Plant:
    """Five pumps from one seed: rows to learn, and a day with a fault, a move and a cold start."""

    def __init__(self, seed: int) -> None:
        duties = dict.fromkeys(NAMES, _STEADY) | {LEAVES: _BATCHES, LATE: _NEW}
        begins = dict.fromkeys(NAMES, _BEGIN)
        begins |= {LEAVES: _BEGIN - _PAUSE, LATE: _TODAY}
        self.pumps = {
            name: Pump(seed, number, begins[name], duties[name])
            for number, name in enumerate(NAMES)
        }

    def learned(self) -> dict[str, list[PumpRow]]:
        """Gives the rows of two days and a half on which nothing happened."""
        return self._quiet(_LEARNED, _MANY)

    def night(self) -> dict[str, list[PumpRow]]:
        """Gives the rows of the night after that, on which nothing happens either."""
        return self._quiet(_NIGHT, _AT_NIGHT)

    def day(self) -> dict[str, list[PumpRow]]:
        """Gives the rows of the day on which one breaks, one moves and one starts cold."""
        breaks, moves, warms = (self.pumps[name] for name in (BREAKS, MOVES, WARMS))
        rows = {BREAKS: breaks.run(_SOUND) + breaks.run(_WEARING, wear=1.0) + breaks.run(_WORN)}
        rows[MOVES] = moves.run(_STAYS)
        moves.load = _MOVED
        rows[MOVES] += moves.run(_MOVED_FOR)
        rows[LEAVES] = self._run_batches(_BY_DAY)
        rows[WARMS] = warms.run(_RUNS)
        warms.rest(_STANDS)
        rows[WARMS] += warms.run(_RUNS_AGAIN)
        return rows

    @property
    def onsets(self) -> dict[str, int]:
        """The minute from which on each is another, on the day."""
        return {BREAKS: _TODAY + _SOUND, MOVES: _TODAY + _STAYS, WARMS: _TODAY + _RUNS + _STANDS}

    def morning(self) -> list[PumpRow]:
        """Gives the first rows of the late one."""
        return self.pumps[LATE].run(MORNING)

    def afternoon(self) -> list[PumpRow]:
        """Gives the late one's next rows: in order at first, then its impeller is clogged."""
        late = self.pumps[LATE]
        rows = late.run(NEXT)
        late.clog = 1.0
        return rows + late.run(CLOGGED)

    def accepted(self) -> list[PumpRow]:
        """Gives the mover's rows after a person has accepted its operating point."""
        return self.pumps[MOVES].run(_ACCEPTED)

    def left(self) -> list[PumpRow]:
        """Gives the mover's rows after the one left that knew its operating point before it."""
        return self.pumps[MOVES].run(_LEFT)

    def rest(self) -> dict[str, list[PumpRow]]:
        """Gives the rows of all pumps up to the end; what was broken has been repaired."""
        rows = dict[str, list[PumpRow]]()
        for name, pump in self.pumps.items():
            pump.wear = pump.clog = 0.0
            left = END - pump.minute
            many = left // (_BATCH + _PAUSE)
            rows[name] = self._run_batches(many) if name == LEAVES else pump.run(left)
        return rows

    def batch(self) -> Iterator[list[PumpRow]]:
        """Gives the rows of the next batch, one by one, after a pause."""
        pump = self.pumps[LEAVES]
        pump.rest(_PAUSE)
        for _ in range(_BATCH):
            yield pump.run(1)

    def _quiet(self, minutes: int, batches: int) -> dict[str, list[PumpRow]]:
        rows = {name: self.pumps[name].run(minutes) for name in DUTIES if name != LEAVES}
        return rows | {LEAVES: self._run_batches(batches)}

    def _run_batches(self, many: int) -> list[PumpRow]:
        return [row for _ in range(many) for [row] in self.batch()]
