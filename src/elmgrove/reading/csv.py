"""A file of CSV: many lines at once where they are nothing but numbers."""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput
from elmgrove.reading.cells import are_readings, label_of
from elmgrove.reading.columns import Columns, Header, Numbers
from elmgrove.reading.formats import NOT_TEXT
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_reader import Head

#: The cells of a record, or why it has none.
Cells = list[Any] | BadInput
#: Records that are looked at before columns are chosen.
LOOK = 100
#: Bytes that are read at once, and the most of a line.
CHUNK, LONGEST_LINE = 1 << 22, 1 << 24


class TextBlock:
    def __init__(self, name: str, text: bytes, first: int, delimiter: str) -> None:
        self._name, self._text, self._first = name, text, first
        self._delimiter = delimiter

    def numbers(self, columns: Columns, decimal: str) -> Numbers | None:
        data = self._text
        if not columns.plain or b'"' in data or b"\n#" in data or data.startswith(b"#"):
            return None
        if _may_be_too_long(data, self._delimiter.encode()):
            return None
        lines = _decoded(self._name, data).rstrip("\n").split("\n")
        try:
            rows = self._rows(lines, columns, decimal)
            found = self._beside(lines, columns)
        except (ValueError, OverflowError):
            return None
        if not are_readings(rows):
            return None
        return Numbers(rows, self._first + np.arange(len(rows)), *found)

    def _rows(self, lines: list[str], columns: Columns, decimal: str) -> NDArray[np.float64]:
        if not any(map(str.strip, lines)):
            raise ValueError("blank lines only")
        chosen = None if columns.places == list(range(columns.width)) else columns.places
        # Where all are read, NumPy counts them.
        if chosen and any(line.count(self._delimiter) != columns.width - 1 for line in lines):
            raise ValueError("a line with more or fewer cells")
        if decimal != "." != self._delimiter:
            lines = [line.replace(decimal, ".") for line in lines]
        rows = np.loadtxt(lines, delimiter=self._delimiter, comments=None, usecols=chosen, ndmin=2)
        if rows.shape != (len(lines), columns.count):
            raise ValueError("a line without a number")
        return rows

    def _beside(self, lines: list[str], columns: Columns) -> tuple[Any, Any, Sequence[str]]:
        if (columns.time, columns.label, columns.beside) == (None, None, None):
            return None, None, ()
        cells = [line.split(self._delimiter) for line in lines]
        times = labels = None
        if columns.time is not None:
            times = np.array([columns.clock(row[columns.time]) for row in cells], np.float64)
        if columns.label is not None:
            labels = np.array([label_of(row[columns.label]) for row in cells], bool)
        if columns.beside is None:
            return times, labels, ()
        beside = [row[columns.beside] for row in cells]
        if any(map(columns.needs, beside)):
            raise ValueError("a missing value")
        return times, labels, beside

    def records(self) -> Iterator[tuple[int, Cells]]:
        text = io.StringIO(_decoded(self._name, self._text), newline="\n")
        past = ("\n" if line.startswith("#") else line for line in text)
        reader = csv.reader(past, delimiter=self._delimiter)
        while True:
            before = reader.line_num
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                # The reader goes on with the next line; but how many rows were these?
                if reader.line_num > before + 1:
                    raise BadInput(
                        f"{self._name}: {error}; is there a quotation mark without its pair?"
                    ) from error
                line = self._first + before
                yield line, BadInput(f"{self._name}, line {line}: {error}")
            else:
                if len(cells) > 1 or "".join(cells).strip():
                    yield self._first + reader.line_num - 1, cells


class CsvText:
    unit = "line"

    def __init__(
        self, name: str, file: BinaryIO, layout: Layout, features: Sequence[str] | None
    ) -> None:
        self._name, self._file, self._encoding = name, file, layout.encoding
        self.notes: list[str] = []
        first = next(whole_lines(name, file, layout.encoding), b"")
        try:
            head = Head.of(_decoded(name, first).split("\n")[: 2 * LOOK], layout, features)
        except BadInput as error:
            raise BadInput(f"{name}: {error}") from error
        self._head = head
        names = head.cells if head.named else [str(i + 1) for i in range(len(head.cells))]
        records = (one for block in islice(self.blocks(), 1) for one in block.records())
        sample = [cells for _, cells in islice(records, LOOK) if not isinstance(cells, BadInput)]
        self.header = Header(name, names, head.named, sample)

    def blocks(self) -> Iterator[TextBlock]:
        line, skip = 1, self._head.lines
        for text in whole_lines(self._name, self._file, self._encoding):
            if skip:
                text, line = text.split(b"\n", skip)[-1], line + skip
                skip = 0
            if text:
                yield TextBlock(self._name, text, line, self._head.delimiter)
            line += text.count(b"\n")


def whole_lines(name: str, file: BinaryIO, encoding: str = "utf-8") -> Iterator[bytes]:
    """All of a text in UTF-8, in pieces that end with a line, each ended by a line feed alone.

    A piece ends outside of quotation marks, unless one seems to have lost its pair.
    """
    file.seek(0)
    held, chunks = b"", _utf_8(name, file, encoding)
    data = next(chunks, b"")
    while data:
        held, data = held + data, next(chunks, b"")
        # A carriage return at the very end may be half of a line ending.
        end = max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1)) + 1
        if not end and len(held) > LONGEST_LINE:
            raise BadInput(
                f"{name}: a line of more than {LONGEST_LINE >> 20} MB; a table has a row in each"
            )
        # A quotation mark that is open for a megabyte has lost its pair.
        open_quote = held.count(b'"', 0, end) % 2 and len(held) < CHUNK + (1 << 20)
        if data and end and not open_quote:
            piece, held = held[:end], held[end:]
            yield _line_feeds(piece)
    if held:
        yield _line_feeds(held if held.endswith((b"\n", b"\r")) else held + b"\n")


def _line_feeds(piece: bytes) -> bytes:
    return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece


def _utf_8(name: str, file: BinaryIO, encoding: str) -> Iterator[bytes]:
    if encoding.lower() in ("utf-8", "utf8", "ascii", "us-ascii"):
        yield file.read(CHUNK).removeprefix(codecs.BOM_UTF8)
        while data := file.read(CHUNK):
            yield data
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        while data := file.read(CHUNK):
            yield decoder.decode(data).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise BadInput(f"{name}: not text in {encoding}") from error


def _decoded(name: str, text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: {NOT_TEXT}") from error


def _may_be_too_long(data: bytes, delimiter: bytes) -> bool:
    """Whether a cell may be longer than ``csv`` reads: such a cell is all of one of these steps."""
    step = csv.field_size_limit() // 2
    return any(
        data.find(delimiter, at, at + step) < 0 and data.find(b"\n", at, at + step) < 0
        for at in range(0, len(data) - step + 1, step)
    )
