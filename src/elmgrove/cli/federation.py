"""``elmgrove federation``: makes federations, and administers them and the server."""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx
import typer
from msgspec import Struct
from rich.table import Table as Grid

from elmgrove.cli.audit import audit
from elmgrove.cli.options import (
    Ca,
    Certificate,
    MergedFlag,
    basis_like,
    file_option,
    fitted_basis,
    mqtt_password,
    notes,
    option,
    print_result,
    read,
    require_not_given,
    shown,
)
from elmgrove.detector.state import STATE_FORMAT
from elmgrove.errors import BadInput, require_time
from elmgrove.exchange.base import Tls
from elmgrove.exchange.broker_address import BrokerAddress
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.http import client, request
from elmgrove.federation.charter import Charter, address_of
from elmgrove.federation.member import Member
from elmgrove.federation.policy import Terms
from elmgrove.federation.schemas import Name as Line
from elmgrove.federation.schemas import Positive
from elmgrove.reading.layout import Layout
from elmgrove.reading.times import format_time
from elmgrove.storage.disk import load
from elmgrove.storage.sealed import format_of

federation = typer.Typer(
    name="federation",
    help="Make federations, and decide who takes part.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Name = Annotated[str, typer.Argument(help="The federation's name.")]


@dataclass(frozen=True)
class Administrator:
    """The administrator of a server: its address, and where the token is."""

    server: str
    token_file: Path
    tls: Tls

    def client(self, root: str = "/v1/federations") -> httpx.Client:
        token = os.environ.get("ELMGROVE_ADMIN_TOKEN")
        if not token:
            if not self.token_file.exists():
                raise BadInput(
                    f"{self.token_file} is not there: set ELMGROVE_ADMIN_TOKEN, or give "
                    "--admin-token-file with the file that 'elmgrove serve' made"
                )
            token = self.token_file.read_text(encoding="utf-8").strip()
        return client(self.server, token, tls=self.tls, root=root)


@federation.callback()
def server_options(
    context: typer.Context,
    server: Annotated[
        str, option("The server's URL.", envvar="ELMGROVE_SERVER")
    ] = "http://127.0.0.1:8470",
    admin_token_file: Annotated[
        Path,
        option(
            "The file that 'elmgrove serve' keeps the administrator's token in; "
            "ELMGROVE_ADMIN_TOKEN wins over it."
        ),
    ] = Path("elmgrove.admin"),
    ca: Ca = None,
    certificate: Certificate = None,
) -> None:
    """Make federations, and decide who takes part."""
    context.obj = Administrator(server, admin_token_file, Tls(ca, certificate))


@federation.command()
def create(
    context: typer.Context,
    name: Name,
    data: Annotated[
        Path | None, option("Normal rows: columns, scaling and window fit this file.", exists=True)
    ] = None,
    like: Annotated[
        list[Path] | None,
        file_option(
            "Columns, scaling, layer and window of this state or evidence. Repeatable: a scaling "
            "for what all of them learned."
        ),
    ] = None,
    member: Annotated[
        list[str] | None, option("Names that may join, like 'fan-*' (repeatable) \\[default: any].")
    ] = None,
    merged: MergedFlag = False,
    key_days: Annotated[
        float | None, option("Days after which a device's key expires \\[default: never].")
    ] = None,
    least: Annotated[int, option("The fewest devices in a sum that is given out.", min=1)] = 1,
    most_rows: Annotated[
        float, option("A device counts with at most this many rows in sums; 0: no bound.")
    ] = 1e6,
    exchange: Annotated[
        str | None, option("A folder, or mqtts://host/topic, instead of the server.")
    ] = None,
) -> None:
    """Make a federation, and print the token with which devices join it.

    For other columns, units or windows than fit the data, learn a state with them and give it as
    [bold]--like[/].

    Example: [bold]elmgrove federation create fans --data sample.csv --member 'fan-*'[/]
    """
    like = like or []
    if (data is None) == (not like):
        raise BadInput("columns and scaling come from --like or from --data: give one of them")
    if data is None:
        basis = basis_like(like)
    else:
        table = read(data, None, Layout())
        if not len(table.rows):
            raise BadInput(f"{data}: no rows to take columns and scaling from")
        basis = fitted_basis(table)
    ridge = load(like[0], _ridge_of) if like else 1e-3
    members = None if member is None else tuple(member)
    terms = Terms(least, most_rows or None, key_days)
    charter = Charter(name, basis, ridge, members, merged, terms)
    if exchange is not None:
        _create_elsewhere(context, charter, exchange)
        return
    with context.obj.client() as opened:
        made = request(opened, "POST", "", json=charter.fields).read(Line, "token")
    notes.print(f"Made {name}. Devices join it at {context.obj.server}/{name} with this token:")
    print_result(made)


def _ridge_of(blob: bytes) -> float:
    if format_of(blob) != STATE_FORMAT:
        return 1e-3
    return float(Member.from_bytes(blob).detector.model.ridge)


def _create_elsewhere(context: typer.Context, charter: Charter, place: str) -> None:
    require_not_given(
        context,
        ("least",),
        f"every device that reads {place} sees what each contributed; only a server can show less",
    )
    require_not_given(context, ("key_days",), f"devices need no key for {place}, so none expires")
    if place.startswith(("mqtt://", "mqtts://")):
        # Here, since it needs the extra.
        from elmgrove.exchange.mqtt import MqttExchange

        MqttExchange.create(place, charter, password=mqtt_password(), tls=context.obj.tls)
        # Devices have names of their own there.
        place = str(replace(BrokerAddress.parsed(place), user=""))
    elif "://" in place:
        raise BadInput(f"--exchange: a folder, or a broker's mqtt://host/topic, not {place}")
    else:
        FolderExchange.create(Path(place), charter)
    notes.print(
        f"{place} is the exchange of {charter.name}: devices use it with --exchange {place}, and "
        "each sees what every other contributed."
    )


@federation.command()
def show(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="The federation's name \\[default: list all].")
    ] = None,
) -> None:
    """Show a federation's layer and its devices; without a name, list the federations.

    The state of a device is that of its last sync; a silent one should have reported since.
    """
    with context.obj.client() as opened:
        if name is None:
            for one in request(opened, "GET", "").read(list[Line], "federations"):
                print_result(one)
            return
        answer = request(opened, "GET", f"/{name}")
        with answer.reading():
            charter = Charter.from_fields(answer.read(dict[str, Any]))
        devices = request(opened, "GET", f"/{name}/devices").read(list[_Device], "devices")
        entries = request(opened, "GET", f"/{name}/entries").read(list[_Entry], "entries")
        reports = {one.name: one for one in _reports(opened, name)}
    basis, layer, samples = charter.basis, charter.basis.layer, ""
    if basis.spectrum is not None:
        rate, length = basis.spectrum.rate, basis.spectrum.length
        samples = f" of frames of {length} samples ({rate:g} a second)"
    print_result(
        f"{name}: {basis.columns} columns{samples}, {layer.units} hidden units, "
        f"{layer.activation}, scaling {basis.scaling.kind}, window {basis.window}, "
        f"score {basis.score}, ridge {charter.ridge:g}, {'merged, ' if charter.merged else ''}"
        f"members {', '.join(charter.members or ['any'])}; {_in_words(charter.terms)}"
    )
    print_result(_grid(devices, {entry.origin: entry for entry in entries}, reports))
    for entry in entries:
        if entry.why:
            rows = rows_counted(entry.count or 0.0, entry.weight)
            print_result(f"{entry.origin} counts as {rows} rows: {entry.why}.")


