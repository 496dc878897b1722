"""An operation: a piece of the store's work that touches no data base itself.

It is a generator that yields statements, is sent their rows, and returns its result. So each rule
is written once, in SQL that SQLite and PostgreSQL both understand, and a back end only has to run
operations inside transactions: in threads for SQLite, with asyncio for PostgreSQL.
"""

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from elmgrove.errors import ElmgroveError

T = TypeVar("T")
Statement = tuple[Any, ...]  # the text, then its arguments $1, $2, ...
Rows = Sequence[Sequence[Any]]
Operation = Generator[Statement, Rows, T]


class StoreUnavailable(ElmgroveError, OSError):
    """The data base can't be reached, is full or failed; what was asked can be asked again."""


def known(federation: str) -> Operation[None]:
    """Refuses a federation that does not exist."""
    if not (yield ("SELECT 1 FROM federation WHERE name = $1", federation)):
        raise KeyError(federation)
