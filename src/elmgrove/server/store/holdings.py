"""Holdings: what a back-up of a store has in it, for people who decide about it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from elmgrove.errors import BadFile

#: Is told every now and then which share of the work is done; None where nobody knows.
Tell = Callable[[float | None], None]


@dataclass(frozen=True)
class Holdings:
    """How many federations, devices and contributions there are, and from when they are."""

    is_sqlite: bool
    federations: int
    devices: int
    contributions: int
    newest: float | None
    made: str
    #: The name of a PostgreSQL schema, and the tables there.
    schema: str = ""
    tables: frozenset[str] = frozenset()

    def __str__(self) -> str:
        newest = "" if self.newest is None else f", the newest of {told(self.newest)}"
        made = f"; made {self.made}" if self.made else ""
        return (
            f"{_many(self.federations, 'federation')}, {_many(self.devices, 'device')} and "
            f"{_many(self.contributions, 'contribution')}{newest}{made}"
        )


def told(seconds: float) -> str:
    """Writes a time for people, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def later() -> float:
    """Gives a moment by which a restored federation is a little younger than it was.

    Its revisions count from an earlier number again: for a device that remembers one of them from
    before, the same number must not mean the same sums.
    """
    return random.uniform(1e-5, 1e-3)


def damaged(path: object, why: object) -> BadFile:
    """Makes the refusal of a back-up that can't be read to its end."""
    return BadFile(f"{path} is damaged, or no back-up of a store: {why}")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
