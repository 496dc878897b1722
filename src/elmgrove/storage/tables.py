"""Tables of numbers in CSV and .npy files; an error names the line and column of a bad cell."""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self, TextIO

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput

Array = NDArray[np.float64]
_DELIMITERS = ",;\t"
_NO_NAMES = "{}: columns can't be dropped by name without a line of names"
_WAYS_OUT = "--drop leaves a named column out, --skip-bad a row"
#: The message for a file in another encoding.
NOT_TEXT = "not text in UTF-8; save it as a CSV file in UTF-8"


@dataclass
class Table:
    """Rows of a file, the lines they stand in, and a text for each row that was left out.

    ``lines`` counts from 1 as an editor does (rows of an .npy file count from 0). ``gaps`` are the
    places of rows that do not follow the row before, since one between them was left out.
    """

    names: tuple[str, ...] | None
    rows: Array
    lines: list[int]
    skipped: list[str] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)

    @property
    def stretches(self) -> list[slice]:
        """The places of rows that follow each other."""
        edges = sorted({0, *self.gaps, len(self.rows)})
        return [slice(start, end) for start, end in pairwise(edges)]


def read_table(
    path: Path,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    skip_bad: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Table:
    """Reads all rows of a CSV or .npy file.

    A first line that holds no number at all is a header. ``features`` picks and orders columns
    by name, ``drop`` leaves some out. A bad row is an error, or with ``skip_bad`` left out and
    listed. ``progress`` is told how many characters were read so far.
    """
    if path.suffix.lower() == ".npy":
        return _read_npy(path, drop, skip_bad)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _read_csv(file, path, features, drop, skip_bad, progress)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: {NOT_TEXT}") from error
    except csv.Error as error:
        raise BadInput(f"{path}: {error}; is there a quotation mark without its pair?") from error


def _read_npy(path: Path, drop: Sequence[str], skip_bad: bool) -> Table:
    with path.open("rb") as file:
        try:
            rows = np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:  # a damaged header fails in a dozen ways
            raise BadInput(f"{path}: not a .npy file of numbers ({error})") from error
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise BadInput(f"{path}: expected rows × columns of numbers, not {rows.shape} {rows.dtype}")
    if drop:
        raise BadInput(_NO_NAMES.format(path))
    # What overflows is found right below, and named.
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float64)
    # From the last to the first, so that of several bad cells in a row the first is named.
    bad = dict(np.argwhere(~np.isfinite(rows))[::-1].tolist())
    skipped = [
        f"{path}, row {row}, column {column + 1}: {rows[row, column]} is not a finite number"
        for row, column in reversed(bad.items())
    ]
    if skipped and not skip_bad:
        raise BadInput(f"{skipped[0]}; skip bad rows")
    lines = [row for row in range(len(rows)) if row not in bad]
    gaps = [place for place, (a, b) in enumerate(pairwise(lines), 1) if b > a + 1]
    return Table(None, rows[lines], lines, skipped, gaps)


def _read_csv(
    file: TextIO,
    path: Path,
    features: Sequence[str] | None,
    drop: Sequence[str],
    skip_bad: bool,
    progress: Callable[[int], None] | None,
) -> Table:
    blank, first = 0, file.readline()
    while first and not first.strip():
        blank, first = blank + 1, file.readline()
    head = Head.of(first)
    columns = Columns(str(path), head, features, drop)
    if not head.named:
        file.seek(0)
    table = Table(columns.names, np.empty((0, 0)), [])
    values: list[list[float]] = []
    for line, cells in _records(file, head.delimiter, blank + 1 if head.named else 0, progress):
        try:
            values.append(columns.numbers(f"{path}, line {line}", cells))
            table.lines.append(line)
        except BadInput as error:
            if not skip_bad:
                raise BadInput(f"{error}; {_WAYS_OUT}") from error
            table.skipped.append(str(error))
            table.gaps.append(len(values))
    table.rows = np.array(values, np.float64).reshape(len(values), len(columns.kept))
    return table


