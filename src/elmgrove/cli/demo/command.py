"""``elmgrove demo``: a day of five simulated pumps, with a real server and real agents."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from elmgrove.cli.demo.fleet import DemoFleet, DemoProcesses, DemoServer
from elmgrove.cli.demo.picture import draw
from elmgrove.cli.demo.pumps import (
    BREAKS,
    END,
    LATE,
    LEAVES,
    MOVES,
    NAMES,
    WARMS,
    Plant,
    Pump,
    PumpRow,
)
from elmgrove.cli.demo.story import Story, Wording
from elmgrove.errors import require_extra

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
            self._say(f"{WARMS} stands still for {_STANDS} minutes, shown in {_TOLD_IN} seconds.")
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


# The pumps' minute 0 is that of a Monday, 2026-03-02; where the fleet goes on, rows lead up to now.
_MONDAY = 1772409600.0


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the simulated pumps.", min=0)] = 1,
    output: Annotated[Path, typer.Option(help="Folder for picture and numbers.")] = Path("demo"),
    live: Annotated[
        bool, typer.Option("--live", help="Go on until Ctrl-C, with the dashboard open.")
    ] = False,
) -> None:
    """Show a day of five pumps that learn from each other.

    One warms up, one moves, one breaks, one is late, one leaves. The pumps are simulated; the
    server and the agents are real processes on this machine, and end with the demo. If a run does
    not keep what the story promises, it says so, and the exit code is 1.

    Example: [bold]elmgrove demo --live[/]
    """
    require_extra("matplotlib", "demo")
    began = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    picture, numbers = output / "demo.png", output / "demo.json"
    wording, plant = Wording(Console(highlight=False)), Plant(seed)
    with TemporaryDirectory(prefix="elmgrove-demo-") as scratch:
        folder = Path(scratch)
        with DemoProcesses(folder) as processes:
            server = DemoServer(processes)
            first = time.time() - 60.0 * END if live else _MONDAY
            fleet = DemoFleet(folder, processes, server, first)
            story = Story(fleet, plant)
            _tell(story, wording, seed, server)
            found = {"seed": seed, **story.found, "promises": story.promises}
            found["seconds"] = round(time.monotonic() - began, 1)
            draw(story.material, picture)
            numbers.write_text(json.dumps(found, indent=2))
            wording.ended([picture, numbers])
            broken = wording.broken(story.promises)
            if live:
                wording.goes_on(server.dashboard, server.admin_token)
                _go_on(Live(fleet, processes, plant, seed, wording.happens))
            else:
                wording.closes(server.dashboard)
    if broken:
        raise typer.Exit(1)


def _tell(story: Story, wording: Wording, seed: int, server: DemoServer) -> None:
    """Lets each chapter happen, and tells it."""
    # Its own stream: what is typed in this process has another one meanwhile.
    with Console(file=sys.stderr).status("Four pumps learn, each alone") as status:
        wording.begin(seed)
        wording.learned(story.learn())
        status.update("The server starts, and four agents, which join")
        server.wait()
        wording.joined(story.join(), server.dashboard)
        status.update("A day goes by; a fifth agent starts")
        wording.day(story.day())
        status.update("The fifth one joins")
        wording.late(story.late())
        status.update("One leaves")
        wording.left(story.leave())


def _go_on(live: Live) -> None:
    """Streams rows until a signal comes, which is how it is meant to end."""
    try:
        live.run()
    except SystemExit:
        return
