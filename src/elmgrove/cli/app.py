"""The command's frame: loads a command when it is asked for, and makes an error one clear line."""

import sys
from importlib import import_module
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from elmgrove import __version__
from elmgrove.cli import plug_ins
from elmgrove.errors import ElmgroveError

#: Where each command is, a function or a group of commands. Each is loaded when it is asked for:
#: all of them together take seconds, and more on a small machine.
COMMANDS = {
    "learn": "elmgrove.cli.learn:learn",
    "score": "elmgrove.cli.score:score",
    "share": "elmgrove.cli.exchange:share",
    "merge": "elmgrove.cli.exchange:merge",
    "forget": "elmgrove.cli.exchange:forget",
    "inspect": "elmgrove.cli.inspect:inspect",
    "demo": "elmgrove.cli.demo:demo",
    "federate": "elmgrove.cli.federate:federate",
    "serve": "elmgrove.cli.serve:serve",
    "federation": "elmgrove.cli.federation:federation",
    "fleet": "elmgrove.cli.fleet:fleet",
    "device": "elmgrove.cli.device:device",
}


class OnDemand(TyperGroup):
    """A group whose commands are loaded one by one, when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Gives the names of all commands, in the order of the help."""
        return [*COMMANDS, *plug_ins.names()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Loads a command; None if there is none of this name."""
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name].partition(":")
            return _made(cmd_name, getattr(import_module(module), attribute))
        return _made(cmd_name, plug_ins.load(cmd_name)) if cmd_name in plug_ins.names() else None


def _made(name: str, found: Any) -> Any:
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=OnDemand,
    name="elmgrove",
    help="Learn what normal looks like, flag what is not, and learn from others without raw data.",
    epilog="Exit codes: 0 done, 1 bad data or files (nothing was changed), 2 wrong usage, "
    "3 anomalies found (with score --check).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        Console().print(f"elmgrove {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", callback=_version, is_eager=True
    ),
) -> None:
    """Takes the options before the command."""


def main() -> None:
    """Runs the command line."""
    try:
        app()
    except (ElmgroveError, OSError, MemoryError) as error:
        console = Console(stderr=True, emoji=False)
        console.print(f"[bold red]Error:[/] {escape(_text(error))}", soft_wrap=True)
        sys.exit(1)


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
