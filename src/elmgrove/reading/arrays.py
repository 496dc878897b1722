"""Rows from files of numbers: NumPy's own format, and Parquet."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput, require_extra, require_time
from elmgrove.reading.cells import are_readings, plain_name
from elmgrove.reading.columns import Columns, Header
from elmgrove.reading.csv import LOOK, Numbers
from elmgrove.reading.formats import NPY, PARQUET, opened

# Rows that are read at once.
_BLOCK = 1 << 16


class ArrayBlock:
    """Some rows of a .npy file, whose columns have numbers for names."""

    def __init__(self, rows: NDArray[Any], first: int) -> None:
        self._rows, self._first = rows, first

    def numbers(self, columns: Columns, decimal: str) -> Numbers | None:
        """All rows at once; None if any is not finite, or has a time or a label."""
        beside = (columns.time, columns.label, columns.beside) != (None, None, None)
        # What overflows is found right below, and named.
        with np.errstate(over="ignore"):
            rows = self._rows[:, columns.places].astype(np.float64)
        if beside or not columns.plain or not are_readings(rows):
            return None
        return Numbers(rows, self._first + np.arange(len(rows)))

    def records(self) -> Iterator[tuple[int, list[Any]]]:
        """The values of each row with its number, from 0."""
        with np.errstate(over="ignore"):
            return enumerate(self._rows.astype(np.float64).tolist(), self._first)


class NpyArray:
    """A .npy file of rows × columns."""

    unit = "row"

    def __init__(self, name: str, file: BinaryIO) -> None:
        self._name, self._file = name, file
        self.notes: list[str] = []
        try:
            shape, self._turned, self._dtype = _npy_header(file)
        except Exception as error:  # a damaged header fails in a dozen ways
            raise BadInput(f"{name}: not a .npy file of numbers ({error})") from error
        if len(shape) != 2 or self._dtype.kind not in "fiub":
            raise BadInput(f"{name}: expected rows × columns of numbers, not {shape} {self._dtype}")
        self._count, self._width = shape
        self._start = file.tell()
        names = [str(i + 1) for i in range(self._width)]
        self.header = Header(name, names, False, [])

    def blocks(self) -> Iterator[ArrayBlock]:
        """The rows, many at a time."""
        self._file.seek(self._start)
        if self._turned:
            whole = self._read(self._count * self._width).reshape(self._width, -1).T
            yield ArrayBlock(whole, 0)
            return
        for first in range(0, self._count, _BLOCK):
            count = min(_BLOCK, self._count - first)
            yield ArrayBlock(self._read(count * self._width).reshape(count, -1), first)

    def _read(self, values: int) -> NDArray[Any]:
        data = self._file.read(values * self._dtype.itemsize)
        if len(data) < values * self._dtype.itemsize:
            raise BadInput(f"{self._name}: not a .npy file of numbers (its end is missing)")
        return np.frombuffer(data, self._dtype)


def _npy_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, turned, dtype = read(file)
    if dtype.hasobject or any(isinstance(n, bool) or n < 0 for n in shape):
        raise ValueError(f"no numbers in {shape} of {dtype}")
    return shape, turned, dtype


class ParquetBlock:
    """Some rows of a Parquet file."""

    def __init__(self, batch: Any, first: int) -> None:
        self._columns, self._first = [_in_microseconds(one) for one in batch.columns], first

    def numbers(self, columns: Columns, decimal: str) -> Numbers | None:
        """All rows at once; None where a value is missing, or no number."""
        read = [self._columns[place] for place in columns.places]
        types = require_extra("pyarrow", "parquet").types
        numeric = all(types.is_integer(one.type) or types.is_floating(one.type) for one in read)
        beside = (columns.label, columns.beside) != (None, None)
        if beside or not columns.plain or not numeric:
            return None
        times = None if columns.time is None else self._times(columns.time)
        if (columns.time is not None and times is None) or any(one.null_count for one in read):
            return None
        rows = np.empty((len(self._columns[0]), len(read)))
        for column, one in enumerate(read):
            rows[:, column] = one.to_numpy(zero_copy_only=False)
        if not are_readings(rows):
            return None
        return Numbers(rows, self._first + np.arange(len(rows)), times)

    def _times(self, place: int) -> NDArray[np.float64] | None:
        column = self._columns[place]
        pyarrow = require_extra("pyarrow", "parquet")
        if not pyarrow.types.is_timestamp(column.type) or column.null_count:
            return None
        times: NDArray[np.float64] = column.cast(pyarrow.int64()).to_numpy() / 1e6
        try:
            for time in (times.min(), times.max()) if len(times) else ():
                require_time(float(time))
        except BadInput:
            return None  # record by record: each row that is bad is named
        return times

    def records(self) -> Iterator[tuple[int, list[Any]]]:
        """The cells of each row with its number, from 0."""
        columns = [_cells(column) for column in self._columns]
        return enumerate(map(list, zip(*columns, strict=True)), self._first)


def _cells(column: Any) -> list[Any]:
    """The cells as Python has them; a time that ``datetime`` can't tell as NumPy has it."""
    try:
        cells: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return [_cell(one) for one in column]
    return cells


def _cell(one: Any) -> Any:
    try:
        return one.as_py()
    except (OverflowError, ValueError):
        return np.datetime64(one.value, "us")


def _in_microseconds(column: Any) -> Any:
    """A column; a time in the unit that Python has, whatever unit the file has."""
    pyarrow = require_extra("pyarrow", "parquet")
    if not pyarrow.types.is_timestamp(column.type):
        return column
    return column.cast(pyarrow.timestamp("us", tz=column.type.tz), safe=False)


class ParquetTable:
    """A Parquet file; pandas' index is a column of it like any other."""

    unit = "row"

    def __init__(self, name: str, file: BinaryIO) -> None:
        parquet = require_extra("pyarrow.parquet", "parquet")
        self.notes: list[str] = []
        try:
            self._file = parquet.ParquetFile(file)
        except Exception as error:  # pyarrow has a dozen errors for a damaged file
            raise BadInput(f"{name}: a damaged Parquet file ({error})") from error
        names: Sequence[str] = self._file.schema_arrow.names
        # pandas calls an index without a name so.
        names = ["" if one.startswith("__index_level_") else plain_name(one) for one in names]
        sample = [cells for block in self._few() for _, cells in block.records()]
        self.header = Header(name, names, True, sample)

    def blocks(self, size: int = _BLOCK) -> Iterator[ParquetBlock]:
        """The rows, many at a time."""
        first = 0
        for batch in self._file.iter_batches(batch_size=size):
            yield ParquetBlock(batch, first)
            first += batch.num_rows

    def _few(self) -> Iterator[ParquetBlock]:
        for block in self.blocks(LOOK):
            yield block
            return


@contextmanager
def opened_table(path: Path, encoding: str = "utf-8") -> Iterator[NpyArray | ParquetTable | None]:
    """Opens a file that has no lines; gives None where it is text, in this encoding."""
    with opened(path, encoding) as file:
        if file.format == NPY:
            yield NpyArray(file.name, file.file)
        else:
            yield ParquetTable(file.name, file.file) if file.format == PARQUET else None
