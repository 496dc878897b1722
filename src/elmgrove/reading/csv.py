"""Rows from CSV: many lines at once where they are nothing but numbers."""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput
from elmgrove.reading.cells import are_readings, is_decimal_comma, is_number, label_of, plain_name
from elmgrove.reading.columns import Columns, Header
from elmgrove.reading.formats import NOT_TEXT
from elmgrove.reading.layout import Layout
from elmgrove.reading.times import are_dates

Array = NDArray[np.float64]

_DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE)


class Head(NamedTuple):
    """How the cells of a text are separated, and its names or else its first row's cells.

    ``lines`` counts the lines before the first row.
    """

    delimiter: str
    cells: list[str]
    named: bool
    lines: int = 0

    @classmethod
    def of(
        cls, first: Sequence[str], layout: Layout, features: Sequence[str] | None = None
    ) -> Self:
        """Finds the head in the first lines of a text; ``features`` are names that it may hold.

        ``sep=;`` and lines that begin with ``#`` are read past; but of those, the last one holds
        the names if it has as many cells as the row right behind it, and that one has none.
        """
        delimiter, remark, place = layout.delimiter, "", 0
        while place < len(first) and is_read_past(first[place]):
            text = first[place].strip()
            if found := _SEPARATOR.fullmatch(text):
                delimiter = delimiter or found[1]
            remark = text.lstrip("# ") if text else ""
            place += 1
        if place == len(first):
            return cls(delimiter or ",", [], False, place)
        delimiter = delimiter or delimiter_of(first[place], layout.decimal)
        cells = split(first[place], delimiter)
        said = split(remark, delimiter)
        if len(said) != len(cells) or len(said) < 2 or any(map(is_number, said)):
            said = []
        if _is_named(cells, said, layout.decimal, features):
            return cls(delimiter, list(map(plain_name, cells)), True, place + 1)
        return cls(delimiter, list(map(plain_name, said)) or cells, bool(said), place)


def is_read_past(text: str) -> bool:
    """Whether a line holds nothing to be read: blank, ``sep=;``, or a remark."""
    text = text.strip()
    return not text or text.startswith("#") or _SEPARATOR.fullmatch(text) is not None


def delimiter_of(line: str, decimal: str) -> str:
    """Finds what separates the cells of a line."""
    others = [one for one in _DELIMITERS[1:] if one in line]
    for one in others:
        # 1,5;2,5 has as many commas as it has numbers, and one ; less.
        cells = split(line, one)
        if all(is_number(cell) or is_decimal_comma(cell) for cell in cells):
            return one
    if decimal == "," and (others or "," not in line):
        return max(others, key=line.count, default=";")
    # A comma may also stand inside a name.
    return max(reversed(_DELIMITERS), key=line.count)


