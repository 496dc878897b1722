"""``elmgrove federation show``: a federation's layer and terms, and how its devices are doing."""

from collections.abc import Iterator
from datetime import datetime

import httpx
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.administrators import ends
from elmgrove.cli.membership import Name
from elmgrove.cli.terms import counted, said
from elmgrove.errors import require_time
from elmgrove.exchange import Fields, request
from elmgrove.federation import Charter

#: Devices that are asked about at once.
_PAGE = 1000
#: What a server says of devices, where its word is not enough, or the key says it.
_STATES = {"untold": "has told nothing", "revoked": ""}


def show(
    context: typer.Context,
    name: Name,
) -> None:
    """Show a federation's layer and its devices: how each is doing, and what it contributed.

    The state is what a device told with its last sync; a silent one should have told more since.
    """
    with context.obj.client() as opened:
        answer = request(opened, "GET", f"/{name}")
        with answer.reading():
            charter = Charter.from_fields(dict(answer.json()))
        devices = list(request(opened, "GET", f"/{name}/devices").json().each("devices"))
        entries = list(request(opened, "GET", f"/{name}/entries").json().each("entries"))
        told = {one.text("name"): one for one in _told(opened, name)}
    grid = _grid(devices, {entry.text("origin"): entry for entry in entries}, told)
    basis, layer, samples = charter.basis, charter.basis.layer, ""
    if basis.spectrum is not None:
        rate, length = basis.spectrum.rate, basis.spectrum.length
        samples = f" of frames of {length} samples ({rate:g} a second)"
    # Patterns of names like fan-[ab] are no markup.
    console = Console(markup=False, emoji=False)
    console.print(
        f"{name}: {basis.columns} columns{samples}, {layer.units} hidden units, "
        f"{layer.activation}, scaling {basis.scaling.kind}, window {basis.window}, "
        f"score {basis.score}, ridge {charter.ridge:g}, {'merged, ' if charter.merged else ''}"
        f"members {', '.join(charter.members or ['any'])}; {said(charter.terms)}",
        highlight=False,
    )
    console.print(grid)
    for entry in entries:
        if entry["why"]:
            rows = counted(entry.number("count"), entry.number("weight"))
            console.print(f"{entry.text('origin')} counts as {rows} rows: {entry.text('why')}.")


def _told(opened: httpx.Client, name: str) -> Iterator[Fields]:
    """How each device is doing, as far as it told; a server of before 0.2 knows nothing of it."""
    offset = 0
    while True:
        asked = {"limit": _PAGE, "offset": offset}
        where = f"/{name}/summaries"
        answer = request(opened, "GET", where, params=asked, expected=(200, 404))
        found = list(answer.json().each("rows")) if answer.status == 200 else []
        yield from found
        offset += len(found)
        if len(found) < _PAGE:
            return


def _grid(devices: list[Fields], entries: dict[str, Fields], told: dict[str, Fields]) -> Grid:
    grid = Grid()
    for heading in ("device", "key", "state", "last seen", "rows", "last upload"):
        grid.add_column(heading)
    for device in devices:
        name = device.text("name")
        key = "revoked" if device.flag("revoked") else ends(device.number_or_none("expires"))
        doing = ("", "") if name not in told else _doing(told[name])
        entry = entries.get(name)
        uploaded = ("", "never") if entry is None else (_rows(entry), _when(entry, "received"))
        grid.add_row(name, key, *doing, *uploaded)
    return grid


def _doing(told: Fields) -> tuple[str, str]:
    """The state in words, with what is strange and what changed; and when it was last heard of."""
    state = told.text("state")
    said = [_STATES.get(state, state)]
    said += ["an event is open"] * told.flag("event") + ["drift"] * told.flag("drift")
    seen = "" if told["seen"] is None else _when(told, "seen")
    return ", ".join(filter(None, said)), seen


def _when(fields: Fields, name: str) -> str:
    return datetime.fromtimestamp(require_time(fields.number(name))).isoformat(" ", "seconds")


def _rows(entry: Fields) -> str:
    if entry.flag("left"):
        return "left"
    damaged = " (damaged until its next sync)" if entry.flag("damaged") else ""
    return counted(entry.number("count"), entry.number("weight")) + damaged
