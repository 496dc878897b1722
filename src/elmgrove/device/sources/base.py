"""From bytes to rows: lines and tables are cut, read and timed in the same way for all sources."""

import codecs
import logging
import os
import time
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from elmgrove.algebra.basis import Categories
from elmgrove.errors import BadInput, WrongColumns
from elmgrove.reading.arrays import NpyArray, ParquetTable, opened_table
from elmgrove.reading.columns import Record
from elmgrove.reading.formats import NOT_TEXT, NPY, PARQUET, format_of
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_protocol import Point
from elmgrove.reading.lines import LineReader
from elmgrove.reading.table import Blocks, found_words, words_in
from elmgrove.reading.times import Gaps, format_time

log = logging.getLogger("elmgrove.device")

#: Longer than any row: what has no line break for so long is cut, or it would fill the memory.
LONGEST = 1 << 22
#: Bytes of a file that are read at once.
_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b"


class Line(NamedTuple):
    """A line with its ending, its number from 1, and the offset of the byte after it.

    A row of a table is one as well: it has ``cells``, and ends where the next row begins.
    """

    data: bytes
    number: int
    end: int
    cells: Sequence[Any] | None = None

    @property
    def complete(self) -> bool:
        """Whether its ending was written."""
        return self.data.endswith((b"\n", b"\r"))


class Unpacking:
    """Makes pieces of a file, as they arrive, pieces of text that can be split into lines of bytes.

    What begins as gzip does is unpacked. An encoding in which a line feed is not one byte, as in
    UTF-16, becomes UTF-8. All else stays as it is.
    """

    def __init__(self, name: str, encoding: str = "utf-8") -> None:
        self._name = name
        plain = "x\n".encode(encoding).endswith(b"x\n")
        #: The encoding of the text that is given.
        self.encoding = encoding if plain else "utf-8"
        self._decoder = None if plain else codecs.getincrementaldecoder(encoding)("replace")
        self._first: bytes | None = b""
        self._zip: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        """Takes the next piece, and gives the text that it brings."""
        if self._first is not None:
            self._first = data = self._first + data
            if len(data) < len(_GZIP) and _GZIP.startswith(data):
                return b""
            if data.startswith(_GZIP):
                # 31 makes zlib read gzip.
                self._zip = zlib.decompressobj(31)
            self._first = None
        return self._recoded(data if self._zip is None else self._unzipped(data))

    def end(self) -> bytes:
        """Gives what is left at the end; ``BadInput`` where gzip was cut short."""
        rest, self._first = self._first or b"", None
        if self._zip is not None and not self._zip.eof:
            raise self._damaged("it ends too early")
        return self._recoded(rest, final=True)

    @property
    def changes(self) -> bool:
        """Whether the text has other bytes than the file, so that places differ."""
        return self._zip is not None or self._decoder is not None

    def _unzipped(self, data: bytes) -> bytes:
        found = b""
        while data:
            assert self._zip is not None
            if self._zip.eof:
                # One packed file may follow another, or zeros that fill a tape's block.
                data = data.lstrip(b"\0")
                self._zip = zlib.decompressobj(31) if data else self._zip
            try:
                found += self._zip.decompress(data)
            except zlib.error as error:
                raise self._damaged(str(error)) from error
            data = self._zip.unused_data
        return found

    def _recoded(self, data: bytes, *, final: bool = False) -> bytes:
        return data if self._decoder is None else self._decoder.decode(data, final).encode()

    def _damaged(self, why: str) -> BadInput:
        return BadInput(f"{self._name}: this is gzip, but damaged or cut short ({why})")


