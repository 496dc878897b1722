"""Tables and rows with names (pandas, Polars, dictionaries) as rows of numbers.

Neither library is imported: what both have in common is used.
"""

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis, Categories, columns_of, features_of, word_of
from elmgrove.algebra.rows import Array, Rows
from elmgrove.errors import BadInput
from elmgrove.reading.cells import boolean
from elmgrove.reading.columns import is_index, is_label, is_time
from elmgrove.reading.times import Clock

log = logging.getLogger("elmgrove")

# A column with more words holds no categories.
_MOST_WORDS = 64


class Frame:
    """A table whose columns have names; its dates are times, and not learned."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.names: list[str] = list(table.columns)
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            raise BadInput(f"more than one column is called {twice[0]!r}")

    @classmethod
    def of(cls, rows: Any) -> "Frame | None":
        """The frame of a table with names; None where rows are something else."""
        if isinstance(rows, np.ndarray | list | tuple):
            return None
        names = getattr(rows, "columns", None)
        if names is None or callable(names) or not hasattr(rows, "__getitem__"):
            return None
        return cls(rows) if all(isinstance(name, str) for name in names) else None

    def times(self, features: Sequence[str] | None = None) -> Array | None:
        """The time of each row, by the index or the first column of times; None without one."""
        index = getattr(self._table, "index", None)
        if index is not None and _is_of_dates(index):
            return _seconds(index)
        names = [name for name in self._times if name not in (features or ())]
        if not names:
            return None
        column = self._table[names[0]]
        return _seconds(column) if _is_of_dates(column) else _read_times(names[0], column)

    def sensors(self, categories: Categories | None = None) -> list[str]:
        """Name the columns that are neither times nor numbers of rows, nor look like a label."""
        aside = {*self._times, *self._counts, *self._labels} - {*(categories or ())}
        return [name for name in self.names if name not in aside]

    def tell_what_is_left_out(self, categories: Sequence[str]) -> None:
        for name in self._labels:
            if name not in categories:
                log.warning(
                    "column %r looks like a label and is left out; if it is a sensor, rename it",
                    name,
                )
        for name in self._times:
            log.info("column %r is the time of each row, and not learned", name)
        for name in self._counts:
            log.info("column %r counts the rows, and is left out", name)

    @cached_property
    def _times(self) -> list[str]:
        return [
            name
            for name in self.names
            if _is_of_dates(self._table[name]) or is_time(name, self._look(name))
        ]

    @cached_property
    def _counts(self) -> list[str]:
        return [name for name in self.names if is_index(name, self._look(name))]

    @cached_property
    def _labels(self) -> list[str]:
        found = [name for name in self.names if is_label(name, self._look(name))]
        others = {*self.names} - {*found, *self._times, *self._counts}
        return found if others else []

    def _look(self, name: str) -> list[Any]:
        return list(np.asarray(self._table[name][:100]).tolist())

    def words(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Find the words that columns hold, in their order."""
        missing = [name for name in columns if name not in self.names]
        if missing:
            raise BadInput(f"no column {missing[0]!r} among {self.names}")
        found = {name: tuple(sorted(set(self._texts(name)))) for name in columns}
        for name, words in found.items():
            if len(words) > _MOST_WORDS:
                raise BadInput(
                    f"column {name!r} has {len(words)} different words, too many for categories"
                )
        return found

    def rows(self, features: Sequence[str], categories: Categories) -> Array:
        """The values of these features, whatever other columns there are."""
        columns = columns_of(features, categories)
        missing = [name for name in columns if name not in self.names]
        if missing:
            raise BadInput(f"expected columns {columns}, got {self.names}")
        parts = list[Array]()
        for name in columns:
            if name in categories:
                texts = np.array(self._texts(name), object)
                parts += [(texts == word).astype(np.float64) for word in categories[name]]
            else:
                parts.append(_numbers(self._table[name]))
        return np.column_stack(parts)

    def way_out(self, categories: Categories) -> str | None:
        """Advice for the first column of texts; None where there is none."""
        for name in self.sensors():
            values = np.asarray(self._table[name]).tolist()
            if name in categories or not all(isinstance(value, str) for value in values):
                continue
            if len(set(values)) <= _MOST_WORDS:
                return f"categories=[{name!r}] reads it as words"
            return f"leave {name!r} out, or if it is a time make it dates (pandas.to_datetime)"
        return None

    def _texts(self, name: str) -> list[str]:
        return [word_of(value) for value in np.asarray(self._table[name]).tolist()]


