"""A file as a table: its rows with their lines, times and labels, and notes on it."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Categories, columns_of, word_of
from elmgrove.errors import BadInput, MissingValue
from elmgrove.reading.cells import is_missing
from elmgrove.reading.columns import Columns, Header, Numbers, warnings_about
from elmgrove.reading.csv import LOOK, Cells, CsvText, TextBlock, whole_lines
from elmgrove.reading.formats import (
    JSON_LINES,
    NOT_TEXT,
    NPY,
    PARQUET,
    ArrayBlock,
    NpyArray,
    Opened,
    ParquetTable,
    opened,
)
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_protocol import Measurement
from elmgrove.reading.line_reader import json_object
from elmgrove.reading.times import Clock, first_back, gaps_in, usual_interval


def read_label_spans(said: str) -> list[tuple[float, float]]:
    """Reads the spans in which something was wrong: begin and end, in the first two columns.

    ``said`` is a CSV file, or ``FILE=FORMAT`` (as for ``strptime``). A first line without times
    holds names; further columns are not looked at.
    """
    name, _, form = (said, "", "") if Path(said).exists() else said.partition("=")
    clock, spans = Clock(form or None), list[tuple[float, float]]()
    try:
        with Path(name).open(encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file))
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: {NOT_TEXT}") from error
    except csv.Error as error:
        raise BadInput(f"{name}: this is no CSV ({error})") from error
    for number, cells in enumerate(lines, 1):
        text = "".join(cells).strip()
        # A first line without a digit holds names.
        if not text or (number == 1 and not any(map(str.isdecimal, text))):
            continue
        try:
            begin, end = map(clock, cells[:2])
        except (ValueError, OverflowError) as error:
            raise BadInput(
                f"{name}, line {number}: {cells[:2]} are no begin and end; FILE=FORMAT says how "
                "times are written, like labels.csv=%m/%d/%Y %H:%M"
            ) from error
        if end < begin:
            raise BadInput(f"{name}, line {number}: ends before it begins")
        spans.append((begin, end))
    return spans


def within(times: NDArray[np.float64], spans: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Whether each time is in one of the spans, to which both ends belong.

    >>> within(np.array([1.0, 2.0, 5.0]), [(2.0, 3.0), (5.0, 9.0)]).tolist()
    [False, True, True]
    """
    found = np.zeros(len(times), bool)
    for begin, end in spans:
        found |= (times >= begin) & (times <= end)
    return found


class _Objects(NamedTuple):
    found: Iterator[tuple[int, Cells]]

    def numbers(self, columns: Columns, decimal: str) -> Numbers | None:
        return None

    def records(self) -> Iterator[tuple[int, Cells]]:
        return self.found


class ObjectText:
    """A file of objects, one a line: its first objects' keys are the columns.

    ``read`` makes an object of a line; None where it is none and need not be.
    """

    unit = "line"

    def __init__(
        self,
        name: str,
        file: BinaryIO,
        layout: Layout,
        read: Callable[[str, str | bytes], dict[str, Any] | None],
    ) -> None:
        self._name, self._file, self._encoding = name, file, layout.encoding
        self._read = read
        self.notes: list[str] = []
        every = (one for _, one in self._objects(next(self._texts(), b""), 1))
        found, bad = list[dict[str, Any]](), list[BadInput]()
        while len(found) < LOOK and (one := next(every, None)) is not None:
            if isinstance(one, BadInput):
                bad.append(one)
            else:
                found.append(one)
        if bad and not found:
            raise bad[0]
        keys = list(dict.fromkeys(key for one in found for key in one))
        self.header = Header(name, keys, True, [[one.get(key) for key in keys] for one in found])

    def blocks(self) -> Iterator[_Objects]:
        """The lines, many at a time."""
        line = 1
        for text in self._texts():
            found = self._objects(text, line)
            yield _Objects((number, self._cells(one)) for number, one in found)
            line += text.count(b"\n")

    def _texts(self) -> Iterator[bytes]:
        return whole_lines(self._name, self._file, self._encoding)

    def _cells(self, one: dict[str, Any] | BadInput) -> Cells:
        return one if isinstance(one, BadInput) else [one.get(key) for key in self.header.cells]

    def _objects(self, text: bytes, first: int) -> Iterator[tuple[int, dict[str, Any] | BadInput]]:
        for line, data in enumerate(text.split(b"\n"), first):
            if not data.strip():
                continue
            try:
                found = self._read(f"{self._name}, line {line}", data)
            except BadInput as error:
                yield line, error
            else:
                if found is not None:
                    yield line, found