def _in_words(terms: Terms) -> str:
    devices = f"{terms.least} device{'s' * (terms.least != 1)}"
    weighs = "all it states" if terms.most_rows is None else f"at most {terms.most_rows:,.0f} rows"
    return f"a key reads sums of {devices} or more; a device counts with {weighs}"


class _Device(Struct):
    name: Line
    revoked: bool
    expires: Positive | None


class _Entry(Struct):
    origin: Line
    left: bool
    corrupt: bool
    received: Positive
    count: Positive | None
    weight: Positive
    why: Line | None


class _Row(Struct):
    name: Line
    state: Line
    event: bool
    drift: bool
    seen: Positive | None


class _Administrator(Struct):
    name: Line
    role: Line
    created: Positive
    expires: Positive | None
    password: bool


def _reports(opened: httpx.Client, name: str, page: int = 1000) -> Iterator[_Row]:
    """Asks how all devices are doing, page by page."""
    offset = 0
    while True:
        asked = {"limit": page, "offset": offset}
        found = request(opened, "GET", f"/{name}/reports", params=asked).read(list[_Row], "rows")
        yield from found
        offset += len(found)
        if len(found) < page:
            return


def _grid(devices: list[_Device], entries: dict[str, _Entry], reports: dict[str, _Row]) -> Grid:
    grid = Grid("device", "key", "state", "last seen", "rows", "last upload")
    for device in devices:
        key = "revoked" if device.revoked else validity(device.expires)
        doing = ("", "") if device.name not in reports else _doing(reports[device.name])
        entry = entries.get(device.name)
        uploaded = ("", "never") if entry is None else (_rows(entry), _when(entry.received))
        grid.add_row(device.name, key, *doing, *uploaded)
    return grid


def _doing(report: _Row) -> tuple[str, str]:
    """The state in words with open events and drift, and when the device was last seen."""
    words = [{"unreported": "has reported nothing", "revoked": ""}.get(report.state, report.state)]
    words += ["an event is open"] * report.event + ["drift"] * report.drift
    return ", ".join(filter(None, words)), "" if report.seen is None else _when(report.seen)


def _when(time: float) -> str:
    return shown(require_time(time))


def _rows(entry: _Entry) -> str:
    if entry.left or entry.count is None:
        return "left"
    corrupt = " (corrupt until its next sync)" if entry.corrupt else ""
    return rows_counted(entry.count, entry.weight) + corrupt


