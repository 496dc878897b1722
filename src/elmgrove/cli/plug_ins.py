"""Commands that other distributions add, each a Typer under the entry point group."""

from importlib.metadata import EntryPoint, entry_points

import typer

from elmgrove.errors import ElmgroveError, MissingExtra

GROUP = "elmgrove.commands"
#: Commands of this project that a device does not need, and what installs them.
APPENDIX = {
    "paper": "elmgrove paper needs the appendix: pip install elmgrove-papers "
    "(from a checkout: pip install ./papers)"
}


def add_to(app: typer.Typer) -> None:
    """Adds the commands of other distributions, by name.

    A command that is not installed or can't be loaded is there as well, and says so when it is
    called: no plug-in may take the others away.
    """
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name in sorted({*found, *APPENDIX}):
        try:
            if name not in found:
                raise MissingExtra(APPENDIX[name])
            app.add_typer(_loaded(found[name]), name=name)
        except ElmgroveError as error:
            _add_excuse(app, name, error)


def _loaded(entry: EntryPoint) -> typer.Typer:
    try:
        loaded = entry.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        raise ElmgroveError(f"elmgrove {entry.name} can't be loaded: {error!r}") from error
    if not isinstance(loaded, typer.Typer):
        raise ElmgroveError(f"elmgrove {entry.name} can't be loaded: {entry.value} is no Typer")
    return loaded


def _add_excuse(app: typer.Typer, name: str, error: ElmgroveError) -> None:
    """A command that takes any arguments and raises the error."""

    def excuse() -> None:
        raise error

    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, help=f"Not there: {error}.", context_settings=anything)(excuse)
