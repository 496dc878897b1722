"""``elmgrove federation administrator``: who may look at or manage a server, by name."""

import sys
import time
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import notes
from elmgrove.errors import BadInput
from elmgrove.exchange.http_client import request
from elmgrove.reading.times import told as time_told

administrator = typer.Typer(
    name="administrator",
    help="Decide who may look at this server, and who may manage it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
ROOT = "/v1/administrators"
Name = Annotated[str, typer.Argument(help="The administrator's name.")]


class RoleName(StrEnum):
    """What an administrator may do: see all, or change it as well."""

    look = "look"
    manage = "manage"


@administrator.command("list")
def list_(context: typer.Context) -> None:
    """List the administrators that were added to the one whose token the server has."""
    with context.obj.client(ROOT) as opened:
        found = list(request(opened, "GET", "").json().each("administrators"))
    grid = Grid("name", "role", "added (UTC)", "token", "password")
    for one in found:
        added, valid = time_told(one.number("created")), ends(one.number_or_none("expires"))
        # A server of before 0.2 knows no passwords.
        password = "yes" if one.get("password") is True else "no"
        grid.add_row(one.text("name"), one.text("role"), added, valid, password)
    Console(markup=False, emoji=False).print(grid)


@administrator.command()
def add(
    context: typer.Context,
    name: Name,
    role: Annotated[
        RoleName, typer.Option(help="look: read all, change nothing; manage: all.")
    ] = RoleName.look,
    days: Annotated[
        float | None, typer.Option(help="Days for which the token is valid \\[default: for ever].")
    ] = None,
) -> None:
    """Add an administrator and print its token, which is shown this once.

    Example: [bold]elmgrove federation administrator add anna --role look --days 90[/]
    """
    asked = {"name": name, "role": role.value, "days": days}
    with context.obj.client(ROOT) as opened:
        made = request(opened, "POST", "", json=asked).json()
    token, valid = made.text("token"), ends(made.number_or_none("expires"))
    notes.print(f"{name} may {role.value}, with this token ({valid}):")
    Console().print(token, soft_wrap=True, highlight=False)


@administrator.command()
def remove(context: typer.Context, name: Name) -> None:
    """Remove an administrator; its token is worthless at once."""
    with context.obj.client(ROOT) as opened:
        request(opened, "DELETE", f"/{name}")
    notes.print(f"{name} is no administrator any more.")


@administrator.command()
def password(
    context: typer.Context,
    name: Name,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Read it from the first line of standard input.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take it away: the token alone lets in.")
    ] = False,
) -> None:
    """Give an administrator a password for the dashboard, beside the token.

    It is asked for twice and not shown. All who are logged in under that name must log in again.
    Who may only look can set its own, with its own token.

    Example: [bold]elmgrove federation administrator password anna[/]
    """
    if stdin and remove:
        raise BadInput("--stdin or --remove: a password is either set or taken away")
    with context.obj.client(ROOT) as opened:
        if remove:
            request(opened, "DELETE", f"/{name}/password")
            notes.print(f"{name} has no password any more; the token lets in.")
            return
        stated = _read() if stdin else _asked(name)
        request(opened, "PUT", f"/{name}/password", json={"password": stated}, expected=(204,))
    notes.print(
        f"{name} can log in with this password; all who were logged in have to do so again."
    )


def _read() -> str:
    # Without the end of the line, and with all else: a password may begin or end with a space.
    stated = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not stated:
        raise BadInput("there is no password on standard input")
    return stated


def _asked(name: str) -> str:
    if not sys.stdin.isatty():
        raise BadInput("there is nobody to be asked for a password here: give it by --stdin")
    stated: str = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    return stated


def ends(expires: float | None) -> str:
    """Says until when a token or key is valid."""
    if expires is None:
        return "valid"
    return f"{'expired' if expires <= time.time() else 'valid until'} {time_told(expires)} UTC"
