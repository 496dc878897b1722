"""Rows from CSV and .npy files, with every bad cell named by line and column."""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput

Array = NDArray[np.float64]
_DELIMITERS = ",;\t"
_NO_NAMES = "{}: columns can't be dropped by name without a line of names"


@dataclass
class Table:
    """Rows, where they stand in their file, and what was left out of them.

    ``lines`` counts from 1 as an editor does (rows of an .npy file count from 0).
    """

    names: tuple[str, ...] | None
    rows: Array
    lines: list[int]
    skipped: list[str] = field(default_factory=list)


def read_table(
    path: Path,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    skip_bad: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Table:
    """All rows of a file.

    A first line that holds no number at all is a header. ``features`` picks and orders columns
    by name, ``drop`` leaves some out. A bad row is an error, or with ``skip_bad`` left out and
    listed. ``progress`` hears how many characters were read so far.
    """
    if path.suffix.lower() == ".npy":
        return _read_npy(path, drop, skip_bad)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _read_csv(file, path, features, drop, skip_bad, progress)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not text in UTF-8; save it as a CSV file in UTF-8") from error
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
    return Table(None, rows[lines], lines, skipped)


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
    delimiter = max(_DELIMITERS, key=first.count)
    header = next(csv.reader([first], delimiter=delimiter), [])
    has_names = bool(header) and not any(_number(cell) is not None for cell in header)
    columns = _Columns(path, [cell.strip() for cell in header], has_names, features, drop)
    if not has_names:
        file.seek(0)
    table = Table(columns.names, np.empty((0, 0)), [])
    values: list[list[float]] = []
    for line, cells in _records(file, delimiter, blank + 1 if has_names else 0, progress):
        try:
            values.append(columns.numbers(line, cells))
            table.lines.append(line)
        except BadInput as error:
            if not skip_bad:
                raise
            table.skipped.append(str(error))
    table.rows = np.array(values, np.float64).reshape(len(values), len(columns.kept))
    return table


def _records(
    file: TextIO, delimiter: str, offset: int, progress: Callable[[int], None] | None
) -> Iterator[tuple[int, list[str]]]:
    """Each record with the number of its last line; blank lines are passed over."""
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
        if "".join(cells).strip() or len(cells) > 1:
            yield reader.line_num + offset, cells


class _Columns:
    """Which columns of a file are wanted, in which order."""

    def __init__(
        self,
        path: Path,
        header: list[str],
        has_names: bool,
        features: Sequence[str] | None,
        drop: Sequence[str],
    ) -> None:
        if drop and not has_names:
            raise BadInput(_NO_NAMES.format(path))
        wanted = features if features and has_names else [c for c in header if c not in drop]
        missing = sorted({*wanted, *drop} - set(header)) if has_names else []
        if missing:
            raise BadInput(f"{path}: no column {', '.join(map(repr, missing))} among {header}")
        twice = [name for name in wanted if header.count(name) > 1] if has_names else []
        if twice:
            raise BadInput(f"{path}: more than one column is called {twice[0]!r}")
        self._path = path
        self._width = len(header)
        self.kept = [header.index(c) for c in wanted] if has_names else list(range(self._width))
        self.names = tuple(wanted) if has_names else None

    def numbers(self, line: int, cells: list[str]) -> list[float]:
        if len(cells) != self._width:
            raise BadInput(
                f"{self._path}, line {line}: expected {self._width} columns, got {len(cells)}"
            )
        return [self._number(line, index, cells[index]) for index in self.kept]

    def _number(self, line: int, index: int, cell: str) -> float:
        value = _number(cell)
        if value is not None and math.isfinite(value):
            return value
        name = f" ({self.names[self.kept.index(index)]!r})" if self.names else ""
        what = "the value is missing" if not cell.strip() else f"{cell!r} is not a finite number"
        raise BadInput(
            f"{self._path}, line {line}, column {index + 1}{name}: {what}; "
            "--drop leaves a named column out, --skip-bad a row"
        )


def _number(cell: str) -> float | None:
    # Python reads 1_000 as a number; in a table that is a name.
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
