"""The command's frame: loads a command when it is asked for, and makes an error one clear line."""

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from elmgrove import __version__
from elmgrove.errors import ElmgroveError, MissingExtra

#: All commands, in the groups of the help: where each is (a function or a group of commands), and
#: the first sentence of its own help. Each is loaded when it is asked for, since all of them
#: together take seconds, and more on a small machine.
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
        "tune": ("tune:tune", "Change the threshold or the alarm rule."),
        "inspect": ("inspect:inspect", "Show what a file of Elmgrove holds."),
    },
    "Fleet": {
        "serve": ("serve:serve", "Run the server of a fleet, with its dashboard."),
        "federation": (
            "federation:federation",
            "Make federations and decide which devices take part.",
        ),
        "fleet": ("fleet:fleet", "Compare all devices of a federation."),
        "share": ("exchange:share", "Write what this device learned, for others to merge."),
        "merge": ("exchange:merge", "Take in what others shared."),
        "forget": ("exchange:forget", "Take one device's contribution out again, exactly."),
        "backup": ("serve:backup", "Copy a SQLite store while the server runs."),
    },
    "Research": {
        "federate": (
            "federate:federate",
            "Run a federation of clients on this machine, and save the model they end with.",
        ),
        "predict": (
            "predict:predict",
            "Predict the class or the number of each row, and say how right that is where it is "
            "known.",
        ),
    },
}
COMMANDS = {
    name: f"elmgrove.cli.{where}" for group in GROUPS.values() for name, (where, _) in group.items()
}
#: Commands of this project that a device does not need: the first sentence of the help, and what
#: installs them.
APPENDIX = {
    "paper": (
        "The papers' figures and tables, run again. The word [bold]run[/] may be left out.",
        "elmgrove paper needs the appendix: pip install elmgrove-papers "
        "(from a checkout: pip install ./papers)",
    )
}
SUMMARIES = {name: summary for group in GROUPS.values() for name, (_, summary) in group.items()} | {
    name: summary for name, (summary, _) in APPENDIX.items()
}
#: The entry points with which other distributions add commands, each a Typer app.
PLUG_INS = "elmgrove.commands"


class OnDemand(TyperGroup):
    """A group whose commands are loaded one by one, when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the help."""
        return [*COMMANDS, *_plug_ins()]

    # Makes a command for a list of commands, while one is printed or completed.
    _listing: Callable[[str], Any] | None = None

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Completes the name of a command without loading any."""
        with self._lists(_mentioned):
            return super().shell_complete(ctx, incomplete)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help without loading any of this project's commands."""
        with self._lists(_listed):
            super().format_help(ctx, formatter)

    @contextmanager
    def _lists(self, made: Callable[[str], Any]) -> Iterator[None]:
        self._listing = made
        try:
            yield
        finally:
            self._listing = None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the command that is asked for, or says which one may be meant."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-"):
            known = self.list_commands(ctx)
            if name not in known:
                ctx.fail(f"No such command {name!r}.{_meant(name, known)}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Loads a command; None if there is none of this name."""
        if cmd_name not in COMMANDS and cmd_name not in _plug_ins():
            return None
        return (self._listing or _whole)(cmd_name)


def _meant(name: str, known: Sequence[str]) -> str:
    """Asks which command may be meant, by its letters or by what other tools call it."""
    elsewhere = {
        "train": "learn",
        "fit": "learn",
        "detect": "score",
        "run": "device run",
        "test": "evaluate",
        "dashboard": "serve",
    }
    near = [elsewhere[name]] if name in elsewhere else get_close_matches(name, known)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _whole(name: str) -> Any:
    """Loads a command."""
    if name not in COMMANDS:
        return _plug_in(name)
    module, _, attribute = COMMANDS[name].partition(":")
    return _command(name, getattr(_for_good(module), attribute))


def _for_good(name: str) -> ModuleType:
    """Imports a module that stays until the process ends.

    Looking through a thousand modules for garbage, while they are loaded and again at the end,
    would take a quarter of the time that a short command takes.
    """
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def _mentioned(name: str) -> Any:
    """Makes a command that does nothing, for its name and summary."""
    panel = next((panel for panel, group in GROUPS.items() if name in group), "Research")
    return _command(name, lambda: None, help=SUMMARIES.get(name), rich_help_panel=panel)


def _listed(name: str) -> Any:
    """Loads a command only where nothing is known of it without that."""
    known = name in COMMANDS or (name in SUMMARIES and name in _installed())
    return _mentioned(name) if known else _plug_in(name)


def _command(name: str, found: Any, **settings: Any) -> Any:
    """Makes a command of a function, or of a Typer app, which holds several."""
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, **settings)(found)
    return typer.main.get_command(alone)


def _installed() -> dict[str, EntryPoint]:
    """Finds the commands of other distributions, and loads none."""
    return {entry.name: entry for entry in entry_points(group=PLUG_INS)}


def _plug_ins() -> list[str]:
    """Lists the commands of other distributions, and those that could be installed."""
    return sorted({*_installed(), *APPENDIX})


def _plug_in(name: str) -> Any:
    """Loads a command of another distribution.

    One that is not installed or can't be loaded is there as well, and says so when it is called:
    no plug-in may take the others away.
    """
    found = _installed()
    try:
        if name not in found:
            raise MissingExtra(APPENDIX[name][1])
        return _command(name, _loaded(found[name]))
    except ElmgroveError as error:
        return _excuse(name, error)


def _loaded(entry: EntryPoint) -> typer.Typer:
    try:
        loaded = entry.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        raise ElmgroveError(f"elmgrove {entry.name} can't be loaded: {error!r}") from error
    if not isinstance(loaded, typer.Typer):
        raise ElmgroveError(
            f"elmgrove {entry.name} can't be loaded: {entry.value} is not a Typer app"
        )
    return loaded


def _excuse(name: str, error: ElmgroveError) -> Any:
    """Makes a command that takes any arguments and raises the error."""

    def excuse() -> None:
        raise error

    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    return _command(
        name,
        excuse,
        help=f"Not installed: {escape(str(error))}.",
        context_settings=anything,
        rich_help_panel="Research",
    )


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