class Text:
    """A text that arrives in pieces; lines end with a line feed, a carriage return or both.

    It may be packed with gzip, or in another encoding: offsets are those of the unpacked text.
    """

    #: What counts its lines, for messages.
    unit = "line"

    def __init__(self, name: str, encoding: str = "utf-8") -> None:
        self.name = name
        self._asked = encoding
        self._offset = self._number = 0
        self._unpacking, self._rest = Unpacking(name, encoding), b""

    @property
    def encoding(self) -> str:
        """The encoding of its lines."""
        return self._unpacking.encoding

    def position(self, line: Line) -> dict[str, Any] | None:
        """Gives what finds the place after this line again; None where there is no way back."""
        return None

    def feed(self, data: bytes) -> Iterator[Line]:
        """Takes the next piece, and gives the lines that it completes."""
        return self._split(self._unpacking.feed(data))

    def rest(self) -> Iterator[Line]:
        """Gives what is left at the end: the last line, if it has no ending."""
        yield from self._split(self._unpacking.end())
        rest, self._rest = self._rest, b""
        if rest:
            yield self._line(rest)

    def _restart(self) -> None:
        self._unpacking, self._rest = Unpacking(self.name, self._asked), b""

    def _split(self, data: bytes) -> Iterator[Line]:
        pieces = (self._rest + data).splitlines(keepends=True)
        # A carriage return at the very end may be the first half of a line ending.
        whole = not pieces or pieces[-1].endswith(b"\n") or len(pieces[-1]) > LONGEST
        self._rest = b"" if whole else pieces.pop()
        return map(self._line, pieces)

    def _line(self, data: bytes) -> Line:
        self._number += 1
        self._offset += len(data)
        return Line(data, self._number, self._offset)


