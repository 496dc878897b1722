"""The errors that Elmgrove raises on purpose, and checks that raise them.

Each error has a text that says what to do. Catch ``ElmgroveError`` to catch them all::

    ElmgroveError
    ├── BadInput (ValueError)               a row or a setting that can't be used
    │   ├── WrongColumns                    none of a file's rows can be used
    │   ├── MissingValue                    a row without a value that it needs
    │   └── InUse                           another process has locked the file
    ├── BadFile (ValueError)                truncated, altered, foreign, or too new
    ├── Mismatch (ValueError)               learned in different ways, so not to be merged
    ├── NotAdmissible (ValueError)          evidence that no rows can have produced
    ├── SingularSystem (ArithmeticError)    equations without a usable solution
    ├── MissingExtra (ImportError)          an optional part that is not installed
    ├── Refused                             an exchange does not take an entry
    │   └── Outdated                        ... since it holds a newer one
    ├── Unauthorized                        a token, key or session that is not valid
    ├── NotFound (LookupError)              no such federation
    ├── Unreachable (OSError)               an exchange that can't be reached now
    ├── StoreUnavailable (OSError)          a data base that can't answer now
    └── Problem                             a request to be answered with a problem document

``InconsistentState`` is not among them: it is a fault of Elmgrove's own.
"""

from datetime import UTC, datetime
from importlib import import_module
from numbers import Integral
from typing import Any


class ElmgroveError(Exception):
    """The base of all errors here."""


class BadInput(ElmgroveError, ValueError):
    """A row or a setting that can't be used; nothing was learned from it.

    ``row`` and ``column`` count from 0 and are None where they do not apply.
    """

    def __init__(self, message: str, row: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class WrongColumns(BadInput):
    """A file whose columns are not those that are wanted."""


class MissingValue(BadInput):
    """A row whose missing value could not be held: there is none before it, or it is too old."""


class InUse(BadInput):
    """A file that another process has locked."""


class BadFile(ElmgroveError, ValueError):
    """A file that is truncated, altered, foreign or of a version this release can't read."""


class Mismatch(ElmgroveError, ValueError):
    """Two parts that were made in different ways and so can't be merged."""


class NotAdmissible(ElmgroveError, ValueError):
    """Evidence that no set of rows can have produced, or that was never part of the model."""


class SingularSystem(ElmgroveError, ArithmeticError):
    """Equations for the output weights without a usable solution, though the input was finite."""


class MissingExtra(ElmgroveError, ImportError):
    """An optional part that is not installed; the text holds the install line."""


class Refused(ElmgroveError):
    """An exchange did not take an entry, and nothing changed."""


class Outdated(Refused):
    """The exchange holds a version of this device that the new one can't replace.

    ``held_epoch`` is the epoch to get past; with ``shrunk`` the device also has to leave first.
    """

    def __init__(self, message: str, held_epoch: int, shrunk: bool) -> None:
        super().__init__(message)
        self.held_epoch = held_epoch
        self.shrunk = shrunk


class Unauthorized(ElmgroveError):
    """The token or key is not valid, or the session is over."""


class NotFound(ElmgroveError, LookupError):
    """The server has no federation of this name, or not any longer."""


class Unreachable(ElmgroveError, OSError):
    """The exchange can't be reached now; it asks to be left alone for ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StoreUnavailable(ElmgroveError, OSError):
    """The data base can't be reached, is full or failed; the same request may work later.

    ``reason`` is what anybody may know of it, such as "disk full".
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class InconsistentState(Exception):
    """A change failed half-way, though it went well on a copy: the member must not be saved."""


class Problem(ElmgroveError):
    """A request to be answered with a problem document (RFC 9457).

    ``kind`` names it for programs; ``members`` are further ones of the document.
    """

    def __init__(self, kind: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.kind = kind
        self.members = members
        self.headers = {"WWW-Authenticate": "Bearer"} if kind == "unauthorized" else {}

    def document(self, status: int, title: str, instance: str) -> dict[str, Any]:
        """The problem document for the path ``instance``."""
        return {
            "type": f"urn:elmgrove:problem:{self.kind}",
            "title": title,
            "status": status,
            "detail": str(self),
            "instance": instance,
            **self.members,
        }


def require_whole(name: str, value: Any, least: int) -> int:
    """Returns the value as an int; ``BadInput`` for a float or a bool, which would be a mistake."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise BadInput(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


#: The first and the last second, since 1970, that ``datetime`` can tell.
EARLIEST = datetime.min.replace(tzinfo=UTC).timestamp()
LATEST = datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp()


def require_time(time: float) -> float:
    """Returns a time in seconds since 1970 (UTC); ``BadInput`` if no calendar has it."""
    if not EARLIEST <= time <= LATEST:
        raise BadInput(f"{float(time)!r} is no time between the years 1 and 9999")
    return time


def require_extra(module: str, name: str) -> Any:
    """Imports a module of an extra; ``MissingExtra`` has the line that installs it.

    >>> require_extra("no_such_module", "demo")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    elmgrove.errors.MissingExtra: this needs no_such_module: pip install 'elmgrove[demo]' ...
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"this needs {module.partition('.')[0]}: pip install 'elmgrove[{name}]' "
            f"(from a checkout: pip install '.[{name}]')"
        ) from error


def plain(text: str, longest: int = 300) -> str:
    """Makes a line for logs and terminals of what somebody else may have said.

    >>> plain("no \\n such\\x1b[2J device")
    'no such?[2J device'
    """
    short = " ".join(text[: 2 * longest].split())
    safe = "".join(letter if letter.isprintable() else "?" for letter in short)
    return safe if len(safe) <= longest else safe[: longest - 1] + "…"
