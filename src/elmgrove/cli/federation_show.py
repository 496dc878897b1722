"""``elmgrove federation show``: a federation's layer and terms, and what devices contributed."""

from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.administrators import ends
from elmgrove.cli.membership import Name
from elmgrove.cli.terms import counted, said
from elmgrove.exchange import request
from elmgrove.federation import Charter


def show(
    context: typer.Context,
    name: Name,
) -> None:
    """Show a federation's layer and its devices, with what each has contributed."""
    with context.obj.client() as opened:
        charter = Charter.from_fields(request(opened, "GET", f"/{name}").json())
        devices = request(opened, "GET", f"/{name}/devices").json()["devices"]
        entries = request(opened, "GET", f"/{name}/entries").json()["entries"]
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
    console.print(_grid(devices, {entry["origin"]: entry for entry in entries}))
    for entry in entries:
        if entry["why"]:
            rows = counted(entry["count"], entry["weight"])
            console.print(f"{entry['origin']} counts as {rows} rows: {entry['why']}.")


def _grid(devices: list[dict[str, Any]], entries: dict[str, dict[str, Any]]) -> Grid:
    grid = Grid()
    for heading in ("device", "key", "rows", "last upload"):
        grid.add_column(heading)
    for device in devices:
        entry = entries.get(device["name"])
        key = "revoked" if device["revoked"] else ends(device["expires"])
        if entry is None:
            grid.add_row(device["name"], key, "", "never")
            continue
        uploaded = datetime.fromtimestamp(entry["received"]).isoformat(" ", "seconds")
        grid.add_row(device["name"], key, _rows(entry), uploaded)
    return grid


def _rows(entry: dict[str, Any]) -> str:
    if entry["left"]:
        return "left"
    damaged = " (damaged until its next sync)" if entry["damaged"] else ""
    return counted(entry["count"], entry["weight"]) + damaged
