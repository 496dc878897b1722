"""Numbers that come one by one, each under a name of its own, gathered to rows."""

from collections import Counter
from collections.abc import Collection

from elmgrove.errors import BadInput
from elmgrove.reading import some_of

#: Names that are told apart, at most: who publishes under ever new ones fills no memory.
MOST_NAMES = 1000
# A name is a column if it came so often by the time that one came, or rows were due, once more.
_OFTEN = 2

Value = float | str | None
Row = dict[str, Value]


class Gathering:
    """Makes one row of the newest values of all columns.

    A row is complete when each column has a value again; of one that came twice before that, the
    newer counts. With ``seconds``, there is a row every so many seconds instead, in which a column
    that did not come is missing. Where no ``columns`` are known they are found: those that came
    twice by the time that a name comes a third time, or that a third row is due.
    """

    def __init__(
        self, columns: Collection[str] = (), seconds: float = 0.0, aside: Collection[str] = ()
    ) -> None:
        #: The columns, once they are known; in the order of their names if they were found.
        self.columns: tuple[str, ...] = tuple(columns)
        self._seconds = seconds
        self._aside = frozenset(aside)
        self._came: Counter[str] = Counter()
        self._new: Row = {}
        self._due: float | None = None
        self._turns = 0
        #: What is worth telling.
        self.findings: list[str] = []

    def knows(self, name: str) -> bool:
        """Says whether a value of this name has a place in rows, as far as that is known."""
        return name in self.columns if self.columns else name not in self._aside

    def take(self, name: str, value: Value, now: float) -> list[Row]:
        """Takes a value in; gives the rows that are complete with it, mostly none.

        ``BadInput`` if there are more names than can be told apart.
        """
        if self._seconds and self._due is None:
            self._due = now + self._seconds
        rows = list[Row]()
        if not self.columns:
            self._count(name)
            # What shows the columns is the first value of the row after.
            rows += self._completed()
        if self.knows(name):
            self._new[name] = value
        return rows + self._completed()

    def due(self, now: float) -> Row | None:
        """Gives the row whose time has come; None before that, and where nothing came."""
        if self._due is None or now < self._due:
            return None
        # Rows that nobody waited for, as while the machine slept, are not made up.
        self._due += self._seconds * (1 + (now - self._due) // self._seconds)
        self._turns += 1
        if not self.columns and self._turns > _OFTEN:
            self._settle()
        row = self._taken()
        return row if self.columns and any(value is not None for value in row.values()) else None

    def _completed(self) -> list[Row]:
        whole = bool(self.columns) and not self._seconds and len(self._new) == len(self.columns)
        return [self._taken()] if whole else []

    def _count(self, name: str) -> None:
        """Counts a name while columns are not known: it may show which they are."""
        if name in self._aside:
            return
        if name not in self._came and len(self._came) >= MOST_NAMES:
            raise BadInput(f"more than {MOST_NAMES:,} topics: subscribe to fewer, or name columns")
        self._came[name] += 1
        if self._came[name] > _OFTEN and not self._seconds:
            self._settle()

    def _settle(self) -> None:
        often = sorted(name for name, times in self._came.items() if times >= _OFTEN)
        if not often:
            return
        self.columns = tuple(often)
        self._new = {name: value for name, value in self._new.items() if name in often}
        self.findings.append(f"a row is a value of each of {len(often)} topics: {some_of(often)}")
        rare = sorted(self._came.keys() - {*often})
        if rare:
            self.findings.append(
                f"{some_of(rare)} came only once meanwhile: left out; name columns to wait for them"
            )
        self._came.clear()

    def _taken(self) -> Row:
        row = {name: self._new.get(name) for name in self.columns}
        self._new = {}
        return row | dict.fromkeys(self._aside)
