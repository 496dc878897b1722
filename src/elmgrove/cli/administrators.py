"""``elmgrove federation administrator``: who may look at or manage a server, by name."""

import time
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import notes
from elmgrove.exchange import request
from elmgrove.reading import time_told

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
    grid = Grid("name", "role", "added (UTC)", "token")
    for one in found:
        added, valid = time_told(one.number("created")), ends(one.number_or_none("expires"))
        grid.add_row(one.text("name"), one.text("role"), added, valid)
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


def ends(expires: float | None) -> str:
    """Says until when a token or key is valid."""
    if expires is None:
        return "valid"
    return f"{'expired' if expires <= time.time() else 'valid until'} {time_told(expires)} UTC"
