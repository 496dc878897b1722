"""The demo goes on: a row a second of each pump, and something that happens now and then."""

import time
from collections.abc import Callable, Iterator

import numpy as np

from elmgrove.cli.demo.demo_fleet import DemoFleet
from elmgrove.cli.demo.plant import BREAKS, LATE, LEAVES, MOVES, NAMES, WARMS, Plant
from elmgrove.cli.demo.processes import DemoProcesses
from elmgrove.cli.demo.pumps import Pump, PumpRow

# Seconds from one row of a pump to its next: a minute of its life.
_PACE = 1.0
# Rows between two things that happen to a pump, from and to: more of them after a fault, since an
# event that lasted takes its time to end. Until the first one at most.
_QUIET, _REPAIRED, _SOON = (90, 240), (300, 480), 60
# Rows while wear grows and then stays, and of a clogged impeller.
_WEARS, _WORN, _CLOGGED = 40, 40, 40
# Loads that a pump moves to, in turn: two that it knows by now, and one that others know.
_LOADS = (1.05, 0.70, 0.92)
# Minutes for which a pump stands, told in so many seconds.
_STANDS, _TOLD_IN = 120, 15

#: What a pump does in each second: rows, or nothing while it stands.
Life = Iterator[list[PumpRow]]


class Live:
    """Streams rows of all pumps to their agents, until the program is told to end.

    A second is a minute of a pump's life, and each row has the time at which it is written.
    """

    def __init__(
        self,
        fleet: DemoFleet,
        processes: DemoProcesses,
        plant: Plant,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._fleet, self._processes, self._say = fleet, processes, say
        self._rng = np.random.default_rng(seed)
        happens = {
            BREAKS: self._breaks,
            MOVES: self._moves,
            LEAVES: self._works,
            WARMS: self._warms,
            LATE: self._clogs,
        }
        self._plant = plant
        self._lives = {name: happens[name](plant.pumps[name]) for name in NAMES}

    def run(self) -> None:
        """Streams for ever; a signal ends it (``SystemExit``), and so does an agent that ended."""
        self._say(f"{LEAVES} comes back, what was broken is repaired, and the evening goes by.")
        self._fleet.start(LEAVES)
        for name, rows in self._plant.rest().items():
            self._fleet.give(name, rows)
        due = time.monotonic()
        while True:
            self._processes.require_running()
            now = time.time()
            for name, life in self._lives.items():
                self._fleet.give(name, next(life), now)
            due += _PACE
            time.sleep(max(due - time.monotonic(), 0.0))

    def _breaks(self, pump: Pump) -> Life:
        yield from self._quiet(pump, (0, _SOON))
        while True:
            self._say(f"{BREAKS}: its bearing begins to wear.")
            for step in range(_WEARS):
                yield pump.run(1, wear=(step + 1) / _WEARS)
            yield from (pump.run(1) for _ in range(_WORN))
            self._say(f"{BREAKS} is repaired.")
            pump.wear = 0.0
            yield from self._quiet(pump, _REPAIRED)

    def _moves(self, pump: Pump) -> Life:
        yield from self._quiet(pump, (0, _SOON))
        while True:
            for load in _LOADS:
                self._say(f"{MOVES} moves to {100 * load:.0f} m³/h.")
                pump.load = load
                yield from self._quiet(pump)

    def _warms(self, pump: Pump) -> Life:
        yield from self._quiet(pump, (0, _SOON))
        while True:
            self._say(f"{WARMS} stands still for {_STANDS} minutes, told in {_TOLD_IN} seconds.")
            pump.rest(_STANDS)
            yield from ([] for _ in range(_TOLD_IN))
            self._say(f"{WARMS} starts cold.")
            yield from self._quiet(pump)

    def _clogs(self, pump: Pump) -> Life:
        yield from self._quiet(pump, (0, _SOON))
        while True:
            self._say(f"{LATE}: its impeller clogs.")
            pump.clog = 1.0
            yield from (pump.run(1) for _ in range(_CLOGGED))
            self._say(f"{LATE} is cleaned.")
            pump.clog = 0.0
            yield from self._quiet(pump, _REPAIRED)

    def _works(self, _: Pump) -> Life:
        while True:
            yield from self._plant.batch()
            yield from ([] for _ in range(_TOLD_IN))

    def _quiet(self, pump: Pump, between: tuple[int, int] = _QUIET) -> Life:
        """A while in which nothing happens, as long as chance has it."""
        yield from (pump.run(1) for _ in range(self._rng.integers(*between)))