def _records(
    file: TextIO, delimiter: str, offset: int, progress: Callable[[int], None] | None
) -> Iterator[tuple[int, list[str]]]:
    """Yields each record with the number of its last line; leaves blank lines out."""
    # The csv module reads by iteration, during which tell() is not allowed: count instead.
    read = 0

    def counted() -> Iterator[str]:
        nonlocal read
        for text in file:
            read += len(text)
            yield text

    reader = csv.reader(counted(), delimiter=delimiter)
    for count, cells in enumerate(reader):
        if progress is not None and count % 256 == 0:
            progress(read)
        if not _blank(cells):
            yield reader.line_num + offset, cells


class Head(NamedTuple):
    """The first line of a file: how its cells are separated, and whether they are names."""

    delimiter: str
    cells: list[str]
    named: bool

    @classmethod
    def of(cls, first: str) -> Self:
        """Reads a first line: one that holds no number at all is a line of names."""
        delimiter = max(_DELIMITERS, key=first.count)
        cells = [cell.strip() for cell in next(csv.reader([first], delimiter=delimiter), [])]
        named = bool(cells) and not any(_number(cell) is not None for cell in cells)
        return cls(delimiter, cells, named)


class Columns:
    """The columns of a file that are wanted, in their order."""

    def __init__(
        self, name: str, head: Head, features: Sequence[str] | None, drop: Sequence[str]
    ) -> None:
        header, named = head.cells, head.named
        if drop and not named:
            raise BadInput(_NO_NAMES.format(name))
        wanted = features if features and named else [c for c in header if c not in drop]
        missing = sorted({*wanted, *drop} - set(header)) if named else []
        if missing:
            raise BadInput(f"{name}: no column {', '.join(map(repr, missing))} among {header}")
        twice = [column for column in wanted if header.count(column) > 1] if named else []
        if twice:
            raise BadInput(f"{name}: more than one column is called {twice[0]!r}")
        self._delimiter = head.delimiter
        self._width = len(header)
        self.kept = [header.index(c) for c in wanted] if named else list(range(self._width))
        self.names = tuple(wanted) if named else None

    def record(self, where: str, text: str) -> list[float] | None:
        """Reads the numbers of a record that is one line; None where the line is blank."""
        # An open quotation mark makes the reader ask for a second line.
        reader = csv.reader([text, ""], delimiter=self._delimiter)
        try:
            cells = next(reader)
        except csv.Error as error:
            raise BadInput(f"{where}: {error}") from error
        if reader.line_num > 1:
            raise BadInput(f"{where}: a quotation mark without its pair")
        return None if _blank(cells) else self.numbers(where, cells)

    def numbers(self, where: str, cells: list[str]) -> list[float]:
        """Reads the wanted cells as numbers; ``where`` names the record in an error."""
        if len(cells) != self._width:
            raise BadInput(f"{where}: expected {self._width} columns, got {len(cells)}")
        try:
            values = [float(cells[index]) for index in self.kept]
        except ValueError:
            values = [math.nan]
        # Their sum shows in one pass that all are finite. If it is not, or if a cell may be
        # something else than a number, each cell is checked.
        if math.isfinite(sum(values)) and not any("_" in cell for cell in cells):
            return values
        return [self._finite(where, index, cells[index]) for index in self.kept]

    def _finite(self, where: str, index: int, cell: str) -> float:
        value = _number(cell)
        if value is not None and math.isfinite(value):
            return value
        name = f" ({self.names[self.kept.index(index)]!r})" if self.names else ""
        what = "the value is missing" if not cell.strip() else f"{cell!r} is not a finite number"
        raise BadInput(f"{where}, column {index + 1}{name}: {what}")


def _blank(cells: list[str]) -> bool:
    return len(cells) < 2 and not "".join(cells).strip()


def _number(cell: str) -> float | None:
    # Python reads 1_000 as a number; in a table that is a name.
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
