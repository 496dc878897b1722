"""``elmgrove federation``: makes federations, and administers them and their devices."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.administrators import administrator, ends
from elmgrove.cli.audit import audit
from elmgrove.cli.options import (
    LAYER_OPTIONS,
    Activation,
    Ca,
    Certificate,
    MergedFlag,
    MqttPassword,
    PrivateKey,
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
    with_layout,
)
from elmgrove.cli.pooled import Pool, basis_like
from elmgrove.detector.windows import Choice
from elmgrove.errors import BadInput, require_time
from elmgrove.exchange.base import Tls
from elmgrove.exchange.broker_address import BrokerAddress
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.http_client import client, request
from elmgrove.exchange.responses import Fields
from elmgrove.federation.charter import Charter, address_of
from elmgrove.federation.terms import CONTRIBUTIONS, SUMS, Terms
from elmgrove.reading.layout import Layout

Shows = Annotated[
    str,
    typer.Option(
        help=f"What a device's key reads of others: {SUMS}, or {CONTRIBUTIONS}, which rules that "
        "choose devices need."
    ),
]
Least = Annotated[int, typer.Option(help="The fewest devices in a sum that is given out.", min=1)]
MostRows = Annotated[
    str, typer.Option(help="A device counts with at most this many rows in sums, or 'none'.")
]
MostTimes = Annotated[
    str,
    typer.Option(help="...with at most this many times the median device's rows, or 'none'."),
]
MostEnergy = Annotated[
    str,
    typer.Option(
        help="...and hardly where the mean square of a scaled column is above this, or 'none'."
    ),
]
_NONE = "none"


def require_kept(context: typer.Context, place: str) -> None:
    """Refuses terms that nobody can keep in a shared folder, or at a broker."""
    require_not_given(
        context,
        ("shows", "least"),
        f"every device that reads {place} sees what each contributed; only a server can show less",
    )
    require_not_given(context, ("key_days",), f"devices need no key for {place}, so none expires")


def terms_of(shows: str, least: int, bounds: tuple[str, str, str], key_days: float | None) -> Terms:
    """Makes terms of what the options say; ``bounds`` are of rows, times and energy."""
    rows, times, energy = bounds
    return Terms(
        shows,
        least,
        _bound("most-rows", rows),
        _bound("most-times", times),
        _bound("most-energy", energy),
        key_days=key_days,
    )


def _bound(name: str, text: str) -> float | None:
    """Reads a bound of what one device can weigh; None for none of it."""
    try:
        return None if text == _NONE else float(text) or None
    except ValueError:
        raise BadInput(f"--{name}: a number, or {_NONE!r}, not {text!r:.40}") from None


def said(terms: Terms) -> str:
    """Says what a key reads and what a device weighs, for people."""
    devices = f"{terms.least} device{'s' * (terms.least != 1)}"
    reads = SUMS if terms.shows == SUMS else f"{terms.shows}, and {SUMS}"
    bounds = [
        f"{terms.most_rows:,.0f} rows" if terms.most_rows is not None else "",
        f"{terms.most_times:g} times the rows of the one in the middle"
        if terms.most_times is not None
        else "",
        f"an energy of {terms.most_energy:,.10g}" if terms.most_energy is not None else "",
    ]
    weighs = ", ".join(filter(None, bounds))
    return (
        f"a key reads {reads} of {devices} or more; "
        f"a device counts with {'at most ' + weighs if weighs else 'all it states'}"
    )


def counted(rows: float, weight: float) -> str:
    """Says how many rows a device counts as, for people."""
    return f"{rows:,.0f}" if weight == 1.0 else f"{weight * rows:,.0f} of {rows:,.0f}"


Name = Annotated[str, typer.Argument(help="The federation's name.")]
Device = Annotated[str, typer.Argument(help="The device's name.")]


def revoke(
    context: typer.Context,
    name: Name,
    device: Device,
) -> None:
    """Shut a device out: its key becomes invalid, and its part leaves the others' next models."""
    with context.obj.client() as opened:
        request(opened, "DELETE", f"/{name}/devices/{address_of(device)}")
    notes.print(f"{device} is out of {name}; what it contributed is no longer merged.")


def clear(
    context: typer.Context,
    name: Name,
    device: Device,
) -> None:
    """Forget what is held of a device, so that its next sync can publish.

    For an entry that the device can't get past: one that a stolen key made, or one that is damaged.
    """
    with context.obj.client() as opened:
        request(opened, "DELETE", f"/{name}/entries/{address_of(device)}")
    notes.print(f"Nothing is held of {device} in {name} until its next sync.")


