"""``elmgrove demo``: a day of five simulated pumps, with a real server and real agents."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from elmgrove.cli.demo.fleet import DemoFleet, DemoProcesses, DemoServer
from elmgrove.cli.demo.pumps import BREAKS, END, LATE, LEAVES, MOVES, WARMS, Plant, Pump, PumpRow
from elmgrove.cli.demo.story import Story
from elmgrove.errors import require_extra

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
        self._plant = plant
        self._rng = np.random.default_rng(seed)
        happens = {
            BREAKS: self._wears,
            MOVES: self._moves,
            WARMS: self._stands,
            LATE: self._clogs,
        }
        self._lives = {name: self._life(plant.pumps[name], one) for name, one in happens.items()}
        self._lives[LEAVES] = self._works()

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
            due += 1.0
            time.sleep(max(due - time.monotonic(), 0.0))

    def _life(self, pump: Pump, happens: Callable[[Pump], Life]) -> Life:
        yield from self._quiet(pump, 0, 60)
        while True:
            yield from happens(pump)

    def _wears(self, pump: Pump) -> Life:
        self._say(f"{BREAKS}: its bearing begins to wear.")
        for step in range(40):
            yield pump.run(1, wear=(step + 1) / 40)
        yield from (pump.run(1) for _ in range(40))
        self._say(f"{BREAKS} is repaired.")
        pump.wear = 0.0
        # An event that lasted takes its time to end.
        yield from self._quiet(pump, 300, 480)

    def _moves(self, pump: Pump) -> Life:
        # Two loads that it knows by now, and one that others know.
        for load in (1.05, 0.70, 0.92):
            self._say(f"{MOVES} moves to {100 * load:.0f} m³/h.")
            pump.load = load
            yield from self._quiet(pump, 90, 240)

    def _stands(self, pump: Pump) -> Life:
        self._say(f"{WARMS} stands still for 120 minutes, shown in 15 seconds.")
        pump.rest(120)
        yield from ([] for _ in range(15))
        self._say(f"{WARMS} starts cold.")
        yield from self._quiet(pump, 90, 240)

    def _clogs(self, pump: Pump) -> Life:
        self._say(f"{LATE}: its impeller clogs.")
        pump.clog = 1.0
        yield from (pump.run(1) for _ in range(40))
        self._say(f"{LATE} is cleaned.")
        pump.clog = 0.0
        yield from self._quiet(pump, 300, 480)

    def _works(self) -> Life:
        while True:
            yield from self._plant.batch()
            yield from ([] for _ in range(15))

    def _quiet(self, pump: Pump, least: int, most: int) -> Life:
        yield from (pump.run(1) for _ in range(self._rng.integers(least, most)))


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
    console, plant = Console(highlight=False), Plant(seed)
    with TemporaryDirectory(prefix="elmgrove-demo-") as scratch:
        folder = Path(scratch)
        with DemoProcesses(folder) as processes:
            server = DemoServer(processes)
            # Minute 0 is that of a Monday, 2026-03-02; with --live, rows lead up to now.
            first = time.time() - 60.0 * END if live else 1772409600.0
            fleet = DemoFleet(folder, processes, server, first)
            console.print(
                f"  Five pumps and a server. The pumps are [bold]simulated[/] (seed {seed}): "
                "equations make their rows,\n  one a minute. The server and the pumps' agents are "
                "real processes on this machine."
            )
            story = Story(fleet, plant, console)
            _tell(story, server)
            found = {"seed": seed, **story.found, "promises": story.promises}
            found["seconds"] = round(time.monotonic() - began, 1)
            story.draw(picture)
            numbers.write_text(json.dumps(found, indent=2))
            console.print(f"\nWrote {picture} and {numbers}.", soft_wrap=True)
            broken = print_broken(console, story.promises)
            if live:
                _go_on(console, server, Live(fleet, processes, plant, seed, _happens(console)))
            else:
                console.print(
                    f"Its dashboard was at {server.dashboard}; make demo-live keeps it open."
                )
    if broken:
        raise typer.Exit(1)


def _tell(story: Story, server: DemoServer) -> None:
    # Its own stream: the commands that run in this process have another one meanwhile.
    with Console(file=sys.stderr).status("Four pumps learn, each alone") as status:
        story.learn()
        status.update("The server starts, and four agents, which join")
        server.wait()
        story.join(server.dashboard)
        status.update("A day goes by; a fifth agent starts")
        story.day()
        status.update("The fifth one joins")
        story.late()
        status.update("One leaves")
        story.leave()


def print_broken(console: Console, promises: dict[str, bool]) -> bool:
    """Prints the promises that this run did not keep; returns whether there are any."""
    broken = [promise for promise, kept in promises.items() if not kept]
    for promise in broken:
        console.print(f"  [bold red]Not so in this run:[/] {promise}.")
    return bool(broken)


def _happens(console: Console) -> Callable[[str], None]:
    return lambda what: console.print(f"  {datetime.now(UTC):%H:%M} {what}")


def _go_on(console: Console, server: DemoServer, live: Live) -> None:
    """Streams rows until a signal comes, which is how it is meant to end."""
    console.print(
        "\n[bold]The fleet goes on, until Ctrl-C[/]\n"
        "  A second is a minute: each pump has a row a second, and now and then a fault.\n"
        f"  Dashboard: [bold]{server.dashboard}[/]\n"
        f"  Log in with the administrator's token: [bold]{server.admin_token}[/]",
        soft_wrap=True,
    )
    with suppress(SystemExit):
        live.run()
