"""The command's frame: loads a command when it is asked for, and makes an error one clear line."""

import sys
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from elmgrove import __version__
from elmgrove.errors import ElmgroveError, MissingExtra

#: Where each command is, a function or a group of commands. Each is loaded when it is asked for:
#: all of them together take seconds, and more on a small machine.
COMMANDS = {
    "learn": "elmgrove.cli.learn:learn",
    "score": "elmgrove.cli.score:score",
    "tune": "elmgrove.cli.tune:tune",
    "evaluate": "elmgrove.cli.evaluation:evaluate",
    "plot": "elmgrove.cli.plot:plot",
    "share": "elmgrove.cli.exchange:share",
    "merge": "elmgrove.cli.exchange:merge",
    "forget": "elmgrove.cli.exchange:forget",
    "status": "elmgrove.cli.status:status",
    "quarantine": "elmgrove.cli.quarantine:quarantine",
    "accept": "elmgrove.cli.feedback:accept",
    "reject": "elmgrove.cli.feedback:reject",
    "inspect": "elmgrove.cli.inspect:inspect",
    "demo": "elmgrove.cli.demo:demo",
    "federate": "elmgrove.cli.federate:federate",
    "predict": "elmgrove.cli.predict:predict",
    "serve": "elmgrove.cli.serve:serve",
    "backup": "elmgrove.cli.backup:backup",
    "restore": "elmgrove.cli.backup:restore",
    "federation": "elmgrove.cli.federation:federation",
    "fleet": "elmgrove.cli.fleet:fleet",
    "device": "elmgrove.cli.device:device",
}
#: The entry points with which other distributions add commands, each a Typer app.
PLUG_INS = "elmgrove.commands"
#: Commands of this project that a device does not need, and what installs them.
APPENDIX = {
    "paper": "elmgrove paper needs the appendix: pip install elmgrove-papers "
    "(from a checkout: pip install ./papers)"
}


class OnDemand(TyperGroup):
    """A group whose commands are loaded one by one, when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Gives the names of all commands, in the order of the help."""
        return [*COMMANDS, *_plug_ins()]

    # Whether a shell wants names alone.
    _naming = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Completes the name of a command, and loads none for that."""
        self._naming = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._naming = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Loads a command; None if there is none of this name."""
        if self._naming:
            return _command(cmd_name, lambda: None)
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name].partition(":")
            return _command(cmd_name, getattr(import_module(module), attribute))
        return _plug_in(cmd_name) if cmd_name in _plug_ins() else None


def _command(name: str, found: Any, **settings: Any) -> Any:
    """Makes a command of a function, or of a Typer app, which holds several."""
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, **settings)(found)
    return typer.main.get_command(alone)


def _plug_ins() -> list[str]:
    """Lists the commands of other distributions, and those that could be installed."""
    return sorted({*entry_points(group=PLUG_INS).names, *APPENDIX})


def _plug_in(name: str) -> Any:
    """Loads a command of another distribution.

    One that is not installed or can't be loaded is there as well, and says so when it is called:
    no plug-in may take the others away.
    """
    found = {entry.name: entry for entry in entry_points(group=PLUG_INS)}
    try:
        if name not in found:
            raise MissingExtra(APPENDIX[name])
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
        name, excuse, help=f"Not installed: {escape(str(error))}.", context_settings=anything
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
