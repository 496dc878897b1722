"""``elmgrove federation``: makes federations, and administers them and their devices."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import (
    LAYER_OPTIONS,
    Activation,
    AlarmName,
    Ca,
    ScalingName,
    ScoreName,
    Seed,
    SpectrumText,
    Units,
    Weights,
    WindowSize,
    note_window,
    notes,
    require_not_given,
)
from elmgrove.cli.pooled import Pool, basis_like
from elmgrove.cli.reading_options import with_layout
from elmgrove.detector import Choice
from elmgrove.errors import BadInput, require_time
from elmgrove.exchange import Fields, FolderExchange, client, request
from elmgrove.federation import UNKNOWN, Charter, address_of
from elmgrove.reading import Layout

federation = typer.Typer(
    name="federation",
    help="Make federations and decide which devices take part.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Name = Annotated[str, typer.Argument(help="The federation's name.")]
Device = Annotated[str, typer.Argument(help="The device's name.")]


@dataclass(frozen=True)
class Administrator:
    """The administrator of a server: its address, and the token that it asks for."""

    server: str
    token: str | None
    token_file: Path
    ca: str | None

    def client(self) -> httpx.Client:
        """Opens a connection with the administrator's rights."""
        token = self.token
        if token is None:
            if not self.token_file.exists():
                raise BadInput(
                    f"{self.token_file} is not there: give 'federation --admin-token', or "
                    "'federation --admin-token-file' with the file that 'elmgrove serve' made"
                )
            token = self.token_file.read_text(encoding="utf-8").strip()
        return client(self.server, token, ca=self.ca)


@federation.callback()
def administrator(
    context: typer.Context,
    server: Annotated[
        str, typer.Option(help="The server's URL.", envvar="ELMGROVE_SERVER")
    ] = "http://127.0.0.1:8470",
    admin_token: Annotated[
        str | None,
        typer.Option(
            help="The administrator's token \\[default: from the file].",
            envvar="ELMGROVE_ADMIN_TOKEN",
        ),
    ] = None,
    admin_token_file: Annotated[
        Path, typer.Option(help="The file that 'elmgrove serve' keeps that token in.")
    ] = Path("elmgrove.admin"),
    ca: Ca = None,
) -> None:
    """Make federations and decide which devices take part."""
    context.obj = Administrator(server, admin_token, admin_token_file, ca)


@federation.command()
@with_layout
def create(
    context: typer.Context,
    name: Name,
    like: Annotated[
        list[Path] | None,
        typer.Option(
            help="Layer, columns and scaling of this state or evidence (repeatable: a scaling for "
            "what all learned).",
            exists=True,
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="...or fitted to the rows of this CSV or .npy file (repeatable: one of each "
            "machine).",
            exists=True,
        ),
    ] = None,
    scaling: ScalingName = "standard",
    units: Units = None,
    activation: Activation = "identity",
    weights: Weights = "uniform",
    seed: Seed = 0,
    window: WindowSize = "auto",
    score: ScoreName = None,
    spectrum: SpectrumText = None,
    ridge: Annotated[float, typer.Option(help="Regularization.", min=0.0)] = 1e-3,
    member: Annotated[
        list[str] | None,
        typer.Option(help="Names that may join, like 'fan-*' (repeatable) \\[default: any]."),
    ] = None,
    alarm: AlarmName = UNKNOWN,
    folder: Annotated[
        Path | None, typer.Option(help="Make a shared folder the exchange, without a server.")
    ] = None,
    *,
    layout: Layout,
) -> None:
    """Make a federation, and print the token with which devices join it.

    Example: [bold]elmgrove federation create fans --data sample.csv --member 'fan-*'[/]
    """
    if bool(like) == bool(data):
        raise BadInput("columns and scaling come from --like or from --data: give one of them")
    choice: Choice | None = None
    if like:
        require_not_given(context, LAYER_OPTIONS, f"--like takes this from {like[0]}")
        basis = basis_like(like)
    else:
        pool = Pool(data or (), layout, spectrum)
        choice = pool.window(window)
        basis = pool.basis(
            choice.window,
            scaling=scaling,
            units=units,
            activation=activation,
            weights=weights,
            seed=seed,
            score=score,
        )
        pool.warn(basis, alarm)
    members = None if member is None else tuple(member)
    charter = Charter(name, basis, ridge, members, alarm)
    if folder is not None:
        FolderExchange.create(folder, charter)
        note_window(choice)
        notes.print(f"{folder} is the exchange of {name}: devices use it with --exchange {folder}.")
        return
    with _admin(context) as opened:
        made = request(opened, "POST", "", json=charter.fields).json().text("token")
    note_window(choice)
    notes.print(f"Made {name}. Devices join it at {context.obj.server}/{name} with this token:")
    Console().print(made, soft_wrap=True, highlight=False)