def rows_with_names(
    rows: Any, categories: Sequence[str]
) -> tuple[Array, tuple[str, ...] | None, dict[str, tuple[str, ...]]]:
    """Check rows that a detector is to be made for; return their names, if any, and words, too."""
    frame, names, words = Frame.of(rows), None, dict[str, tuple[str, ...]]()
    if frame is None and categories:
        raise BadInput("categories are columns of a table with names")
    if frame is not None:
        frame.tell_what_is_left_out(categories)
        words = frame.words(categories)
        names = features_of(frame.sensors(words), words)
        rows = frame.rows(names, words)
    shape = np.asarray(rows).shape
    if len(shape) != 2 or not shape[0]:
        raise BadInput(f"expected rows of columns, got an array of shape {shape}")
    try:
        return Rows(shape[1], names).many(rows)[0], names, words
    except BadInput as error:
        way_out = None if frame is None else frame.way_out(words)
        if way_out is None:
            raise
        raise BadInput(f"{error}; {way_out}") from error


def rows_by_name(basis: Basis, rows: Any) -> Any:
    """The rows of a table with names in the order of the basis; others as they are."""
    frame = Frame.of(rows)
    if frame is None or basis.features is None:
        return rows
    return frame.rows(basis.features, dict(basis.categories))


def row_by_name(basis: Basis, row: Any) -> Any:
    """A row with names (a dictionary, or a row of pandas) in the order of the basis."""
    if not hasattr(row, "keys"):
        return row
    words = dict(basis.categories)
    columns = columns_of(basis.features or (), words)
    if not columns or not set(columns) <= set(row.keys()):
        return row
    cells = list[Any]()
    for name in columns:
        if name in words:
            cells += [float(word_of(row[name]) == word) for word in words[name]]
        else:
            cells.append(row[name])
    return cells


def times_of(rows: Any, features: Sequence[str] | None) -> Array | None:
    """The time of each row of a table, by its index or a column; None where it has none."""
    frame = Frame.of(rows)
    if frame is not None:
        return frame.times(features)
    index = getattr(rows, "index", None)
    # A list has a method of that name.
    return None if index is None or callable(index) or not _is_of_dates(index) else _seconds(index)


def _numbers(column: Any) -> Array:
    """The values of a column as numbers, yes and no as 1 and 0; others are refused as they are."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    found = [boolean(value) for value in values.tolist()]
    return values.astype(object) if None in found else np.array(found, np.float64)


def _read_times(name: str, column: Any) -> Array:
    clock, cells = Clock(), np.asarray(column).tolist()
    where = f"column {name!r}"
    return np.array([clock.read(f"row {row}", where, cell) for row, cell in enumerate(cells)])


def _is_of_dates(column: Any) -> bool:
    dtype = getattr(column, "dtype", None)
    # Polars has types of its own, and gives NumPy's with the values.
    kind = getattr(dtype, "kind", None) or np.asarray(column[:1]).dtype.kind
    return bool(kind == "M")


def _seconds(column: Any) -> Array:
    dates = np.asarray(column, "M8[us]")
    if np.isnat(dates).any():
        raise BadInput(f"row {int(np.isnat(dates).argmax())}: the time is missing")
    seconds: Array = dates.astype(np.int64) / 1e6
    return seconds
