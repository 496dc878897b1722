"""``elmgrove federation show``: a federation's layer and terms, and what devices contributed."""

from datetime import datetime

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.administrators import ends
from elmgrove.cli.membership import Name
from elmgrove.cli.terms import counted, said
from elmgrove.errors import require_time
from elmgrove.exchange import Fields, request
from elmgrove.federation import Charter


def show(
    context: typer.Context,
    name: Name,
) -> None:
    """Show a federation's layer and its devices, with what each has contributed."""
    with context.obj.client() as opened:
        answer = request(opened, "GET", f"/{name}")
        with answer.reading():
            charter = Charter.from_fields(dict(answer.json()))
        devices = list(request(opened, "GET", f"/{name}/devices").json().each("devices"))
        entries = list(request(opened, "GET", f"/{name}/entries").json().each("entries"))
    grid = _grid(devices, {entry.text("origin"): entry for entry in entries})
    basis, layer, samples = charter.basis, charter.basis.layer, ""
    if basis.spectrum is not None:
        rate, length = basis.spectrum.rate, basis.spectrum.length
        samples = f" of frames of {length} samples ({rate:g} a second)"
    # Patterns of names like fan-[ab] are no markup.
    console = Console(markup=False, emoji=False)
    console.print(
        f"{name}: {basis.columns} columns{samples}, {layer.units} hidden units, "
        f"{layer.activation}, scaling {basis.scaling.kind}, window {basis.window}, "
        f"score {basis.score}, ridge {charter.ridge:g}, alarm {charter.alarm}, "
        f"members {', '.join(charter.members or ['any'])}; {said(charter.terms)}",
        highlight=False,
    )
    console.print(grid)
    for entry in entries:
        if entry["why"]:
            rows = counted(entry.number("count"), entry.number("weight"))
            console.print(f"{entry.text('origin')} counts as {rows} rows: {entry.text('why')}.")


def _grid(devices: list[Fields], entries: dict[str, Fields]) -> Grid:
    grid = Grid()
    for heading in ("device", "key", "rows", "last upload"):
        grid.add_column(heading)
    for device in devices:
        name = device.text("name")
        key = "revoked" if device.flag("revoked") else ends(device.number_or_none("expires"))
        entry = entries.get(name)
        if entry is None:
            grid.add_row(name, key, "", "never")
            continue
        received = require_time(entry.number("received"))
        uploaded = datetime.fromtimestamp(received).isoformat(" ", "seconds")
        grid.add_row(name, key, _rows(entry), uploaded)
    return grid


def _rows(entry: Fields) -> str:
    if entry.flag("left"):
        return "left"
    damaged = " (damaged until its next sync)" if entry.flag("damaged") else ""
    return counted(entry.number("count"), entry.number("weight")) + damaged