@federation.command("list")
def list_(
    context: typer.Context,
) -> None:
    """List the federations of a server."""
    with _admin(context) as opened:
        for name in request(opened, "GET", "").json().texts("federations"):
            Console().print(name, highlight=False)


@federation.command()
def show(
    context: typer.Context,
    name: Name,
) -> None:
    """Show a federation's layer and its devices, with what each has contributed."""
    with _admin(context) as opened:
        answer = request(opened, "GET", f"/{name}")
        with answer.reading():
            charter = Charter.from_fields(dict(answer.json()))
        devices = request(opened, "GET", f"/{name}/devices").json().each("devices")
        entries = request(opened, "GET", f"/{name}/entries").json().each("entries")
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
        f"members {', '.join(charter.members or ['any'])}",
        highlight=False,
    )
    console.print(grid)


@federation.command()
def token(
    context: typer.Context,
    name: Name,
) -> None:
    """Make and print a new token to join with; the old one becomes invalid, keys stay valid."""
    with _admin(context) as opened:
        made = request(opened, "POST", f"/{name}/token").json().text("token")
    Console().print(made, soft_wrap=True, highlight=False)


@federation.command()
def revoke(
    context: typer.Context,
    name: Name,
    device: Device,
) -> None:
    """Shut a device out: its key becomes invalid, and its part leaves the others' next models."""
    with _admin(context) as opened:
        request(opened, "DELETE", f"/{name}/devices/{address_of(device)}")
    notes.print(f"{device} is out of {name}; what it contributed is no longer merged.")


@federation.command()
def readmit(
    context: typer.Context,
    name: Name,
    device: Device,
) -> None:
    """Make and print a new key for a device that was shut out, or that lost its own."""
    with _admin(context) as opened:
        asked = {"name": device}
        made = request(opened, "POST", f"/{name}/devices", json=asked).json().text("key")
    notes.print(f"The key of {device}; write it to the .key file beside the device's state:")
    Console().print(made, soft_wrap=True, highlight=False)


@federation.command()
def delete(
    context: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a federation with all that its devices contributed."""
    if not yes:
        typer.confirm(f"Delete {name} and all its contributions?", abort=True)
    with _admin(context) as opened:
        request(opened, "DELETE", f"/{name}")
    notes.print(f"Deleted {name}.")


def _admin(context: typer.Context) -> httpx.Client:
    administrator: Administrator = context.obj
    return administrator.client()


def _grid(devices: list[Fields], entries: dict[str, Fields]) -> Grid:
    grid = Grid()
    for heading in ("device", "key", "rows", "last upload"):
        grid.add_column(heading)
    for device in devices:
        name = device.text("name")
        entry, key = entries.get(name), "revoked" if device.flag("revoked") else "valid"
        if entry is None:
            grid.add_row(name, key, "", "never")
            continue
        received = require_time(entry.number("received"))
        uploaded = datetime.fromtimestamp(received).isoformat(" ", "seconds")
        rows = "left" if entry.flag("left") else f"{entry.number('count'):.0f}"
        grid.add_row(name, key, rows, uploaded)
    return grid
