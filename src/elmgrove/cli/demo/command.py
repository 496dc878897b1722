"""``elmgrove demo``: a day of five simulated pumps, with a real server and real agents."""

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from elmgrove.cli.demo.demo_fleet import DemoFleet
from elmgrove.cli.demo.live import Live
from elmgrove.cli.demo.picture import draw
from elmgrove.cli.demo.plant import END, Plant
from elmgrove.cli.demo.processes import DemoProcesses, DemoServer
from elmgrove.cli.demo.story import Story
from elmgrove.cli.demo.wording import Wording
from elmgrove.errors import require_extra

# The pumps' minute 0 is that of a Monday, 2026-03-02; where the fleet goes on, rows lead up to now.
_MONDAY = 1772409600.0


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the simulated pumps.", min=0)] = 1,
    output: Annotated[Path, typer.Option(help="Folder for picture and numbers.")] = Path("demo"),
    live: Annotated[
        bool, typer.Option("--live", help="Go on until Ctrl-C, with the dashboard open.")
    ] = False,
) -> None:
    """Show a fleet of five pumps: one warms up, one moves, one breaks, one is late, one leaves.

    The pumps are simulated; the server and the agents are real processes on this machine, and end
    with the demo. Each pump learns alone, joins, and asks the others about what it has never seen.
    Whatever the story promises is checked: if a run does not keep it, it says so, and the exit code
    is 1.

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
