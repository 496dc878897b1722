"""Which format the bytes of a file are in."""

import gzip
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput

Array = NDArray[np.float64]
#: Bytes of numbers that are kept in memory.
IN_MEMORY = 1 << 26
# Rows that are handed on at once.
_BLOCK = 1 << 16


def unnamed_file() -> BinaryIO:
    """Makes a file without a name, which is gone when it is closed."""
    return cast(BinaryIO, tempfile.TemporaryFile())


class SpooledRows:
    """Rows × columns of numbers on disk, which give slices as arrays.

    Whatever is done with them block by block needs little memory, however many they are.
    """

    def __init__(self, file: BinaryIO, shape: tuple[int, int]) -> None:
        self._file = file
        weakref.finalize(self, file.close)
        self.shape = shape
        self.dtype = np.dtype(np.float64)
        self.ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, end, step = rows.indices(len(self))
        found = np.empty((max(end - start, 0), self.shape[1]))
        if found.size and step == 1:
            self._file.seek(start * self.shape[1] * found.itemsize)
            cast(Any, self._file).readinto(found.data.cast("B"))
        elif found.size:
            raise ValueError("rows on disk are read in slices without a step")
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


#: The rows of a table.
StoredRows = Array | SpooledRows


def blocks_of(rows: StoredRows, size: int = _BLOCK) -> Iterator[Array]:
    """Rows block by block."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


class Spool:
    """Takes rows block by block, and gives all of them."""

    def __init__(self, columns: int) -> None:
        self.count = 0
        self._columns = columns
        self._blocks: list[Array] = []
        self._bytes = 0
        self._file: BinaryIO | None = None

    def add(self, rows: Array) -> None:
        """Takes in rows."""
        if not len(rows):
            return
        self.count += len(rows)
        self._blocks.append(np.ascontiguousarray(rows))
        self._bytes += rows.nbytes
        if self._file is None and self._bytes > IN_MEMORY:
            self._file = unnamed_file()
        if self._file is not None:
            self._write()

    def rows(self) -> StoredRows:
        """All rows that were taken in."""
        if self._file is not None:
            self._file.flush()
            return SpooledRows(self._file, (self.count, self._columns))
        return np.concatenate([np.empty((0, self._columns)), *self._blocks])

    def _write(self) -> None:
        assert self._file is not None
        for block in self._blocks:
            self._file.write(block.data.cast("B"))
        self._blocks = []


#: Where rows come from standard input.
STANDARD_INPUT = "-"
#: What a file of rows can be: lines of values,
TEXT = "text"
#: an object of JSON in each line,
JSON_LINES = "JSON lines"
#: an array of NumPy,
NPY = ".npy"
#: or a table of Apache Parquet.
PARQUET = "Parquet"
#: The message for a file in another encoding.
NOT_TEXT = "not text in UTF-8; --encoding latin-1 or cp1252 reads it, or save it in UTF-8"
# How much of a file is looked at.
_LOOK = 512
_GZIP = b"\x1f\x8b"
_READ = {b"\x93NUMPY": NPY, b"PAR1": PARQUET}
_NAMED = {
    b"\xd0\xcf\x11\xe0": "this is an Excel workbook; save it as CSV (UTF-8)",
    b"BZh": "this is bzip2; unpack it (bunzip2), or pack it with gzip",
    b"\xfd7zXZ": "this is xz; unpack it (unxz), or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "this is Zstandard; unpack it (unzstd), or pack it with gzip",
    b"\x89HDF": "this is HDF5; save its table as CSV, .npy or Parquet",
    b"ARROW1": "this is an Arrow file; save its table as Parquet or CSV",
    b"SQLite format 3": "this is an SQLite data base; export a table of it as CSV",
    b"%PDF": "this is a PDF document; its table must come as CSV",
}
# What the archive of a workbook begins with.
_WORKBOOK = (b"[Content_Types]", b"xl/", b"_rels", b"docProps")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_MARK = b"\xef\xbb\xbf"


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
        if _look(raw).startswith(_GZIP):
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw))
        try:
            said = NPY if name.lower().endswith(".npy") and file is raw else None
            yield Opened(name, file, said or format_of(name, _look(file), encoding), raw.tell)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadInput(f"{name}: this is gzip, but damaged or cut short ({error})") from error


def format_of(name: str, first: bytes, encoding: str = "utf-8") -> str:
    """Detect the format of a file by its first bytes; ``BadInput`` names what is not read."""
    for magic, found in _READ.items():
        if first.startswith(magic):
            return found
    if first.startswith(b"PK\x03\x04"):
        if any(mark in first for mark in _WORKBOOK):
            raise BadInput(f"{name}: this is an Excel workbook; save it as CSV (UTF-8)")
        raise BadInput(f"{name}: this is a zip archive; unpack it")
    for magic, message in _NAMED.items():
        if first.startswith(magic):
            raise BadInput(f"{name}: {message}")
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8", "ascii")
    if plain and first.startswith(_UTF_16):
        raise BadInput(f"{name}: this is text in UTF-16, not text in UTF-8; --encoding utf-16")
    if plain and (order := _utf_16_order(first)):
        raise BadInput(f"{name}: this is text in UTF-16, without a mark; --encoding utf-16-{order}")
    text = first.removeprefix(_MARK) if plain else first.decode(encoding, "ignore").encode()
    return format_of_text(name, text.lstrip()[:1])


def _utf_16_order(first: bytes) -> str | None:
    """Which end comes first in a text of two bytes a character, of which one is 0; or None."""
    even, odd = first[::2], first[1::2]
    for order, zeros, letters in (("le", odd, even), ("be", even, odd)):
        # A line that was cut behind its line feed lacks half of it.
        if len(zeros) > 1 and 0 not in letters and zeros.count(0) >= len(zeros) - 1:
            return order
    return None


def format_of_text(name: str, first: bytes) -> str:
    """Detect the format of a text by its first character that is not blank."""
    if first == b"<":
        raise BadInput(f"{name}: this is XML or HTML; save its table as CSV")
    return JSON_LINES if first == b"{" else TEXT


def _look(file: BinaryIO) -> bytes:
    first = file.read(_LOOK)
    file.seek(0)
    return first


def _seekable(source: BinaryIO) -> BinaryIO:
    """The file itself, or a pipe's content in a file without a name: it is read twice."""
    if source is not sys.stdin.buffer and source.seekable():
        return source
    file = unnamed_file()
    shutil.copyfileobj(source, file)
    file.seek(0)
    return file