class BookmarkedFile(Text):
    """An open file that gives bookmarks, and is read from its start or from one of them.

    A bookmark fits if the file is the same (by inode) and the line before the bookmark is still
    there. Where it does not fit, the file was replaced: it is read from its start, with a warning.
    """

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        super().__init__(str(path), encoding)
        self._path = path
        self._file = path.open("rb")
        self.inode = os.fstat(self._file.fileno()).st_ino
        #: Where reading began.
        self.began = 0

    @abstractmethod
    def lines(self) -> Iterator[Line]:
        """Gives the complete lines from here to the present end."""

    def position(self, line: Line) -> dict[str, Any]:
        """Gives the bookmark after this line."""
        return {
            "file": self._path.name,
            "inode": self.inode,
            "offset": line.end,
            "line": line.number,
            "last": [len(line.data), zlib.crc32(line.data)],
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _go_to(self, bookmark: dict[str, Any]) -> None:
        if bookmark["inode"] == self.inode and self._finds(bookmark):
            self.began = self._offset = bookmark["offset"]
            self._number = bookmark["line"]
        else:
            before = bookmark["file"]
            if before == self._path.name:
                log.warning("%s was replaced: reading it from the start", self._path)
            else:
                log.info("%s: another file than before (%s)", self._path, before)
            self._file.seek(0)
            self._restart()

    @abstractmethod
    def _finds(self, bookmark: dict[str, Any]) -> bool:
        """Goes to the place of a bookmark; says whether the line before it is still there."""


class TextFile(BookmarkedFile):
    """A file of text, which may grow."""

    def __init__(
        self, path: Path, bookmark: dict[str, Any] | None = None, encoding: str = "utf-8"
    ) -> None:
        super().__init__(path, encoding)
        if bookmark is not None:
            self._go_to(bookmark)

    def lines(self) -> Iterator[Line]:
        """Gives the complete lines from here to the present end."""
        yield from self._split(b"")
        while data := self._file.read(_CHUNK):
            yield from self.feed(data)

    @property
    def read(self) -> int:
        """How many bytes were read so far."""
        return self._file.tell()

    @property
    def cut(self) -> bool:
        """Whether the file is shorter now than what was read of it.

        A file that was cut and has grown past that point since can't be told from one that grew.
        """
        return os.fstat(self._file.fileno()).st_size < self.read

    @property
    def replaced(self) -> bool:
        """Whether another file is in its place; not while there is none."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _finds(self, bookmark: dict[str, Any]) -> bool:
        length, checksum = bookmark["last"]
        before = bookmark["offset"] - length
        self._unpacking.feed(self._file.read(2))
        self._file.seek(0)
        if self._unpacking.changes:
            # There is no other way to a place in a packed text than through all before it.
            self._restart()
            found = self._passed(before, length)
        else:
            self._file.seek(before)
            found = self._file.read(length)
        return (len(found), zlib.crc32(found)) == (length, checksum)

    def _passed(self, before: int, length: int) -> bytes:
        """Reads past so many bytes of an unpacked text, and gives those after them."""
        held = b""
        while len(held) < before + length and (data := self._file.read(_CHUNK)):
            held += self._unpacking.feed(data)
            past = min(before, len(held))
            held, before = held[past:], before - past
        self._rest = held[length:]
        return held[:length]


class Bad(NamedTuple):
    """A row, or a ``whole`` file, that can't be used, and why."""

    where: str
    reason: str
    whole: bool = False


class Records:
    """Reads lines by the rules of ``elmgrove.reading``, and logs what there is to tell of them.

    A new device that has ``categories`` finds their words in its ``first_rows`` rows, or in its
    first file if that has fewer: until then, lines are held back.
    """

    def __init__(
        self,
        layout: Layout,
        features: Sequence[str] | None,
        categories: Categories | None,
        bookmark: dict[str, Any] | None,
        first_rows: int,
    ) -> None:
        self._layout, self._features = layout, features
        self._first_rows = first_rows
        self._held_back: list[Line] | None = (
            [] if layout.categories and categories is None else None
        )
        #: The words of columns of words.
        self.categories = categories
        self._lines = self._reader(bookmark)
        self._at_start = True

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the values in a row; None where no file has names."""
        return self._lines.names

    @property
    def width(self) -> int | None:
        """How many numbers a row has; None before the first line."""
        return self._lines.width

    @property
    def held(self) -> int:
        """How many missing values were filled with the last ones."""
        return self._lines.held

    @property
    def bookmark(self) -> dict[str, Any]:
        """What a restart must know to read on in the same columns."""
        return self._lines.bookmark

    def begin(self, at_start: bool = True, name: str = "") -> None:
        """Tells that the next line is of another file, and its first one if ``at_start``."""
        self._at_start = at_start
        self._lines.begin(at_start, name)

    def go_back(self, bookmark: dict[str, Any] | None) -> None:
        """Goes on as right after a bookmark, or as at the beginning, whatever was read since."""
        self._lines = self._reader(bookmark)
        self.begin(at_start=bookmark is None)

    @property
    def waits(self) -> bool:
        """Whether lines are held back, until there are enough of them."""
        return bool(self._held_back)

    def begin_table(self, table: Blocks) -> None:
        """Tells that the next line is a row of this table."""
        if self._held_back is not None:
            self._learn_words(found_words(table, self._layout))
        self._lines.begin_table(table.header)
        self._tell()

    def ready(self, text: Text, lines: Iterable[Line]) -> Iterator[Line]:
        """Gives lines on, and holds the first ones back where they tell the words."""
        for line in lines:
            if self._held_back is None or line.cells is not None:
                yield line
            else:
                self._held_back.append(line)
                # One line more than rows, for the names.
                if len(self._held_back) > self._first_rows:
                    yield from self.held_back(text)

    def held_back(self, text: Text) -> list[Line]:
        """Gives the lines that were held back: there are enough, or no more."""
        lines, self._held_back = self._held_back, None
        if not lines:
            # A file without a line tells no words: the next one does.
            self._held_back = lines
            return []
        layout = replace(self._layout, encoding=text.encoding)
        self._learn_words(words_in(text.name, [line.data for line in lines], layout))
        return lines

    def record(self, where: str, line: Line, encoding: str) -> Record | Bad | None:
        """Gives what a line says, why it is bad, or None where it is blank or holds names.

        Raises ``BadInput`` when the names are not those that are wanted.
        """
        try:
            record = self._read(where, line, encoding)
        except WrongColumns:
            raise
        except BadInput as error:
            return Bad(where, str(error).removeprefix(where).lstrip(":, "))
        self._tell()
        return record

    def _read(self, where: str, line: Line, encoding: str) -> Record | None:
        if line.cells is not None:
            return self._lines.read_cells(where, line.cells)
        data = line.data.removeprefix(codecs.BOM_UTF8) if line.number == 1 else line.data
        if self._at_start:
            _require_text(where, data, encoding)
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            if self._at_start:
                raise WrongColumns(f"{where}: {NOT_TEXT}") from error
            raise BadInput(f"{where}: not text in {encoding.upper()}") from error
        self._at_start = self._at_start and not text.strip()
        return self._lines.read(where, text)

    def _reader(self, bookmark: dict[str, Any] | None) -> LineReader:
        unknown = self._held_back is not None
        known = replace(self._layout, categories=()) if unknown else self._layout
        return LineReader(known, self._features, self.categories, bookmark)

    def _learn_words(self, categories: Categories) -> None:
        self._held_back, self.categories = None, categories
        self._lines = LineReader(self._layout, None, categories)

    def _tell(self) -> None:
        for level, said in (
            (logging.INFO, self._lines.findings),
            (logging.WARNING, self._lines.notes),
        ):
            while said:
                log.log(level, "%s", said.pop(0))


def _require_text(where: str, first: bytes, encoding: str) -> None:
    """Raises ``WrongColumns`` with its name where a first line is none of a text."""
    try:
        form = format_of(where, first, encoding)
    except BadInput as error:
        raise WrongColumns(str(error)) from error
    if form in (NPY, PARQUET):
        raise WrongColumns(f"{where}: this is {form}, which is read as a file that is complete")


class Gap(NamedTuple):
    """A time without rows, from the last row before it to the first one after it.

    ``backwards`` says that many of the last rows came before the one in front of them.
    """

    begin: float
    end: float
    backwards: bool = False

    def __str__(self) -> str:
        begin, end = format_time(self.begin), format_time(self.end)
        if self.end < self.begin:
            return f"times went back from {begin} to {end} ({_told(self.begin - self.end)})"
        return f"no rows from {begin} to {end} ({_told(self.end - self.begin)})"


class Timing:
    """Says of each row whether it comes after a gap in time.

    Rows that have times are judged by these. Rows without can be judged only where they are
    ``live``: by when they arrive. What arrives together, such as all rows that a file has when an
    agent begins, is one arrival.
    """

    def __init__(self, *, live: bool = False, bookmark: dict[str, Any] | None = None) -> None:
        self._live = live
        known = (bookmark or {}).get("times")
        self._gaps = Gaps() if known is None else Gaps.from_state(known)
        self._pauses: deque[float] = deque(maxlen=100)
        self._arrived: float | None = None
        self._idle = False

    @property
    def bookmark(self) -> dict[str, Any]:
        """What a restart must know to find the next gap; nothing where rows have no times."""
        return {} if self._gaps.last is None else {"times": self._gaps.state}

    def idle(self) -> None:
        """Tells that there is nothing more for now."""
        self._idle = True

    def gap_before(self, time: float | None) -> Gap | None:
        """Takes the time of the next row; gives the gap before it, if there is one."""
        if time is None:
            return self._gap_before_arrival() if self._live else None
        last = self._gaps.last
        follows = self._gaps.follows(time)
        return None if follows or last is None else Gap(last, time, self._gaps.backwards)

    def _gap_before_arrival(self) -> Gap | None:
        now = time.time()
        (last, after_idle), self._arrived, self._idle = (self._arrived, self._idle), now, False
        if last is None or not after_idle:
            return None
        pause, known = now - last, len(self._pauses)
        longest = max(self._pauses, default=0.0)
        self._pauses.append(pause)
        # Rows may wait in buffers, and come in bursts.
        gap = known >= 8 and pause > max(10.0, 5.0 * longest)
        return Gap(last, now) if gap else None


def _told(seconds: float) -> str:
    """Writes a length of time for people."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


class TableFile(BookmarkedFile):
    """A file of rows without lines; its bookmarks count rows."""

    unit = "row"

    def __init__(
        self,
        path: Path,
        table: NpyArray | ParquetTable,
        bookmark: dict[str, Any] | None,
        opened: ExitStack,
    ) -> None:
        super().__init__(path)
        self.table = table
        self._opened = opened
        if bookmark is not None:
            self._go_to(bookmark)

    def lines(self) -> Iterator[Line]:
        """Gives the rows after the bookmark."""
        return (line for line in self._rows() if line.number >= self.began)

    def __exit__(self, *error: Any) -> None:
        super().__exit__()
        self._opened.__exit__(*error)

    def _rows(self) -> Iterator[Line]:
        for block in self.table.blocks():
            for number, cells in block.records():
                yield Line(repr(cells).encode(), number, number + 1, cells)

    def _finds(self, bookmark: dict[str, Any]) -> bool:
        last = next((row.data for row in self._rows() if row.end == bookmark["offset"]), b"")
        return [len(last), zlib.crc32(last)] == list(bookmark["last"])


def open_file(path: Path, bookmark: dict[str, Any] | None, layout: Layout) -> TextFile | TableFile:
    """Opens a file that is complete; ``BadInput`` names a format that is not read."""
    with ExitStack() as stack:
        table = stack.enter_context(opened_table(path, layout.encoding))
        if table is not None:
            return TableFile(path, table, bookmark, stack.pop_all())
    return TextFile(path, bookmark, layout.encoding)


#: Seconds between two looks for something new.
POLL = 0.1

Bookmark = dict[str, Any]


class Reading(NamedTuple):
    """One row, where it is (for messages), and the bookmark after it (for a restart).

    ``follows`` is False where the row before it may be missing: after a bad row or a cut, at a
    start that found no bookmark to go on from, and after a ``gap`` in time. ``time`` is in seconds
    since 1970, if the row has one. ``point`` is its line where that is InfluxDB line protocol.
    """

    row: list[float]
    where: str
    bookmark: Bookmark | None
    follows: bool = True
    time: float | None = None
    gap: Gap | None = None
    point: Point | None = None


Item = Reading | Bad | None


class Source(ABC):
    """Gives rows as they come: a ``Reading``, a ``Bad`` row, or None for "nothing new now".

    One line is one record, so that a lost quotation mark costs one row and not the rest of the
    stream: a quoted cell with a line break in it is refused. Bad rows never end the iteration;
    a file whose columns are not those that are wanted does, with ``BadInput``.

    ``names`` and ``width`` are known from the first ``Reading`` on. The columns of the first file
    hold for those after it: named ones are found by name, a file that starts with numbers goes
    on in the same order. A file goes on where the one before it ended.
    """

    def __init__(self, records: Records, timing: Timing) -> None:
        self._records = records
        self._timing = timing
        self._gap = True

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns' names in the order of the row; None where the file has no names."""
        return self._records.names

    @property
    def width(self) -> int | None:
        """How many numbers a row has; None before the first row."""
        return self._records.width

    @property
    def categories(self) -> Categories | None:
        """The words of columns of words, once they are known."""
        return self._records.categories

    @property
    def held(self) -> int:
        """How many missing values were filled with the last ones."""
        return self._records.held

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Gives the rows after the bookmark that the source was opened with."""

    def saved(self, bookmark: Bookmark) -> None:  # noqa: B027 (most sources have nothing to do)
        """Tells the source that a restart would begin at this bookmark: what is before may go."""

    def _whole(self, text: TextFile | TableFile) -> Iterator[Reading | Bad]:
        """Reads all of a file that is complete, with or without a line ending at its end."""
        self._begin(text)
        yield from self._items(text, text.lines())
        yield from self._items(text, text.rest())
        yield from self._last_items(text)

    def _begin(self, text: TextFile | TableFile) -> None:
        if isinstance(text, TableFile):
            self._records.begin_table(text.table)
        else:
            self._records.begin(text.began == 0, text.name)
        # Where a bookmark fitted, the next row follows the one that it came with.
        self._gap = self._gap and text.began == 0

    def _items(self, text: Text, lines: Iterable[Line]) -> Iterator[Reading | Bad]:
        for line in self._records.ready(text, lines):
            where = f"{text.name}, {text.unit} {line.number}"
            found = self._records.record(where, line, text.encoding)
            if isinstance(found, Bad):
                self._gap = True
                yield found
            elif found is not None:
                gap = self._timing.gap_before(found.time)
                follows, self._gap = gap is None and not self._gap, False
                bookmark = self._bookmark_after(text, line)
                yield Reading(found.values, where, bookmark, follows, found.time, gap, found.point)

    def _last_items(self, text: Text) -> Iterator[Reading | Bad]:
        """Reads what was held back, now that there is no more."""
        return self._items(text, self._records.held_back(text))

    def _idle(self) -> None:
        """Waits a moment before the next look for something new."""
        self._timing.idle()
        pause()

    def _bookmark_after(self, text: Text, line: Line) -> Bookmark | None:
        position = text.position(line)
        if position is None:
            return None
        return {**position, **self._records.bookmark, **self._timing.bookmark}


def pause() -> None:
    """Waits a moment before the next look for something new."""
    time.sleep(POLL)
