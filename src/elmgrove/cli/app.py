"""The command's frame: loads a command when it is asked for, and makes an error one clear line."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from elmgrove import __version__
from elmgrove.errors import ElmgroveError, MissingExtra

#: All commands, in the groups of the help: where each is, and the first sentence of its own help.
#: Each is loaded when it is asked for, since all of them together take seconds.
GROUPS = {
    "Start": {
        "learn": ("learn:learn", "Learn what normal rows look like."),
        "score": ("score:score", "Score the rows of a file, without learning them."),
        "plot": ("plot:plot", "Draw scores, events, and the sensors that caused them."),
        "evaluate": ("evaluate:evaluate", "Count how many labelled anomalies are found."),
        "demo": ("demo.story:demo", "Show a day of five pumps that learn from each other."),
    },
    "Device": {
        "device": ("device:device", "Run the agent: rows in, verdicts and alarms out."),
        "status": ("status:status", "Show how a device is doing."),
        "quarantine": ("feedback:quarantine", "List the anomalous rows that wait for an answer."),
        "accept": ("feedback:accept", "That was fine: learn anomalous rows as a new normal."),
        "reject": ("feedback:reject", "It was a fault: drop anomalous rows, and unlearn it."),
        "undo": ("feedback:undo", "Undo the last accept or reject."),
        "tune": ("feedback:tune", "Change the threshold or the alarm rule."),
        "inspect": ("status:inspect", "Show what a file of Elmgrove holds."),
    },
    "Fleet": {
        "serve": ("serve:serve", "Run the server of a fleet, with its dashboard."),
        "federation": ("federation:federation", "Make federations, and decide who takes part."),
        "fleet": ("fleet:fleet", "Compare all devices of a federation."),
        "share": ("share:share", "Write what this device learned, for others to merge."),
        "merge": ("share:merge", "Take in what others shared, or take it out again."),
        "backup": ("serve:backup", "Copy a SQLite store while the server runs."),
    },
    "Research": {
        "federate": ("federate:federate", "Run a federation of clients on this machine."),
        "predict": ("federate:predict", "Predict the class or the number of each row."),
        # An appendix that a device does not need, with its own distribution.
        "paper": (
            "elmgrove_papers.command:papers",
            "The papers' figures and tables, run again. The word [bold]run[/] may be left out.",
        ),
    },
}
COMMANDS = {
    name: where if where.startswith("elmgrove_papers") else f"elmgrove.cli.{where}"
    for group in GROUPS.values()
    for name, (where, _) in group.items()
}


class OnDemand(TyperGroup):
    """A group whose commands are loaded one by one, when they are asked for."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._without_loading():
            return super().shell_complete(ctx, incomplete)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._without_loading():
            super().format_help(ctx, formatter)

    @contextmanager
    def _without_loading(self) -> Iterator[None]:
        self._listing = True
        try:
            yield
        finally:
            self._listing = False

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is asked for, or say which one may be meant."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and name not in COMMANDS:
            ctx.fail(f"No such command {name!r}.{_meant(name)}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if self._listing:
            panel, group = next(item for item in GROUPS.items() if cmd_name in item[1])
            summary = group[cmd_name][1]
            return _command(cmd_name, lambda: None, help=summary, rich_help_panel=panel)
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        return _command(cmd_name, getattr(_loaded(cmd_name, module), attribute))


def _meant(name: str) -> str:
    """Ask which command may be meant, by its letters or by what other tools call it."""
    elsewhere = {
        "train": "learn",
        "fit": "learn",
        "detect": "score",
        "run": "device run",
        "test": "evaluate",
        "dashboard": "serve",
    }
    near = [elsewhere[name]] if name in elsewhere else get_close_matches(name, COMMANDS)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _loaded(name: str, module: str) -> ModuleType:
    if module in sys.modules:
        return sys.modules[module]
    if name == "paper" and find_spec("elmgrove_papers") is None:
        raise MissingExtra(
            "elmgrove paper needs the appendix: pip install elmgrove-papers "
            "(from a checkout: pip install ./papers)"
        )
    # To look through a thousand modules for garbage takes a quarter of a short command's time.
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _command(name: str, found: Any, **settings: Any) -> Any:
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, **settings)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=OnDemand,
    name="elmgrove",
    help="Learn what normal looks like, flag what is not, and learn from others without raw data.",
    epilog="Exit codes: 0 done, 1 bad data or files (nothing was changed), 2 wrong usage, "
    "3 anomalies found (with score --check).",
    no_args_is_help=True,
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
    """Take the options before the command."""


def main() -> None:
    try:
        app()
    except (ElmgroveError, OSError, MemoryError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        console = Console(stderr=True, emoji=False)
        console.print(f"[bold red]Error:[/] {escape(text)}", soft_wrap=True)
        sys.exit(1)
