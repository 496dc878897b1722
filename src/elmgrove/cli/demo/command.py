"""``elmgrove demo``: starts a server and devices that learn one digit each, and compares them."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from elmgrove.algebra import suggested_units
from elmgrove.cli.demo.demo_fleet import DemoFleet, difference
from elmgrove.cli.demo.digits import PIXELS, Digits
from elmgrove.cli.demo.processes import DemoProcesses, DemoServer
from elmgrove.cli.demo.result import (
    Result,
    cooperation_grid,
    departure_grid,
    draw,
    loss_on,
    numbers,
)
from elmgrove.cli.options import notes
from elmgrove.errors import require_extra
from elmgrove.federation import Member

_UNITS = suggested_units(PIXELS, "loss")
#: The most that a merged model may differ from one that learned all rows in one place.
EXACT = 1e-9


def demo(
    devices: Annotated[int, typer.Option(help="Devices; each learns one digit.", min=3, max=9)] = 4,
    units: Annotated[int, typer.Option(help="Hidden units.", min=1)] = _UNITS,
    seed: Annotated[int, typer.Option(help="Seed of the layer and the split.", min=0)] = 1,
    output: Annotated[Path, typer.Option(help="Folder for picture and numbers.")] = Path("demo"),
) -> None:
    """Show what cooperation does, with a server and devices that learn one digit each.

    Digits that a device has learned are normal, the others are anomalies. Each device is tested
    on both, before and after it learned from the others. Then one device leaves, and the others
    are tested on its digit. All processes run on this machine and end with the demo.

    Example: [bold]elmgrove demo --devices 3 --output demo[/]
    """
    require_extra("matplotlib", "demo")
    data = Digits.load(seed)
    output.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="elmgrove-demo-") as scratch:
        folder = Path(scratch)
        with DemoProcesses(folder) as processes, notes.status("Starting the server") as status:
            server = DemoServer(processes)
            status.update(f"Server at {server.url}; devices read their digits and learn")
            fleet = DemoFleet(folder, processes, data, devices, units, seed)
            fleet.join(server)
            processes.wait("each device uses all others", lambda: fleet.in_step(devices - 1))
            found = _cooperation(fleet, data, output)
            gone, rest = fleet.names[-1], fleet.names[:-1]
            status.update(f"{gone} leaves")
            with_it = _losses(fleet, data)
            fleet.leave(gone, server)
            processes.wait("the others know that it left", lambda: fleet.in_step(devices - 2, rest))
            found["difference after leaving"] = _departure(fleet, with_it, data)
            fleet.stop()
    (output / "demo.json").write_text(json.dumps(found, indent=2))
    Console().print(f"Wrote {output / 'demo.png'} and {output / 'demo.json'}.")
    if not max(found["difference"], found["difference after leaving"]) < EXACT:
        raise typer.Exit(1)


def _cooperation(fleet: DemoFleet, data: Digits, output: Path) -> dict[str, Any]:
    """Compares each device before and after it learned from the others; checks the merge."""
    known = set(range(len(fleet.names)))
    members = [fleet.member(name) for name in fleet.names]
    after = [Result.of(m.detector, digit, known, data) for digit, m in enumerate(members)]
    sent = len(members[0].contribution().to_bytes()) / 1024
    rows = np.vstack([fleet.learned_rows(name) for name in fleet.names])
    exact = max(difference(member, rows) for member in members)
    before = [Result.of(_alone(m).detector, digit, known, data) for digit, m in enumerate(members)]
    console = Console()
    console.print(cooperation_grid(fleet.names, before, after))
    console.print(
        f"Each sent {sent:.0f} KiB at a time. All {len(members)} models equal one that learned "
        f"the same rows in one place to {exact:.0e} (relative, output weights β)."
    )
    draw(fleet.names, before, after, output / "demo.png")
    return {**numbers(before, after), "difference": exact}


def _departure(fleet: DemoFleet, with_it: dict[str, float], data: Digits) -> float:
    """Tests the others on the digit of the device that left: alone, with it, and after it."""
    gone, rest = fleet.names[-1], fleet.names[:-1]
    rows = np.vstack([fleet.learned_rows(name) for name in rest])
    exact = max(difference(fleet.member(name), rows) for name in rest)
    alone, left = _losses(fleet, data, alone=True), _losses(fleet, data)
    console = Console()
    console.print(
        departure_grid(gone, {name: (alone[name], with_it[name], left[name]) for name in rest})
    )
    console.print(f"They equal models that never learned from it to {exact:.0e}.")
    return exact


def _losses(fleet: DemoFleet, data: Digits, *, alone: bool = False) -> dict[str, float]:
    """Gives each device's loss on the last one's digit."""
    members = {name: fleet.member(name) for name in fleet.names}
    digit = len(members) - 1
    return {
        name: loss_on((_alone(member) if alone else member).detector, digit, data)
        for name, member in members.items()
    }


def _alone(member: Member) -> Member:
    """Takes out what the device learned from others."""
    member.rest_on(None)
    return member
