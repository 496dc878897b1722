"""The tables in a figure's numbers, for a screen or a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
#: From here on a value is written without digits after the point.
_LARGE = 1000.0
#: Characters of a screen: between two columns, and of a cell that is not broken yet.
_GAP, _WIDE = 2, 32


@dataclass(frozen=True)
class Grid:
    """Rows by their names; columns are those of any row, in the order in which they come up."""

    title: str
    rows: dict[str, Row]

    @property
    def columns(self) -> list[str]:
        """The keys of all rows."""
        return list(dict.fromkeys(key for row in self.rows.values() for key in row))

    def lines(self) -> Iterator[list[str]]:
        """Gives each row's name and cells as text; empty where a row has no such value."""
        for name, row in self.rows.items():
            yield [text(name), *(text(row.get(column)) for column in self.columns)]

    @property
    def widths(self) -> list[int]:
        """How wide names and columns are on a screen, where long lines are broken between words."""
        names, *cells = zip(*self.lines(), strict=True)
        return [_width(names), *(_width(*pair) for pair in zip(cells, self.columns, strict=True))]

    def fitting(self, width: int) -> Iterator["Grid"]:
        """Splits the columns over as many tables as it takes for each to be so wide at most.

        A table has at least one column. Rows that have no value in a part are left out of it.
        """
        names, *widths = (one + _GAP for one in self.widths)
        taken, free = list[str](), width - names
        for column, needed in zip(self.columns, widths, strict=True):
            if taken and needed > free:
                yield self._only(taken)
                taken, free = [], width - names
            taken.append(column)
            free -= needed
        yield self._only(taken)

    def _only(self, columns: Sequence[str]) -> "Grid":
        rows = {
            name: {column: row[column] for column in columns if column in row}
            for name, row in self.rows.items()
        }
        return Grid(self.title, {name: row for name, row in rows.items() if row})


def grids(found: Mapping[str, Any]) -> Iterator[Grid]:
    """Makes a table for each part of the numbers; single values, if there are any, come last."""
    for title, part in found.items():
        if not _plain(part):
            yield Grid(text(title), dict(_rows(part, "")))
    single = {key: value for key, value in found.items() if _plain(value)}
    if single:
        yield Grid("", {"": single})


def text(value: Any) -> str:
    """Writes a value as people read it: four digits where it is not a whole number."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(text, value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value).replace("_", " ")
    whole = isinstance(value, int) or abs(value) >= _LARGE
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def _rows(part: Any, name: str) -> Iterator[tuple[str, Row]]:
    """What has values is a row, and small parts of it are columns; what has none is a level."""
    items = dict(enumerate(part, 1)) if isinstance(part, list) else part
    row = {str(key): value for key, value in items.items() if _plain(value)}
    below = {key: value for key, value in items.items() if not _plain(value)}
    if row:
        for key in [key for key, value in below.items() if _small(value)]:
            row |= {f"{key} {inner}": value for inner, value in below.pop(key).items()}
        yield name, row
    for key, value in below.items():
        yield from _rows(value, f"{name}, {key}" if name else str(key))


def _width(cells: Sequence[str], heading: str = "") -> int:
    """As wide as the widest cell, up to a limit; but no word is broken."""
    word = max(len(word) for cell in (*cells, text(heading)) for word in cell.split() or [""])
    return max(word, min(_WIDE, max(map(len, cells))))


def _plain(value: Any) -> bool:
    """No part with values of its own; a list of values is one value."""
    if isinstance(value, list):
        return all(map(_plain, value))
    return not isinstance(value, dict)


def _small(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_plain, value.values()))