#: A file of records: its header, and the records in blocks, as often as they are asked for.
Blocks = CsvText | ObjectText | NpyArray | ParquetTable


def blocks_in(file: Opened, layout: Layout, wanted: Sequence[str] | None) -> Blocks:
    if file.format == NPY:
        return NpyArray(file.name, file.file)
    if file.format == PARQUET:
        return ParquetTable(file.name, file.file)
    if layout.is_influx(file.name):
        measured = Measurement(layout.measurement, lambda: list(wanted or ()))
        text = ObjectText(file.name, file.file, layout, measured)
        if measured.point is None and measured.other is not None:
            raise BadInput(
                f"{file.name}: none of the first lines is a row, as {measured.other} is none; "
                "--measurement chooses"
            )
        text.notes = measured.notes
        return text
    if file.format == JSON_LINES:
        return ObjectText(file.name, file.file, layout, json_object)
    return CsvText(file.name, file.file, layout, wanted)


def _found_words(source: Blocks, layout: Layout) -> dict[str, list[str]]:
    """Finds the words that a file has in each column of words, in their order."""
    most = 64
    places = source.header.places(layout.categories)
    found: list[set[str]] = [set() for _ in places]
    for block in source.blocks():
        for _, cells in block.records():
            if isinstance(cells, BadInput):
                continue
            for place, words in zip(places, found, strict=True):
                if place < len(cells) and not is_missing(cells[place]):
                    words.add(word_of(cells[place]))
        for name, words in zip(layout.categories, found, strict=True):
            if len(words) > most:
                raise BadInput(
                    f"{source.header.name}: column {name!r} has more than {most} different "
                    f"words, too many for categories; --drop {name}"
                )
    return {name: sorted(words) for name, words in zip(layout.categories, found, strict=True)}


@dataclass(frozen=True)
class ColumnCells:
    """The cells of one column as they stand, the line of each, and what to call them in errors."""

    file: str
    column: str
    unit: str
    cells: NDArray[Any]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.cells)

    def at(self, places: Any) -> "ColumnCells":
        return replace(self, cells=self.cells[places], lines=self.lines[places])

    def where(self, place: int) -> str:
        return f"{self.file}, {self.unit} {self.lines[place]}, {self.column}"


@dataclass
class Table:
    """Rows of a file, and what goes with each: its line, and where known its time and label.

    ``lines`` counts from 1 as an editor does (rows of an array from 0). ``gaps`` are the places of
    rows that do not follow the row before. ``skipped`` says of the first rows that were
    ``left_out`` why, ``notes`` what else there is to tell. ``categories`` are the words of columns
    of words; each is a column of 0 and 1.
    """

    names: tuple[str, ...] | None
    rows: NDArray[np.float64]
    lines: NDArray[np.int64]
    times: NDArray[np.float64] | None = None
    labels: NDArray[np.bool_] | None = None
    skipped: list[str] = field(default_factory=list)
    left_out: int = 0
    gaps: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    beside: ColumnCells | None = None

    @property
    def stretches(self) -> list[slice]:
        edges = sorted({0, *self.gaps, len(self.rows)})
        return [slice(start, end) for start, end in pairwise(edges)]

    def sliced(self, part: slice) -> Self:
        start, end, _ = part.indices(len(self.rows))
        return replace(
            self,
            rows=self.rows[part],
            lines=self.lines[part],
            times=None if self.times is None else self.times[part],
            labels=None if self.labels is None else self.labels[part],
            beside=None if self.beside is None else self.beside.at(part),
            gaps=[gap - start for gap in self.gaps if start < gap < end],
        )

    def normal(self) -> Self:
        """The rows that are not labelled anomalous; where one is left out there is a gap."""
        return self if self.labels is None else self.without(self.labels)

    def without(self, marked: NDArray[np.bool_]) -> Self:
        """The rows that are not marked; where one is left out there is a gap."""
        if not marked.any():
            return self
        kept = np.flatnonzero(~marked)
        follows = np.diff(kept, prepend=-1) == 1
        follows[np.isin(kept, self.gaps)] = False
        return replace(
            self,
            rows=self.rows[kept],
            lines=self.lines[kept],
            times=None if self.times is None else self.times[kept],
            labels=None if self.labels is None else self.labels[kept],
            beside=None if self.beside is None else self.beside.at(kept),
            gaps=[int(place) for place in np.flatnonzero(~follows) if place],
        )


