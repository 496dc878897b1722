"""What a file of rows is, by its bytes; and those that are no text: NumPy's own format, Parquet."""

import gzip
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput, require_extra, require_time
from elmgrove.reading.cells import are_readings, plain_name
from elmgrove.reading.columns import Columns, Header, Numbers

#: Where rows come from standard input.
STANDARD_INPUT = "-"
#: What a file can be, but for text.
JSON_LINES, NPY, PARQUET = "JSON lines", ".npy", "Parquet"
#: The message for a file in another encoding.
NOT_TEXT = "not text in UTF-8; --encoding latin-1 or cp1252 reads it, or save it in UTF-8"
GZIP = b"\x1f\x8b"
_REFUSED = {
    b"\xd0\xcf\x11\xe0": "this is an Excel workbook; save it as CSV (UTF-8)",
    b"BZh": "this is bzip2; unpack it (bunzip2), or pack it with gzip",
    b"\xfd7zXZ": "this is xz; unpack it (unxz), or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "this is Zstandard; unpack it (unzstd), or pack it with gzip",
    b"\x89HDF": "this is HDF5; save its table as CSV, .npy or Parquet",
    b"ARROW1": "this is an Arrow file; save its table as Parquet or CSV",
    b"SQLite format 3": "this is an SQLite data base; export a table of it as CSV",
    b"%PDF": "this is a PDF document; its table must come as CSV",
}


class Opened(NamedTuple):
    """A file of rows that is open: its name for messages, what it is, and how far it was read."""

    name: str
    file: BinaryIO
    format: str
    position: Callable[[], int]


@contextmanager
def opened(where: Path | str, encoding: str = "utf-8") -> Iterator[Opened]:
    """Opens a file, packed or not, or standard input (``-``); ``BadInput`` names another format."""
    standard = str(where) == STANDARD_INPUT
    name = "standard input" if standard else str(where)
    with _seekable(sys.stdin.buffer if standard else Path(where).open("rb")) as raw:
        file = raw
        if _first(raw).startswith(GZIP):
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw))
        try:
            said = NPY if name.lower().endswith(".npy") and file is raw else None
            yield Opened(name, file, said or format_of(name, _first(file), encoding), raw.tell)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadInput(f"{name}: this is gzip, but damaged or cut short ({error})") from error


def format_of(name: str, first: bytes, encoding: str = "utf-8") -> str:
    """Detect the format of a file by its first bytes; ``BadInput`` names what is not read."""
    if first.startswith(b"\x93NUMPY"):
        return NPY
    if first.startswith(b"PAR1"):
        return PARQUET
    if first.startswith(b"PK\x03\x04"):
        if any(mark in first for mark in (b"[Content_Types]", b"xl/", b"_rels", b"docProps")):
            raise BadInput(f"{name}: this is an Excel workbook; save it as CSV (UTF-8)")
        raise BadInput(f"{name}: this is a zip archive; unpack it")
    for magic, message in _REFUSED.items():
        if first.startswith(magic):
            raise BadInput(f"{name}: {message}")
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8", "ascii")
    if plain and first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(f"{name}: this is text in UTF-16, not text in UTF-8; --encoding utf-16")
    if plain and b"\0" in first[:2]:
        order = "le" if first[:1] != b"\0" else "be"
        raise BadInput(f"{name}: this is text in UTF-16, without a mark; --encoding utf-16-{order}")
    return format_of_text(name, first.decode("utf-8-sig" if plain else encoding, "ignore"))


def format_of_text(name: str, text: str) -> str:
    """Detect the format of a text by its first character that is not blank."""
    text = text.lstrip()
    if text.startswith("<"):
        raise BadInput(f"{name}: this is XML or HTML; save its table as CSV")
    return JSON_LINES if text.startswith("{") else "text"


def _first(file: BinaryIO) -> bytes:
    first = file.read(512)
    file.seek(0)
    return first


def _seekable(source: BinaryIO) -> BinaryIO:
    """The file itself, or a pipe's content in a file without a name: it is read twice."""
    if source is not sys.stdin.buffer and source.seekable():
        return source
    file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (the caller closes it)
    shutil.copyfileobj(source, file)
    file.seek(0)
    return file


