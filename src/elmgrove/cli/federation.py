"""``elmgrove federation``: makes federations, and administers them and their devices."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console

from elmgrove.cli.administrators import administrator
from elmgrove.cli.audit import audit
from elmgrove.cli.federation_show import show
from elmgrove.cli.membership import Name, clear, readmit, revoke
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
)
from elmgrove.cli.pooled import Pool, basis_like
from elmgrove.cli.reading_options import with_layout
from elmgrove.cli.terms import (
    Least,
    MostEnergy,
    MostRows,
    MostTimes,
    Shows,
    require_kept,
    terms_of,
)
from elmgrove.detector import Choice
from elmgrove.errors import BadInput
from elmgrove.exchange import BrokerAddress, FolderExchange, Tls, client, request
from elmgrove.federation import SUMS, Charter
from elmgrove.reading import Layout

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
        from elmgrove.exchange import MqttExchange

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
