"""The command's frame: errors become one clear line and an exit code, never a traceback."""

import sys

import typer
from rich.console import Console
from rich.markup import escape

from elmgrove import __version__
from elmgrove.cli import (
    device,
    exchange,
    federate,
    federation,
    fleet,
    inspect,
    learn,
    plug_ins,
    score,
    serve,
)
from elmgrove.cli.demo import demo
from elmgrove.errors import ElmgroveError

COMMANDS = (
    learn.learn,
    score.score,
    exchange.share,
    exchange.merge,
    exchange.forget,
    inspect.inspect,
    demo,
    federate.federate,
    serve.serve,
)
GROUPS = (federation.federation, fleet.fleet, device.device)


def _version(wanted: bool) -> None:
    if wanted:
        Console().print(f"elmgrove {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", callback=_version, is_eager=True
    ),
) -> None:
    """Options before the command."""


def application() -> typer.Typer:
    """Makes the whole command: what this distribution has, and what others add."""
    app = typer.Typer(
        name="elmgrove",
        help="Learn what normal looks like, flag what is not, and learn from others without raw "
        "data.",
        epilog="Exit codes: 0 done, 1 bad data or files (nothing was changed), 2 wrong usage, "
        "3 anomalies found (with score --check).",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_options)
    for command in COMMANDS:
        app.command()(command)
    for group in GROUPS:
        app.add_typer(group)
    plug_ins.add_to(app)
    return app


def main() -> None:
    """Runs the command line."""
    try:
        application()()
    except (ElmgroveError, OSError, MemoryError) as error:
        console = Console(stderr=True, emoji=False)
        console.print(f"[bold red]Error:[/] {escape(_text(error))}", soft_wrap=True)
        sys.exit(1)


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