class ArrayBlock:
    def __init__(self, columns: Sequence[NDArray[Any]] | NDArray[Any], first: int) -> None:
        self._columns, self._first = columns, first

    def numbers(self, columns: Columns, decimal: str) -> Numbers | None:
        read = [self._columns[place] for place in columns.places]
        beside = (columns.label, columns.beside) != (None, None)
        if beside or not columns.plain or any(one.dtype.kind not in "fiu" for one in read):
            return None
        rows = np.empty((len(self._columns[0]) if len(self._columns) else 0, len(read)))
        # What overflows is found right below, and named.
        with np.errstate(over="ignore"):
            for place, column in enumerate(read):
                rows[:, place] = column
        times = None if columns.time is None else _times(self._columns[columns.time])
        if not are_readings(rows) or (columns.time is not None and times is None):
            return None
        return Numbers(rows, self._first + np.arange(len(rows)), times)

    def records(self) -> Iterator[tuple[int, list[Any]]]:
        # A time stays NumPy's: not all that it can tell are times of Python.
        cells = [list(one) if one.dtype.kind == "M" else one.tolist() for one in self._columns]
        return enumerate(map(list, zip(*cells, strict=True)), self._first)


def _times(column: NDArray[Any]) -> NDArray[np.float64] | None:
    if column.dtype.kind != "M" or np.isnat(column).any():
        return None
    times: NDArray[np.float64] = column.astype("M8[us]").astype(np.int64) / 1e6
    try:
        for time in (times.min(), times.max()) if len(times) else ():
            require_time(float(time))
    except BadInput:
        return None  # record by record: each row that is bad is named
    return times


# Rows that are read at once.
_BLOCK = 1 << 16


class NpyArray:
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
        self.header = Header(name, [str(i + 1) for i in range(self._width)], False, [])

    def blocks(self) -> Iterator[ArrayBlock]:
        self._file.seek(self._start)
        if self._turned:
            whole = self._read(self._count * self._width)
            yield ArrayBlock(whole.reshape(self._width, -1), 0)
            return
        for first in range(0, self._count, _BLOCK):
            count = min(_BLOCK, self._count - first)
            yield ArrayBlock(self._read(count * self._width).reshape(count, -1).T, first)

    def _read(self, values: int) -> NDArray[np.float64]:
        data = self._file.read(values * self._dtype.itemsize)
        if len(data) < values * self._dtype.itemsize:
            raise BadInput(f"{self._name}: not a .npy file of numbers (its end is missing)")
        with np.errstate(over="ignore"):
            return np.frombuffer(data, self._dtype).astype(np.float64)


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


class ParquetTable:
    """A Parquet file; pandas' index is a column of it like any other."""

    unit = "row"

    def __init__(self, name: str, file: BinaryIO) -> None:
        parquet = require_extra("pyarrow.parquet", "parquet")
        self._pyarrow = require_extra("pyarrow", "parquet")
        self.notes: list[str] = []
        try:
            self._file = parquet.ParquetFile(file)
        except Exception as error:  # pyarrow has a dozen errors for a damaged file
            raise BadInput(f"{name}: a damaged Parquet file ({error})") from error
        names: Sequence[str] = self._file.schema_arrow.names
        # pandas calls an index without a name so.
        names = ["" if one.startswith("__index_level_") else plain_name(one) for one in names]
        sample = [cells for block in islice(self.blocks(100), 1) for _, cells in block.records()]
        self.header = Header(name, names, True, sample)

    def blocks(self, size: int = _BLOCK) -> Iterator[ArrayBlock]:
        first = 0
        for batch in self._file.iter_batches(batch_size=size):
            yield ArrayBlock([self._column(one) for one in batch.columns], first)
            first += batch.num_rows

    def _column(self, column: Any) -> NDArray[Any]:
        """A column as an array; a time in microseconds, whatever unit the file has."""
        if self._pyarrow.types.is_timestamp(column.type):
            column = column.cast(self._pyarrow.timestamp("us", tz=column.type.tz), safe=False)
        found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return found
