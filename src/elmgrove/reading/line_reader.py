"""Lines as they come, of one file after another: each is a record, and bad ones are reported."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

from elmgrove.algebra.basis import Categories, columns_of
from elmgrove.errors import BadInput, WrongColumns
from elmgrove.reading.cells import is_decimal_comma, is_number, plain_name
from elmgrove.reading.columns import Columns, Header, Held, Record, some_of
from elmgrove.reading.formats import JSON_LINES, format_of_text
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_protocol import Measurement
from elmgrove.reading.times import are_dates

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
        cells, said = split(first[place], delimiter), split(remark, delimiter)
        if len(said) != len(cells) or len(said) < 2 or any(map(is_number, said)):
            said = []
        if _is_named(cells, said, layout.decimal, features):
            return cls(delimiter, list(map(plain_name, cells)), True, place + 1)
        return cls(delimiter, list(map(plain_name, said)) or cells, bool(said), place)


def is_read_past(text: str) -> bool:
    text = text.strip()
    return not text or text.startswith("#") or _SEPARATOR.fullmatch(text) is not None


def delimiter_of(line: str, decimal: str) -> str:
    others = [one for one in ";\t|" if one in line]
    for one in others:
        # 1,5;2,5 has as many commas as it has numbers, and one ; less.
        if all(is_number(cell) or is_decimal_comma(cell) for cell in split(line, one)):
            return one
    if decimal == "," and (others or "," not in line):
        return max(others, key=line.count, default=";")
    # A comma may also stand inside a name.
    return max("|\t;,", key=line.count)


def split(line: str, delimiter: str) -> list[str]:
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


class LineReader:
    """Reads lines by the rules of ``read_table``, and remembers columns between files.

    One line is one record. The first line of a file may hold names; if not, as in a log that was
    cut, columns are those before. The first row decides what else there is to find out, so
    ``names`` and ``width`` are known from then on. ``findings`` grow by what it was, and ``notes``
    by what is odd and worth telling once.
    """

    def __init__(
        self,
        layout: Layout | None = None,
        features: Sequence[str] | None = None,
        categories: Categories | None = None,
        bookmark: Mapping[str, Any] | None = None,
    ) -> None:
        self._layout = layout or Layout()
        if self._layout.categories and not categories:
            raise BadInput("categories: elmgrove learn finds the words; go on with its state")
        self._features = None if features is None else list(features)
        self._categories = categories
        self._head: Head | None = None
        self._columns: Columns | None = None
        #: The names of the values in a row; None where no file has names.
        self.names: tuple[str, ...] | None = None
        #: How many values a row has; None before the first one.
        self.width: int | None = None
        # The column that was found to be the time, and whether that is a name or a number.
        self._time: tuple[str, bool] | None = None
        self._held: Held | None = None
        self._held_before: Sequence[Any] | None = None
        self._first: list[str] = []
        self._at_start = True
        self._json = False
        self._influx = self._layout.is_influx()
        self._measured = Measurement(self._layout.measurement, lambda: self._wanted)
        self._good = False
        self._noted: set[str] = set()
        self.findings: list[str] = []
        self.notes = self._measured.notes
        if bookmark is not None:
            self._restore(bookmark)

    @property
    def bookmark(self) -> dict[str, Any]:
        """What a restart must know to read on in the same columns, as JSON holds it."""
        head = self._head
        known = None if head is None else [head.delimiter, head.cells, head.named]
        held = {} if self._held is None else {"held": self._held.state}
        time = {} if self._time is None else {"time_column": list(self._time)}
        return {"head": known, "names": self._features, **held, **time}

    @property
    def held(self) -> int:
        return 0 if self._held is None else self._held.count

    def begin(self, at_start: bool = True, name: str = "") -> None:
        """Begin another file; its first line comes next if ``at_start``."""
        self._at_start, self._first, self._good = at_start, [], not at_start
        self._influx = self._layout.is_influx(name)

    def begin_table(self, header: Header) -> None:
        """Begin a file that has this header and no lines: ``read_cells`` comes next."""
        self.begin()
        self._choose(header.name, Head("", header.cells, header.named), header.sample)

    def read_cells(self, where: str, cells: Sequence[Any]) -> Record:
        assert self._columns is not None
        return self._record(where, self._columns, cells)

    def read(self, where: str, text: str) -> Record | None:
        """Reads a line; None where it is blank, a remark, holds names, or is not measured.

        ``BadInput`` says why it is bad; ``WrongColumns``, that all lines of this file are.
        """
        if self._influx:
            found = self._measured(where, text)
            if found is None:
                return None
            return self._read_object(where, found)._replace(point=self._measured.point)
        if is_read_past(text):
            if self._at_start:
                self._first.append(text)
            return None
        if self._at_start:
            self._json = format_of_text(where, text) == JSON_LINES
        if self._json:
            return self._read_object(where, json_object(where, text))
        if self._at_start and self._took_names(where, text):
            return None
        return self._read_line(where, text)

    # CSV

    def _took_names(self, where: str, text: str) -> bool:
        lines = [*self._first, text]
        try:
            head = Head.of(lines, self._layout, self._features)
        except BadInput as error:
            raise WrongColumns(f"{where}: {error}") from error
        self._at_start, self._first = False, []
        if head.named or self._head is None or not self._head.delimiter:
            self._head, self._columns = head, None
            # A missing column is an error at once; the rest is found out with the first row.
            self._chosen(where, head, [])
        return head.named and head.lines == len(lines)

    def _read_line(self, where: str, text: str) -> Record | None:
        assert self._head is not None
        cells = _cells_of(where, text, self._head.delimiter)
        if not cells:
            return None
        columns = self._columns or self._choose(where, self._head, [cells])
        more = len(cells) > columns.width and self._good
        try:
            record = self._record(where, columns, cells[: columns.width] if more else cells)
        except BadInput:
            if self._took_other_names(where, cells):
                return None
            raise
        if more:
            self._note_once(f"{where}: columns beyond the {columns.width} of before are ignored")
        return record

    def _took_other_names(self, where: str, cells: Sequence[str]) -> bool:
        """Goes on with the columns of a line that is no row and holds all names that are wanted."""
        names, head = [plain_name(cell.strip()) for cell in cells], self._head
        if head is None or not self._features or not {*self._wanted} <= {*names}:
            return False
        self._note_new(where, [name for name in names if name not in head.cells])
        self._head, self._columns = head._replace(cells=names, named=True), None
        return True

    # JSON lines and InfluxDB line protocol

    def _read_object(self, where: str, found: dict[str, Any]) -> Record:
        self._at_start = False
        columns, head = self._columns, self._head
        if columns is None or head is None or head.delimiter:
            head, columns = self._choose_keys(where, found)
        self._note_new(where, [key for key in found if key not in head.cells])
        return self._record(where, columns, [found.get(key) for key in head.cells])

    def _choose_keys(self, where: str, found: dict[str, Any]) -> tuple[Head, Columns]:
        """Takes the columns from an object that has values for all; others may lack some."""
        wanted = self._wanted if any(name in found for name in self._wanted) else []
        if self._time is not None and self._head is not None and not self._head.delimiter:
            # Objects had a time before: one that lacks it is bad, and not the last with a time.
            wanted = [*wanted, *({self._time[0]} & {*self._head.cells})]
        head = Head("", list(dict.fromkeys([*found, *wanted])), True)
        sample = [[found.get(key) for key in head.cells]]
        # An object of another kind, before all others, does not decide.
        self._chosen(where, head, sample).record(where, sample[0])
        return head, self._choose(where, head, sample)

    # Both

    def _record(self, where: str, columns: Columns, cells: Sequence[Any]) -> Record:
        told = len(columns.notes)
        record = columns.record(where, cells)
        self.notes += columns.notes[told:]
        self._good = True
        return record

    @property
    def _wanted(self) -> list[str]:
        """The columns that features come from, where these are known."""
        return columns_of(self._features or (), self._categories or {})

    def _choose(self, where: str, head: Head, sample: Sequence[Sequence[Any]]) -> Columns:
        columns = self._chosen(where, head, sample)
        self._head, self._columns = head, columns
        if self._layout.missing == "hold":
            # Over the end of a file, and over a restart.
            if self._held is None and self._held_before is not None:
                columns.held.restore(self._held_before)
            self._held = columns.held = self._held or columns.held
        self._categories = self._categories or columns.categories
        self._pin(columns.names)
        # From now on, the time is in this column, whatever a row has there.
        if columns.time is not None:
            self._time = _names_of(head)[columns.time], head.named
        elif self._time is not None:
            self._note_once(f"{where}: no column {self._time[0]!r} as before, rows have no time")
        self.findings += [note for note in columns.notes if note not in self._noted]
        self._noted |= {*columns.notes}
        before, self.width = self.width, columns.count
        if before not in (None, columns.count):
            raise WrongColumns(
                f"{where}: {columns.count} columns, where there were {before} before"
            )
        return columns

    def _chosen(self, where: str, head: Head, sample: Sequence[Sequence[Any]]) -> Columns:
        names, layout = _names_of(head), self._layout
        if layout.time is None and self._time is not None:
            name, named = self._time
            if named == head.named and names.count(name) == 1:
                layout = replace(layout, time=name)
        header = Header(where, names, head.named, sample)
        try:
            return Columns(header, layout, self._features, self._categories)
        except BadInput as error:
            raise WrongColumns(str(error)) from error

    def _note_new(self, where: str, names: Sequence[str]) -> None:
        if names:
            were = "was" if len(names) == 1 else "were"
            self._note_once(f"{where}: {some_of(names)} {were} not there before: ignored")

    def _note_once(self, text: str) -> None:
        # The place in a note is where it was first true.
        what = text.rpartition(": ")[2]
        if what not in self._noted:
            self._noted.add(what)
            self.notes.append(text)

    def _restore(self, bookmark: Mapping[str, Any]) -> None:
        if bookmark["head"] is not None:
            self._head = Head(*bookmark["head"])
            self._json = not self._head.delimiter
        self._held_before = bookmark.get("held")
        if "time_column" in bookmark:
            name, named = bookmark["time_column"]
            self._time = name, named
        self._pin(bookmark["names"])

    def _pin(self, names: Sequence[str] | None) -> None:
        """From now on, find columns by these names, in whatever order a file has them."""
        self.names = self.names if names is None else tuple(names)
        self._features = self._features or (None if names is None else list(names))
        if self._features:
            self._layout = replace(self._layout, drop=(), columns=())


def _names_of(head: Head) -> list[str]:
    return head.cells if head.named else [str(i + 1) for i in range(len(head.cells))]


def _cells_of(where: str, text: str, delimiter: str) -> list[str]:
    # An open quotation mark makes the reader ask for a second line.
    reader = csv.reader([text, ""], delimiter=delimiter)
    try:
        cells = next(reader)
    except csv.Error as error:
        raise BadInput(f"{where}: {error}") from error
    if reader.line_num > 1:
        raise BadInput(f"{where}: a quotation mark without its pair")
    return cells if len(cells) > 1 or "".join(cells).strip() else []


def json_object(where: str, text: str | bytes) -> dict[str, Any]:
    """Reads a line as a JSON object; ``BadInput`` if it is none."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{where}: not JSON ({error})") from error
    except RecursionError as error:
        raise BadInput(f"{where}: JSON that is nested too deeply") from error
    if not isinstance(found, dict):
        raise BadInput(f'{where}: not a JSON object like {{"temp": 21.5}}, but {found!r:.40}')
    if not all(map(str.isprintable, found)):
        return {plain_name(key): value for key, value in found.items()}
    return found
