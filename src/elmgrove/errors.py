"""The errors that Elmgrove raises on purpose, and checks that raise them.

Each error has a text that says what to do.
"""

from datetime import UTC, datetime
from importlib import import_module
from numbers import Integral
from typing import Any


class ElmgroveError(Exception):
    """The base of all errors here: catch it to catch whatever Elmgrove refuses."""


class BadInput(ElmgroveError, ValueError):
    """A row or a setting that can't be used; nothing was learned from it.

    ``row`` and ``column`` count from 0 and are None where they do not apply.
    """

    def __init__(self, message: str, row: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class Mismatch(ElmgroveError, ValueError):
    """Two parts that were made in different ways and so can't be merged."""


class NotAdmissible(ElmgroveError, ValueError):
    """Evidence that no set of rows can have produced, or that was never part of the model."""


class SingularSystem(ElmgroveError, ArithmeticError):
    """Equations for the output weights without a usable solution, though the input was finite."""


class BadFile(ElmgroveError, ValueError):
    """A file that is truncated, altered, foreign or of a version this release can't read."""


class MissingExtra(ElmgroveError, ImportError):
    """An optional part that is not installed; the text holds the exact install line."""


def require_whole(name: str, value: Any, least: int) -> int:
    """Gives the value as an int, or raises ``BadInput``: a float or a bool here is a mistake."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise BadInput(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def require_time(time: float) -> float:
    """Gives a time in seconds since 1970 (UTC), or raises ``BadInput`` if no calendar has it.

    >>> require_time(1e30)
    Traceback (most recent call last):
    elmgrove.errors.BadInput: 1e+30 is no time between the years 1 and 9999
    """
    if not _EARLIEST <= time <= _LATEST:
        raise BadInput(f"{float(time)!r} is no time between the years 1 and 9999")
    return time


# The first and the last second of those years: what ``datetime`` can tell.
_EARLIEST = datetime.min.replace(tzinfo=UTC).timestamp()
_LATEST = datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp()


def require_extra(module: str, name: str) -> Any:
    """Imports a module of an extra, or raises ``MissingExtra`` with the line that installs it.

    >>> require_extra("no_such_module", "demo")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    elmgrove.errors.MissingExtra: this needs no_such_module: pip install 'elmgrove[demo]' ...
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtra(f"this needs {package}: {install_line(name)}") from error


def install_line(name: str) -> str:
    """Gives the lines that install an extra: from an index, and from a checkout.

    >>> install_line("plot")
    "pip install 'elmgrove[plot]' (from a checkout: pip install '.[plot]')"
    """
    return f"pip install 'elmgrove[{name}]' (from a checkout: pip install '.[{name}]')"