def readmit(
    context: typer.Context,
    name: Name,
    device: Device,
) -> None:
    """Make and print a new key for a device that was shut out, or that lost its own."""
    with context.obj.client() as opened:
        asked = {"name": device}
        made = request(opened, "POST", f"/{name}/devices", json=asked).json().text("key")
    notes.print(f"The key of {device}; write it to the .key file beside the device's state:")
    Console().print(made, soft_wrap=True, highlight=False)


#: Devices that are asked about at once.
_PAGE = 1000
#: What a server says of devices, where its word is not enough, or the key says it.
_STATES = {"untold": "has reported nothing", "revoked": ""}


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
        where = f"/{name}/reports"
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
    """The state in words, what is anomalous and what changed; and when it was last heard of."""
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


federation = typer.Typer(
    name="federation",
    help="Make federations and decide which devices take part.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@dataclass(frozen=True)
class Administrator:
    """The administrator of a server: its address, and the token that it asks for."""

    server: str
    token: str | None
    token_file: Path
    tls: Tls

    def client(self, root: str = "/v1/federations") -> httpx.Client:
        """Opens a connection with the administrator's rights, to its federations or elsewhere."""
        token = self.token
        if token is None:
            if not self.token_file.exists():
                raise BadInput(
                    f"{self.token_file} is not there: give --admin-token, or "
                    "--admin-token-file with the file that 'elmgrove serve' made"
                )
            token = self.token_file.read_text(encoding="utf-8").strip()
        return client(self.server, token, tls=self.tls, root=root)


@federation.callback()
def server_options(
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
    certificate: Certificate = None,
    private_key: PrivateKey = None,
) -> None:
    """Make federations and decide which devices take part."""
    tls = Tls(ca, certificate, private_key)
    context.obj = Administrator(server, admin_token, admin_token_file, tls)


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
    merged: MergedFlag = False,
    key_days: Annotated[
        float | None,
        typer.Option(help="Days after which a device's key expires \\[default: never]."),
    ] = None,
    shows: Shows = SUMS,
    least: Least = 1,
    most_rows: MostRows = "none",
    most_times: MostTimes = "10",
    most_energy: MostEnergy = "10000",
    folder: Annotated[
        Path | None, typer.Option(help="Make a shared folder the exchange, without a server.")
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(help="Make a broker's topic the exchange, like mqtts://host/elmgrove/fans."),
    ] = None,
    mqtt_password: MqttPassword = None,
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
        pool.warn(basis, merges=merged)
    members = None if member is None else tuple(member)
    terms = terms_of(shows, least, (most_rows, most_times, most_energy), key_days)
    charter = Charter(name, basis, ridge, members, merged, terms)
    if folder is not None or broker is not None:
        _create_elsewhere(context, charter, folder, broker, mqtt_password)
        note_window(choice)
        return
    with _admin(context) as opened:
        made = request(opened, "POST", "", json=charter.fields).json().text("token")
    note_window(choice)
    notes.print(f"Made {name}. Devices join it at {context.obj.server}/{name} with this token:")
    Console().print(made, soft_wrap=True, highlight=False)


def _create_elsewhere(
    context: typer.Context,
    charter: Charter,
    folder: Path | None,
    broker: str | None,
    password: str | None,
) -> None:
    """Makes a folder or a broker's topic the exchange of a federation, without a server."""
    if folder is not None and broker is not None:
        raise BadInput("a federation has one exchange: give --folder or --broker")
    place = str(folder or broker)
    require_kept(context, place)
    if folder is not None:
        FolderExchange.create(folder, charter)
    else:
        # Here, since it needs the extra.
        from elmgrove.exchange.mqtt import MqttExchange

        MqttExchange.create(place, charter, password=password, tls=context.obj.tls)
        # Devices have names of their own there.
        place = str(replace(BrokerAddress.parsed(place), user=""))
    notes.print(
        f"{place} is the exchange of {charter.name}: devices use it with --exchange {place}, and "
        "each sees what every other contributed."
    )


@federation.command("list")
def list_(
    context: typer.Context,
) -> None:
    """List the federations of a server."""
    with _admin(context) as opened:
        for name in request(opened, "GET", "").json().texts("federations"):
            Console().print(name, highlight=False)


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


# Behind what makes federations, as the help lists them.
federation.command()(show)
federation.command()(revoke)
federation.command()(readmit)
federation.command()(clear)
federation.command()(audit)
federation.add_typer(administrator)