def read_table(
    where: Path | str,
    layout: Layout | None = None,
    *,
    features: Sequence[str] | None = None,
    categories: Categories | None = None,
    skip_bad: bool = False,
    doubts: bool = True,
    progress: Callable[[int], None] = lambda done: None,
) -> Table:
    """Reads all rows of a file, or of standard input (``-``).

    CSV, JSON lines, .npy and Parquet are detected by their content, InfluxDB line protocol by its
    name or the layout. ``features`` picks and orders columns by name, with the words of
    ``categories``. A bad row is an error, or with ``skip_bad`` left out. With ``doubts`` there are
    notes about columns that may be no sensors, and those that look like a label are left out.
    ``progress`` is called with the number of bytes read so far.
    """
    layout = layout or Layout()
    wanted = columns_of(features, categories or {}) if features else None
    doubts = doubts and not layout.columns
    with opened(where, layout.encoding) as file:
        source = blocks_in(file, layout, wanted)
        if layout.categories and categories is None:
            categories = _found_words(source, layout)
        columns = Columns(source.header, layout, features, categories, doubts)
        gathering = _Gathering(source, columns, layout, skip_bad, lambda: progress(file.position()))
        return gathering.table(doubts and features is None)


class _Gathering:
    def __init__(
        self,
        source: Blocks,
        columns: Columns,
        layout: Layout,
        skip_bad: bool,
        taken: Callable[[], None] = lambda: None,
    ) -> None:
        self._source, self._columns = source, columns
        self._layout, self._skip_bad = layout, skip_bad
        self._parts: list[Numbers] = []
        self._count = 0
        self._skipped: list[str] = []
        self._gaps: list[int] = []
        self._left_out = 0
        self._doubts: list[str] | None = None
        for block in source.blocks():
            self._take(block)
            taken()

    def _take(self, block: TextBlock | ArrayBlock | _Objects) -> None:
        found = block.numbers(self._columns, self._layout.decimal)
        if found is None:
            found = self._one_by_one(block)
        elif len(found.rows):
            self._columns.held.saw(found.rows[-1].tolist())
        if self._doubts is None and len(found.rows):
            names = self._columns.names or [str(i + 1) for i in self._columns.places]
            self._doubts = warnings_about(names, found.rows[:5000])
        self._parts.append(found)
        self._count += len(found.rows)

    def _one_by_one(self, block: TextBlock | ArrayBlock | _Objects) -> Numbers:
        values, lines = list[list[float]](), list[int]()
        times, labels, beside = list[float | None](), list[bool | None](), list[Any]()
        for line, cells in block.records():
            try:
                if isinstance(cells, BadInput):
                    raise cells
                where = f"{self._source.header.name}, {self._source.unit} {line}"
                record = self._columns.record(where, cells)
            except MissingValue as error:
                self._leave_out(str(error), len(values))
            except BadInput as error:
                if not self._skip_bad:
                    ways_out = "--drop leaves a named column out, --skip-bad a row"
                    raise BadInput(f"{error}; {ways_out}") from error
                self._leave_out(str(error), len(values))
            else:
                values.append(record.values)
                lines.append(line)
                times.append(record.time)
                labels.append(record.label)
                beside.append(record.beside)
        return Numbers(
            np.array(values, np.float64).reshape(len(values), self._columns.count),
            np.array(lines, np.int64),
            None if self._columns.time is None else np.array(times, np.float64),
            None if self._columns.label is None else np.array(labels, bool),
            [] if self._columns.beside is None else beside,
        )

    def _leave_out(self, reason: str, before: int) -> None:
        self._left_out += 1
        self._gaps.append(self._count + before)
        if len(self._skipped) < 1000:
            self._skipped.append(reason)

    def _require_order(self, times: NDArray[np.float64], lines: NDArray[np.int64]) -> None:
        """Raises ``BadInput`` where times run backwards, or are in no order at all."""
        first = first_back(np.diff(times))
        if first is not None:
            assert self._columns.time is not None
            header = self._source.header
            raise BadInput(
                f"{header.name}: times run backwards from {self._source.unit} {lines[first + 1]} "
                f"on: sort the rows by time, oldest first (if {header.describe(self._columns.time)}"
                " is their time; else --time COLUMN)"
            )

    def table(self, doubted: bool) -> Table:
        columns, parts = self._columns, self._parts
        lines = np.concatenate([np.empty(0, np.int64), *(part.lines for part in parts)])
        times = _joined([part.times for part in parts], columns.time, float)
        labels = _joined([part.labels for part in parts], columns.label, bool)
        beside = [cell for part in parts for cell in part.beside]
        late = list[int]()
        if times is not None:
            self._require_order(times, lines)
            late = gaps_in(times).tolist()
        notes = [*self._source.notes, *columns.notes, *((self._doubts or []) if doubted else [])]
        if late and times is not None:
            notes.append(_describe_gaps(times, late))
        if self._layout.missing == "hold" and columns.held.count:
            notes.append(f"{columns.held.count} missing values were filled with the last ones")
        return Table(
            columns.names,
            self._rows(),
            lines,
            times,
            labels,
            self._skipped,
            self._left_out,
            sorted({*self._gaps, *late}),
            notes,
            columns.categories,
            self._cells_beside(beside, lines),
        )

    def _rows(self) -> NDArray[np.float64]:
        rows, end = np.empty((self._count, self._columns.count)), self._count
        # Each block goes once it is copied: a large table is in memory once.
        while self._parts:
            block = self._parts.pop().rows
            rows[end - len(block) : end] = block
            end -= len(block)
        return rows

    def _cells_beside(self, beside: Sequence[Any], lines: NDArray[np.int64]) -> ColumnCells | None:
        if self._columns.beside is None:
            return None
        cells = np.empty(len(lines), object)
        cells[:] = beside
        header = self._source.header
        called = header.describe(self._columns.beside)
        return ColumnCells(header.name, called, self._source.unit, cells, lines)


def _joined(parts: list[Any], place: int | None, dtype: type) -> NDArray[Any] | None:
    return None if place is None else np.concatenate([np.empty(0, dtype), *parts])


def _describe_gaps(times: NDArray[np.float64], late: list[int]) -> str:
    intervals = np.diff(times)
    usual = usual_interval(intervals)
    jumps = intervals[np.array(late) - 1]
    gaps, back, told = jumps[jumps > 0.0], jumps[jumps < 0.0], list[str]()
    if len(gaps):
        many = f"{len(gaps)} gap{'s' * (len(gaps) > 1)} in time"
        told.append(f"{many}, up to {gaps.max():g} s where {usual:g} s are usual")
    if len(back):
        many = f"{len(back)} jump{'s' * (len(back) > 1)} back in time"
        told.append(f"{many}, by up to {-back.min():g} s")
    return f"{' and '.join(told)}: windows begin again there"
