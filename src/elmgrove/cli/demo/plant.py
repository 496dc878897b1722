"""The demo's plant: five simulated pumps, and what happens to each of them."""

from collections.abc import Iterator

from elmgrove.cli.demo.pumps import DAY, Duty, Pump, PumpRow

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
