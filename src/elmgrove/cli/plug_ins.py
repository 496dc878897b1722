"""Commands that other distributions add, each a Typer under one group of entry points."""

from importlib.metadata import EntryPoint, entry_points

import typer

from elmgrove.errors import ElmgroveError, MissingExtra

GROUP = "elmgrove.commands"
#: Commands of this project that a device does not need, and what installs them.
APPENDIX = {
    "paper": "elmgrove paper needs the appendix: pip install elmgrove-papers "
    "(from a checkout: pip install ./papers)"
}


def names() -> list[str]:
    """Lists the commands of other distributions, and those that could be installed."""
    return sorted({*entry_points(group=GROUP).names, *APPENDIX})


def load(name: str) -> typer.Typer:
    """Loads a command of another distribution.

    One that is not installed or can't be loaded is there as well, and says so when it is called:
    no plug-in may take the others away.
    """
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    try:
        if name not in found:
            raise MissingExtra(APPENDIX[name])
        return _loaded(found[name])
    except ElmgroveError as error:
        return _excuse(name, error)


def _loaded(entry: EntryPoint) -> typer.Typer:
    try:
        loaded = entry.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        raise ElmgroveError(f"elmgrove {entry.name} can't be loaded: {error!r}") from error
    if not isinstance(loaded, typer.Typer):
        raise ElmgroveError(f"elmgrove {entry.name} can't be loaded: {entry.value} is no Typer")
    return loaded


def _excuse(name: str, error: ElmgroveError) -> typer.Typer:
    """Makes a command that takes any arguments and raises the error."""
    app = typer.Typer(name=name, help=f"Not there: {error}.", rich_markup_mode="rich")

    @app.callback(
        invoke_without_command=True,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def excuse() -> None:
        raise error

    return app