def split(line: str, delimiter: str) -> list[str]:
    """The cells of a line, without the blanks around them."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error as error:
        raise BadInput(f"{error}; is this a CSV file?") from error


def _is_named(
    cells: list[str], remark: list[str], decimal: str, features: Sequence[str] | None
) -> bool:
    """Whether a first line holds names: no numbers, but for those that pandas gives to columns."""
    numbers = [cell for cell in cells if is_number(cell, decimal) or is_decimal_comma(cell)]
    if not numbers:
        return bool(cells)
    if features and set(features) <= set(cells):
        return True
    # 0, 1, 2, … or 1, 2, 3, …: a row of them is rare, but 1, 2 is more likely one.
    counted = [[str(first + i) for i in range(len(numbers))] for first in (0, 1)]
    if len(numbers) < 3 or numbers not in counted or remark:
        return False
    return not are_dates([cell for cell in cells if cell not in numbers])


#: The cells of a record, or why it has none.
Cells = list[Any] | BadInput
#: Records that are looked at before columns are chosen.
LOOK = 100
#: Bytes that are read at once.
CHUNK = 1 << 22
#: The most bytes of a line.
LONGEST_LINE = 1 << 24
# A quotation mark that is open for more bytes has lost its pair.
_MOST_QUOTED = 1 << 20
_MARK = codecs.BOM_UTF8
_PLAIN = ("utf-8", "utf8", "ascii", "us-ascii")


class Numbers(NamedTuple):
    """Rows that were read at once, with their lines, times and labels."""

    rows: Array
    lines: NDArray[np.int64]
    times: Array | None = None
    labels: NDArray[np.bool_] | None = None
    beside: Sequence[Any] = ()


class TextBlock:
    """Some lines of a CSV file."""

    def __init__(self, name: str, text: bytes, first: int, delimiter: str) -> None:
        self._name, self._text, self._first = name, text, first
        self._delimiter = delimiter

    def numbers(self, columns: Columns, decimal: str) -> Numbers | None:
        """Reads all lines at once; None where that is not sure to be right."""
        data = self._text
        if not columns.plain or b'"' in data or b"\n#" in data or data.startswith(b"#"):
            return None
        if _may_be_too_long(data, self._delimiter.encode()):
            return None
        text = _decoded(self._name, data)
        try:
            rows = self._loaded(text, columns, decimal)
            found = self._beside(text, columns)
        except (ValueError, OverflowError):
            return None
        if not are_readings(rows):
            return None
        return Numbers(rows, self._first + np.arange(len(rows)), *found)

    def _loaded(self, text: str, columns: Columns, decimal: str) -> Array:
        """Reads the numbers; ``ValueError`` where a line has none, or other cells than all."""
        lines, places = text.rstrip("\n").split("\n"), columns.places
        if not text.strip():
            raise ValueError("blank lines only")
        chosen = None if places == list(range(columns.width)) else places
        # Where all are read, NumPy counts them.
        if chosen and any(line.count(self._delimiter) != columns.width - 1 for line in lines):
            raise ValueError("a line with more or fewer cells")
        if decimal != "." != self._delimiter:
            lines = [line.replace(decimal, ".") for line in lines]
        rows = np.loadtxt(lines, delimiter=self._delimiter, comments=None, usecols=chosen, ndmin=2)
        if rows.shape != (len(lines), columns.count):
            raise ValueError("a line without a number")
        return rows

    def _beside(self, text: str, columns: Columns) -> tuple[Any, Any, Sequence[str]]:
        """The times and the labels of lines, and the cells of the column beside."""
        if columns.time is None and columns.label is None and columns.beside is None:
            return None, None, ()
        cells = [line.split(self._delimiter) for line in text.rstrip("\n").split("\n")]
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
        """The cells of each record with the number of its last line; not of blank lines."""
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
    """A CSV file: its header, and its lines in blocks."""

    unit = "line"

    def __init__(
        self, name: str, file: BinaryIO, layout: Layout, features: Sequence[str] | None
    ) -> None:
        self._name, self._file, self._encoding = name, file, layout.encoding
        first = next(self._texts(), b"")
        lines = _decoded(name, first).split("\n")[: 2 * LOOK]
        try:
            self._head = Head.of(lines, layout, features)
        except BadInput as error:
            raise BadInput(f"{name}: {error}") from error
        head = self._head
        self.notes: list[str] = []
        names = head.cells if head.named else [str(i + 1) for i in range(len(head.cells))]
        sample = [cells for block in islice(self.blocks(), 1) for cells in _first_of(block)]
        self.header = Header(name, names, head.named, sample)

    def blocks(self) -> Iterator[TextBlock]:
        """The lines behind the header, many at a time."""
        line, skip = 1, self._head.lines
        for text in self._texts():
            if skip:
                text, line = text.split(b"\n", skip)[-1], line + skip
                skip = 0
            if text:
                yield TextBlock(self._name, text, line, self._head.delimiter)
            line += text.count(b"\n")

    def _texts(self) -> Iterator[bytes]:
        self._file.seek(0)
        return whole_lines(self._name, self._file, self._encoding)


def cells_of(where: str, text: str, delimiter: str) -> list[str]:
    """The cells of a record that is one line; none where it is blank."""
    # An open quotation mark makes the reader ask for a second line.
    reader = csv.reader([text, ""], delimiter=delimiter)
    try:
        cells = next(reader)
    except csv.Error as error:
        raise BadInput(f"{where}: {error}") from error
    if reader.line_num > 1:
        raise BadInput(f"{where}: a quotation mark without its pair")
    return cells if len(cells) > 1 or "".join(cells).strip() else []


def whole_lines(name: str, file: BinaryIO, encoding: str = "utf-8") -> Iterator[bytes]:
    """A text in UTF-8, in pieces that end with a line, each ended by a line feed alone.

    A piece ends outside of quotation marks, unless one seems to have lost its pair.
    """
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
        open_quote = held.count(b'"', 0, end) % 2 and len(held) < CHUNK + _MOST_QUOTED
        if data and end and not open_quote:
            piece, held = held[:end], held[end:]
            yield _line_feeds(piece)
    if held:
        yield _line_feeds(held if held.endswith((b"\n", b"\r")) else held + b"\n")


def _line_feeds(piece: bytes) -> bytes:
    return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece


def _utf_8(name: str, file: BinaryIO, encoding: str) -> Iterator[bytes]:
    if encoding.lower() in _PLAIN:
        first = file.read(CHUNK)
        yield first.removeprefix(_MARK)
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
    starts = range(0, len(data) - step + 1, step)
    return any(
        data.find(delimiter, at, at + step) < 0 and data.find(b"\n", at, at + step) < 0
        for at in starts
    )


def _first_of(block: TextBlock) -> list[list[Any]]:
    first = (cells for _, cells in islice(block.records(), LOOK))
    return [cells for cells in first if not isinstance(cells, BadInput)]
