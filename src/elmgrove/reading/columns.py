"""Which columns of a file are wanted, and what a record becomes: values, a time, a label."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Categories, columns_of, features_of, word_of
from elmgrove.errors import BadInput, MissingValue
from elmgrove.reading.cells import (
    LARGEST,
    MISSING,
    boolean,
    is_missing,
    is_number,
    label_of,
    number,
    refusal,
)
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_protocol import Point
from elmgrove.reading.times import Clock, are_dates, are_epochs, is_named_like_a_time


def is_index(name: str, cells: Sequence[Any]) -> bool:
    """Whether a column is the number of each row, as pandas writes it: nobody named it."""
    if name.strip().lower() not in ("", "unnamed: 0"):
        return False
    found = [number(cell) for cell in cells]
    # Of a stream one row is known, and only the first number of all.
    first = found[0] if len(found) > 1 or found[:1] in ([0.0], [1.0]) else None
    return first is not None and found == [first + i for i in range(len(found))]


def is_label(name: str, cells: Sequence[Any]) -> bool:
    """Whether a column is called like a label, and holds 0 and 1, yes and no, or few words.

    >>> is_label("is_anomaly", ["0", "1"]), is_label("is_anomaly", ["0.3"]), is_label("rpm", ["0"])
    (True, False, False)
    """
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    labels = {
        "abnormal", "anomalies", "anomalous", "anomaly", "attack", "class", "fault", "faulty",
        "failure", "label", "labels", "outlier", "target", "truth"
    }  # fmt: skip
    if not (
        words & labels and words - labels <= {"flag", "ground", "has", "is", "machine", "normal"}
    ):
        return False
    found = {cell.strip() if isinstance(cell, str) else cell for cell in cells}
    values = {number(cell) if boolean(cell) is None else 1.0 for cell in found}
    return values <= {-1.0, 0.0, 1.0} or (values == {None} and len(found) <= 8)


def is_time(name: str | None, cells: Sequence[Any]) -> bool:
    if are_dates(cells):
        return True
    return name is not None and is_named_like_a_time(name) and are_epochs(cells)


def warnings_about(names: Sequence[str], rows: NDArray[np.float64]) -> list[str]:
    """Notes on columns of the first rows that may be no sensors, with what to do."""
    # Of fewer rows it may be chance.
    if len(rows) < 5:
        return []
    # What overflows neither counts nor grows by steps that anybody looks at.
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(rows, axis=0)
        whole = (steps[0] != 0.0) & (steps[0] % 1.0 == 0.0)
    counting = whole & np.all(steps == steps[0], axis=0)
    growing: NDArray[np.bool_] = np.all(steps > 0.0, axis=0)
    found = []
    for name, column, counts, grows in zip(names, rows.T, counting, growing, strict=True):
        grows = grows and len(rows) >= 100
        if (grows or counts) and are_epochs(column.tolist()):
            what, way_out = "is a clock (seconds since 1970)", f"--time {name}"
        elif counts:
            what, way_out = f"counts ({column[0]:g}, {column[1]:g}, …)", f"--drop {name}"
        elif grows:
            what, way_out = "only grows: a clock or a counter?", f"--drop {name}"
        else:
            continue
        found.append(f"column {name!r} {what} and is learned as a sensor; if it is none: {way_out}")
    return found


def some_of(names: Sequence[str], most: int = 8) -> str:
    """Names the first of some columns, however many and however long their names.

    >>> some_of(["temp", "flow", "rpm"], 2)
    "'temp', 'flow' and 1 more"
    """
    shown = ", ".join(f"{name!r:.60}" for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


#: The columns of a table, at most: as many as a spreadsheet has.
MOST_COLUMNS = 1 << 14


class Record(NamedTuple):
    """One record of a file: the values in their order, when, and whether anomalous.

    ``point`` is the whole line where that is InfluxDB line protocol.
    """

    values: list[float]
    time: float | None = None
    label: bool | None = None
    beside: Any = None
    point: Point | None = None


class Numbers(NamedTuple):
    """Rows that were read at once, with their lines, times and labels."""

    rows: NDArray[np.float64]
    lines: NDArray[np.int64]
    times: NDArray[np.float64] | None = None
    labels: NDArray[np.bool_] | None = None
    beside: Sequence[Any] = ()


class Header(NamedTuple):
    """The columns of a file: their names, or their numbers from 1, and some of their cells."""

    name: str
    cells: list[str]
    named: bool
    sample: Sequence[Sequence[Any]]

    def column(self, place: int) -> list[Any]:
        """The cells that were looked at of a column, but for missing ones."""
        cells = [row[place] for row in self.sample if place < len(row)]
        return [cell for cell in cells if not is_missing(cell)]

    def places(self, names: Sequence[str], *, optional: bool = False) -> list[int]:
        """Finds columns; ``BadInput`` names those that are not there, unless ``optional``."""
        missing = sorted(set(names) - set(self.cells))
        if missing and not optional and not self.named and not all(map(str.isdecimal, missing)):
            unnamed = "columns have no names without a line of names; use their numbers"
            raise BadInput(f"{self.name}: {unnamed}")
        if missing and not optional:
            more = f" and {len(self.cells) - 50} others" * (len(self.cells) > 50)
            known = f"among {self.cells[:50]}{more}"
            raise BadInput(f"{self.name}: no column {', '.join(map(repr, missing))} {known}")
        many = Counter(self.cells)
        twice = [name for name in names if many[name] > 1]
        if twice:
            raise BadInput(f"{self.name}: more than one column is called {twice[0]!r}")
        first = {name: place for place, name in reversed([*enumerate(self.cells)])}
        return [first[name] for name in names if name in first]

    def describe(self, place: int) -> str:
        return f"column {place + 1}" + (f" ({self.cells[place]!r})" if self.named else "")


class Columns:
    """The columns of a file that are wanted: those of a state (``features``), or all but some.

    ``notes`` are what there is to tell about the choice, and about words that were never learned.
    With ``doubts``, columns that look like a label are not wanted unless they are named.
    """

    def __init__(
        self,
        header: Header,
        layout: Layout,
        features: Sequence[str] | None = None,
        categories: Categories | None = None,
        doubts: bool = True,
    ) -> None:
        if len(header.cells) > MOST_COLUMNS:
            raise BadInput(
                f"{header.name}: {len(header.cells):,} columns, where a table may have "
                f"{MOST_COLUMNS:,}; are rows and columns the wrong way round?"
            )
        self.notes: list[str] = []
        self._doubts = doubts
        self._header, self._layout, self._new = header, layout, features is None
        words = {name: tuple(some) for name, some in (categories or {}).items()}
        #: How many cells a record has, and where time and label are among them.
        self.width = len(header.cells)
        self.time, self.clock = self._find_time({*(features or ()), *words})
        self.label = self._find("label", layout.label)
        self.beside = self._find("beside", layout.beside)
        wanted = columns_of(features, words) if features else None
        #: The cells that are read, in their order.
        self.places = self._wanted(wanted)
        called = [header.cells[place] for place in self.places]
        if wanted is not None and not header.named and len(wanted) == len(called):
            called = wanted
            self.notes.append(
                f"rows have no names: their columns are taken for {some_of(wanted)}, in this "
                "order; if it is another, put a line of names above them"
            )
        if missing := sorted({*words, *layout.categories} - set(called)):
            raise BadInput(f"{header.name}: no column {missing[0]!r} to take categories from")
        #: The words of each column of words.
        self.categories = {name: words[name] for name in called if name in words}
        self._words = [words.get(name) for name in called]
        self._called = called
        self.names = features_of(called, self.categories) if header.named else None
        #: How many values a row has.
        self.count = sum(1 if some is None else len(some) for some in self._words)
        first = [header.column(place)[:1] for place in self.places]
        self._booleans = [bool(cell) and boolean(cell[0]) is not None for cell in first]
        #: Whether all values are numbers as they stand.
        self.plain = not words and not any(self._booleans)
        self.held = Held(layout.hold_rows if layout.missing == "hold" else 0)
        self._unseen: set[str] = set()

    # Which columns

    def _find_time(self, taken: set[str]) -> tuple[int | None, Clock]:
        said, header = self._layout.time, self._header
        if said is not None:
            name, _, form = (said, "", "") if said in header.cells else said.partition("=")
            found = header.places([name], optional="time" in self._layout.remembered)
            return (found[0] if found else None), Clock(form or None)
        taken = taken | {*self._layout.drop, *self._layout.columns, str(self._layout.label)}
        for place, name in enumerate(header.cells):
            if header.named and name in taken:
                continue
            if is_time(name if header.named else None, header.column(place)):
                self.notes.append(
                    f"{header.describe(place)} is the time of each row, and not learned"
                )
                return place, Clock()
        return None, Clock()

    def _find(self, setting: str, name: str | None) -> int | None:
        optional = setting in self._layout.remembered
        places = [] if name is None else self._header.places([name], optional=optional)
        return next(iter(places), None)

    def _wanted(self, wanted: Sequence[str] | None) -> list[int]:
        header, layout = self._header, self._layout
        # Columns of one name can be dropped together.
        many = Counter(header.cells)
        header.places([name for name in layout.drop if many[name] < 2])
        dropped = {*layout.drop}
        aside = {i for i, name in enumerate(header.cells) if name in dropped}
        aside |= set() if self.beside is None else {self.beside}
        if wanted is not None and header.named:
            if learned := sorted({*wanted} & {*layout.drop}):
                raise BadInput(f"{header.name}: {learned[0]!r} was learned and can't be left out")
            return header.places(wanted)
        if layout.columns:
            return [i for i in header.places(layout.columns) if i not in aside]
        aside |= {place for place in (self.time, self.label) if place is not None}
        kept = [i for i in range(self.width) if i not in aside]
        if header.named:
            index = [
                i
                for i in kept
                if many[header.cells[i]] < 2 and is_index(header.cells[i], header.column(i))
            ]
            self.notes += [f"{header.describe(i)} counts the rows, and is left out" for i in index]
            kept = self._without_labels([i for i in kept if i not in index])
            header.places([header.cells[i] for i in kept])
        return kept

    def _without_labels(self, kept: list[int]) -> list[int]:
        header, layout = self._header, self._layout
        found = [
            place
            for place in kept
            if self._doubts
            and header.cells[place] not in layout.categories
            and is_label(header.cells[place], header.column(place))
        ]
        if len(found) == len(kept):
            return kept
        self.notes += [
            f"{header.describe(place)} looks like a label and is left out; --label "
            f"{header.cells[place]} reads it as one, --columns names the columns to learn"
            for place in found
        ]
        return [place for place in kept if place not in found]

    # Records

    def record(self, where: str, cells: Sequence[Any]) -> Record:
        if len(cells) != self.width:
            raise BadInput(f"{where}: expected {self.width} columns, got {len(cells)}")
        time = label = None
        if self.time is not None:
            time = self.clock.read(where, self._header.describe(self.time), cells[self.time])
        if self.label is not None:
            try:
                label = label_of(cells[self.label])
            except ValueError as error:
                raise BadInput(f"{where}, {self._header.describe(self.label)}: {error}") from error
        beside = None
        if self.beside is not None:
            beside = cells[self.beside]
            if self.needs(beside):
                raise BadInput(f"{where}, {self._header.describe(self.beside)}: {MISSING}")
        return Record(self._values(where, cells), time, label, beside)

    def needs(self, beside: Any) -> bool:
        """Whether the cell beside a row is missing, and must not be."""
        return is_missing(beside) and "beside" not in self._layout.remembered

    def _values(self, where: str, cells: Sequence[Any]) -> list[float]:
        if self.plain and self._layout.decimal == ".":
            try:
                values = [float(cells[place]) for place in self.places]
            except (TypeError, ValueError, OverflowError):
                values = [math.nan]
            # Their sum shows in one pass that none is no number. If it is not finite, or if a cell
            # may be something else than a number, each cell is checked.
            readings = math.isfinite(sum(values)) and max(map(abs, values), default=0.0) <= LARGEST
            if readings and not any("_" in str(cell) for cell in cells):
                self.held.saw(values)
                return values
        values = list[float]()
        for index, place in enumerate(self.places):
            values += self._coded(where, index, place, cells[place])
        return self._filled(where, values)

    def _coded(self, where: str, index: int, place: int, cell: Any) -> list[float]:
        """The values that a cell stands for; NaN where they are missing and may be held."""
        words = self._words[index]
        missing = is_missing(cell) and (words is not None or self._layout.missing == "hold")
        if missing and self._layout.missing != "hold":
            raise refusal(where, self._header.describe(place), None)
        if words is not None:
            if missing:
                return [math.nan] * len(words)
            self._note_unseen(self._called[index], word := word_of(cell), words)
            return [float(word == one) for one in words]
        value = math.nan if missing else boolean(cell) if self._booleans[index] else None
        value = number(cell, self._layout.decimal) if value is None else value
        if value is None or not (missing or abs(value) <= LARGEST):
            sample = self._header.column(place)
            # A column that may be learned as words holds no number.
            of_words = self._new and bool(sample) and not any(map(is_number, sample))
            name = self._header.cells[place] if of_words else None
            raise refusal(where, self._header.describe(place), cell, name)
        return [value]

    def _filled(self, where: str, values: list[float]) -> list[float]:
        column = self.held.fill(values)
        if column is None:
            return values
        # A column of words has as many values as it has words.
        sizes = [1 if words is None else len(words) for words in self._words]
        place = np.repeat(self.places, sizes)[column]
        raise MissingValue(f"{where}, {self._header.describe(int(place))}: {MISSING}")

    def _note_unseen(self, name: str, word: str, words: Sequence[str]) -> None:
        if word in words or f"{name}={word}" in self._unseen or len(self._unseen) >= 100:
            return
        self._unseen.add(f"{name}={word}")
        self.notes.append(
            f"the word {name}={word:.60} was never learned: it is none of {list(words)}"
        )


class Held:
    """The last values, which stand in for missing ones in a few rows."""

    def __init__(self, most: int) -> None:
        #: How many values were filled in.
        self.count = 0
        self._most = most
        self._last: Sequence[float] = ()
        self._runs: dict[int, int] = {}

    @property
    def state(self) -> list[Any]:
        """The last values, and for how many rows each was held, as JSON holds it."""
        return [list(self._last), list(self._runs.items())]

    def restore(self, state: Sequence[Any]) -> None:
        self._last, self._runs = state[0], dict(state[1])

    def saw(self, values: Sequence[float]) -> None:
        self._last, self._runs = values, {}

    def fill(self, values: list[float]) -> int | None:
        """Fills in what is NaN; gives the first column whose last value is too old, or None."""
        missing = [index for index, value in enumerate(values) if math.isnan(value)]
        self._runs = {index: self._runs.get(index, 0) + 1 for index in missing}
        for index in missing:
            if not self._last or self._runs[index] > self._most:
                return index
        for index in missing:
            values[index] = self._last[index]
        self.count += len(missing)
        self._last = values
        return None