def rows_counted(rows: float, weight: float) -> str:
    """The rows that a device counts as, and of how many where it counts with less."""
    return f"{rows:,.0f}" if weight == 1.0 else f"{weight * rows:,.0f} of {rows:,.0f}"


def validity(expires: float | None) -> str:
    if expires is None:
        return "valid"
    return f"{'expired' if expires <= time.time() else 'valid until'} {format_time(expires)} UTC"


@federation.command()
def token(
    context: typer.Context,
    name: Name,
    device: Annotated[
        str | None,
        typer.Argument(help="A device that was shut out, or lost its key: it gets a new one."),
    ] = None,
) -> None:
    """Make and print a new token to join with, or a new key for one device.

    The old token becomes invalid; keys stay valid.
    """
    with context.obj.client() as opened:
        if device is None:
            made = request(opened, "POST", f"/{name}/token").read(Line, "token")
        else:
            asked = {"name": device}
            made = request(opened, "POST", f"/{name}/devices", json=asked).read(Line, "key")
            notes.print(
                f"The key of {device}; write it to the .key file beside the device's state:"
            )
    print_result(made)


@federation.command()
def revoke(
    context: typer.Context,
    name: Name,
    device: Annotated[str, typer.Argument(help="The device's name.")],
    keep_key: Annotated[
        bool,
        option("Only forget what it contributed; its next sync publishes again.", "--keep-key"),
    ] = False,
) -> None:
    """Shut a device out: its key becomes invalid, and its part leaves the others' next models.

    [bold]--keep-key[/] is for an entry that the device can't replace: one that a stolen key made,
    or a corrupt one.
    """
    kind = "entries" if keep_key else "devices"
    with context.obj.client() as opened:
        request(opened, "DELETE", f"/{name}/{kind}/{address_of(device)}")
    if keep_key:
        notes.print(f"Nothing is held of {device} in {name} until its next sync.")
    else:
        notes.print(f"{device} is out of {name}; what it contributed is no longer merged.")


@federation.command()
def delete(
    context: typer.Context, name: Name, yes: Annotated[bool, option("Do not ask.", "--yes")] = False
) -> None:
    """Delete a federation with all that its devices contributed."""
    if not yes:
        typer.confirm(f"Delete {name} and all its contributions?", abort=True)
    with context.obj.client() as opened:
        request(opened, "DELETE", f"/{name}")
    notes.print(f"Deleted {name}.")


federation.command()(audit)


@federation.command()
def administrators(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="An administrator's name \\[default: list all].")
    ] = None,
    add: Annotated[
        Literal["look", "manage"] | None, option("Add it, to look or to manage; prints its token.")
    ] = None,
    days: Annotated[
        float | None, option("With --add: how long the token is valid \\[default: for ever].")
    ] = None,
    password: Annotated[
        bool | None,
        option("Set its password for the dashboard (asked for, or from standard input), or none."),
    ] = None,
    remove: Annotated[bool, option("Remove it; its token becomes invalid.", "--remove")] = False,
) -> None:
    """Decide who may look at this server, and who may manage it.

    The one whose token the server has can't be removed and is not listed. A token is shown only
    when it is made. Who may only look can set their own password, with their own token; all who
    are logged in under that name have to log in again.

    Example: [bold]elmgrove federation administrators anna --add look --days 90[/]
    """
    chosen = sum((add is not None, password is not None, remove))
    if chosen > 1 or chosen != (name is not None):
        raise BadInput("give a name with one of --add, --password, --no-password and --remove")
    with context.obj.client("/v1/administrators") as opened:
        if name is None:
            _list_administrators(opened)
        elif add is not None:
            asked = {"name": name, "role": add, "days": days}
            made = request(opened, "POST", "", json=asked)
            valid = validity(made.read(Positive | None, "expires"))
            notes.print(f"{name} may {add}, with this token ({valid}):")
            print_result(made.read(Line, "token"))
        elif remove:
            request(opened, "DELETE", f"/{name}")
            notes.print(f"{name} is no administrator any more.")
        elif password:
            stated = {"password": _password_of(name)}
            request(opened, "PUT", f"/{name}/password", json=stated, expected=(204,))
            notes.print(
                f"{name} can log in with this password; all who were logged in have to do so again."
            )
        else:
            request(opened, "DELETE", f"/{name}/password")
            notes.print(f"{name} has no password any more; the token lets in.")


def _list_administrators(opened: httpx.Client) -> None:
    grid = Grid("name", "role", "added (UTC)", "token", "password")
    for one in request(opened, "GET", "").read(list[_Administrator], "administrators"):
        added, valid = format_time(one.created), validity(one.expires)
        grid.add_row(one.name, one.role, added, valid, "yes" if one.password else "no")
    print_result(grid)


def _password_of(name: str) -> str:
    if sys.stdin.isatty():
        asked: str = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
        return asked
    # Without the end of the line, and with all else: a password may begin or end with a space.
    stated = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not stated:
        raise BadInput("there is no password on standard input")
    return stated
