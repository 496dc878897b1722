"""Rows from text that arrives in pieces: a file, one that grows, standard input."""

import codecs
import gzip
import logging
import os
import queue
import sys
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, cast

from elmgrove.algebra.basis import Categories
from elmgrove.device.input_health import Outage
from elmgrove.errors import BadInput, WrongColumns
from elmgrove.reading.columns import Record
from elmgrove.reading.formats import GZIP, NOT_TEXT, NPY, PARQUET, format_of, opened
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_protocol import Point
from elmgrove.reading.line_reader import LineReader
from elmgrove.reading.table import Blocks, blocks_in
from elmgrove.reading.times import Gap, Gaps

log = logging.getLogger("elmgrove.device")

#: Seconds between two looks for something new.
POLL = 0.1
#: Longer than any row: what has no line break for so long is cut, or it would fill the memory.
LONGEST = 1 << 22
# Bytes that are read at once.
_CHUNK = 1 << 16

Bookmark = dict[str, Any]


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
        return self.data.endswith((b"\n", b"\r"))


class Text:
    """A text that arrives in pieces; lines end with a line feed, a carriage return or both.

    An encoding in which a line feed is not one byte, as in UTF-16, becomes UTF-8: offsets are those
    of the text that it becomes.
    """

    #: What counts its lines, for messages.
    unit = "line"

    def __init__(self, name: str, encoding: str = "utf-8") -> None:
        self.name = name
        plain = "x\n".encode(encoding).endswith(b"x\n")
        self._foreign = None if plain else encoding
        #: The encoding of its lines.
        self.encoding = encoding if plain else "utf-8"
        self._offset = self._number = 0
        self._begin()

    def _begin(self) -> None:
        self._rest = b""
        decoder = codecs.getincrementaldecoder(self._foreign)("replace") if self._foreign else None
        self._decoder: codecs.IncrementalDecoder | None = decoder

    def position(self, line: Line) -> dict[str, Any] | None:
        return None

    def feed(self, data: bytes) -> Iterator[Line]:
        pieces = (self._rest + self._recoded(data)).splitlines(keepends=True)
        # A carriage return at the very end may be the first half of a line ending.
        whole = not pieces or pieces[-1].endswith(b"\n") or len(pieces[-1]) > LONGEST
        self._rest = b"" if whole else pieces.pop()
        return map(self._line, pieces)

    def rest(self) -> Iterator[Line]:
        """Gives what is left at the end: the last line, if it has no ending."""
        rest, self._rest = self._rest + self._recoded(b"", final=True), b""
        return map(self._line, rest.splitlines(keepends=True))

    def _recoded(self, data: bytes, *, final: bool = False) -> bytes:
        return self._decoder.decode(data, final).encode() if self._decoder else data

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
        self._raw = path.open("rb")
        self.inode = os.fstat(self._raw.fileno()).st_ino
        #: Where reading began.
        self.began = 0

    @abstractmethod
    def lines(self) -> Iterator[Line]:
        """Gives the complete lines from here to the present end."""

    def position(self, line: Line) -> dict[str, Any]:
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
        self._raw.close()

    def _go_to(self, bookmark: dict[str, Any]) -> None:
        length, checksum = bookmark["last"]
        if bookmark["inode"] == self.inode:
            found = self._before(bookmark["offset"], length)
            if (len(found), zlib.crc32(found)) == (length, checksum):
                self.began = self._offset = bookmark["offset"]
                self._number = bookmark["line"]
                return
        if bookmark["file"] == self._path.name:
            log.warning("%s was replaced: reading it from the start", self._path)
        else:
            log.info("%s: another file than before (%s)", self._path, bookmark["file"])
        self._rewind()

    @abstractmethod
    def _before(self, offset: int, length: int) -> bytes:
        """Goes to an offset, and gives what is right before it."""

    def _rewind(self) -> None:
        """Goes to the start."""


class TextFile(BookmarkedFile):
    """A file of text, packed with gzip or not, which may grow."""

    def __init__(
        self, path: Path, bookmark: dict[str, Any] | None = None, encoding: str = "utf-8"
    ) -> None:
        super().__init__(path, encoding)
        packed = self._raw.peek(len(GZIP)).startswith(GZIP)
        self._file = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if packed else self._raw
        self._ends_early = False
        if bookmark is not None:
            self._go_to(bookmark)

    def lines(self) -> Iterator[Line]:
        yield from self.feed(b"")
        while data := self._read():
            yield from self.feed(data)

    def rest(self) -> Iterator[Line]:
        if self._ends_early:
            raise self._damaged("it ends too early")
        return super().rest()

    @property
    def read(self) -> int:
        return self._raw.tell()

    @property
    def cut(self) -> bool:
        """Whether the file is shorter now than what was read of it.

        A file that was cut and has grown past that point since can't be told from one that grew.
        """
        return os.fstat(self._raw.fileno()).st_size < self.read

    @property
    def replaced(self) -> bool:
        """Whether another file is in its place; not while there is none."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._raw.fileno()))
        except FileNotFoundError:
            return False

    def _read(self) -> bytes:
        self._ends_early = False
        try:
            # Not ``read``: what it has would be lost where gzip ends within a piece.
            return cast(bytes, cast(Any, self._file).read1(_CHUNK))
        except EOFError:
            self._ends_early = True
            return b""
        except (zlib.error, gzip.BadGzipFile) as error:
            raise self._damaged(str(error)) from error

    def _before(self, offset: int, length: int) -> bytes:
        before = offset - length
        try:
            if self._decoder is None:
                self._file.seek(before)
                return self._file.read(length)
            # There is no other way to a place in a text that was recoded than through all of it.
            held = b""
            while len(held) < before + length and (data := self._read()):
                held += self._recoded(data)
                past = min(before, len(held))
                held, before = held[past:], before - past
        except (EOFError, zlib.error, gzip.BadGzipFile, BadInput):
            return b""
        self._rest = held[length:]
        return held[:length]

    def _rewind(self) -> None:
        self._file.seek(0)
        self._begin()

    def _damaged(self, why: str) -> BadInput:
        return BadInput(f"{self.name}: this is gzip, but damaged or cut short ({why})")


class TableFile(BookmarkedFile):
    """A file of rows without lines; its bookmarks count rows."""

    unit = "row"

    def __init__(
        self, path: Path, table: Blocks, bookmark: dict[str, Any] | None, opened: ExitStack
    ) -> None:
        super().__init__(path)
        self.table = table
        self._opened = opened
        if bookmark is not None:
            self._go_to(bookmark)

    def lines(self) -> Iterator[Line]:
        return (line for line in self._rows() if line.number >= self.began)

    def __exit__(self, *error: Any) -> None:
        super().__exit__()
        self._opened.__exit__(*error)

    def _rows(self) -> Iterator[Line]:
        for block in self.table.blocks():
            for number, cells in block.records():
                yield Line(repr(cells).encode(), number, number + 1, cast(list[Any], cells))

    def _before(self, offset: int, length: int) -> bytes:
        return next((row.data for row in self._rows() if row.end == offset), b"")


def open_file(path: Path, bookmark: dict[str, Any] | None, layout: Layout) -> TextFile | TableFile:
    """Opens a file that is complete; ``BadInput`` names a format that is not read."""
    with ExitStack() as stack:
        file = stack.enter_context(opened(path, layout.encoding))
        if file.format in (NPY, PARQUET):
            return TableFile(path, blocks_in(file, layout, None), bookmark, stack.pop_all())
    return TextFile(path, bookmark, layout.encoding)


class Bad(NamedTuple):
    """A row, or a ``whole`` file, that can't be used, and why."""

    where: str
    reason: str
    whole: bool = False


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

    One line is one record, so that a lost quotation mark costs one row. Bad rows never end the
    iteration; a file whose columns are not those that are wanted does, with ``BadInput``.

    ``names`` and ``width`` are known from the first ``Reading`` on: named columns are found by name
    in later files, a file that starts with numbers goes on in the same order. ``features`` picks
    and orders columns; a source that is ``live`` has its rows when they are measured.
    """

    def __init__(
        self,
        layout: Layout | None = None,
        features: Sequence[str] | None = None,
        categories: Categories | None = None,
        bookmark: Bookmark | None = None,
        *,
        live: bool = False,
    ) -> None:
        self._layout = layout or Layout()
        self._features, self._categories = features, categories
        self._bookmark = bookmark
        self._lines = LineReader(self._layout, features, categories, bookmark)
        self._gaps = Gaps(live=live, state=(bookmark or {}).get("times"))
        self._gap = self._at_start = True

    @property
    def names(self) -> tuple[str, ...] | None:
        return self._lines.names

    @property
    def width(self) -> int | None:
        return self._lines.width

    @property
    def held(self) -> int:
        return self._lines.held

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Gives the rows after the bookmark that the source was opened with."""

    def saved(self, bookmark: Bookmark) -> None:  # noqa: B027 (most sources have nothing to do)
        """Tells the source that a restart would begin at this bookmark: what is before may go."""

    def _whole(self, text: TextFile | TableFile) -> Iterator[Reading | Bad]:
        self._begin(text)
        yield from self._items(text, text.lines())
        yield from self._items(text, text.rest())

    def _begin(self, text: TextFile | TableFile) -> None:
        if isinstance(text, TableFile):
            self._lines.begin_table(text.table.header)
            self._tell()
        else:
            self._begin_lines(text.began == 0, text.name)
        # Where a bookmark fitted, the next row follows the one that it came with.
        self._gap = self._gap and text.began == 0

    def _begin_lines(self, at_start: bool, name: str = "") -> None:
        self._at_start = at_start
        self._lines.begin(at_start, name)

    def _go_back(self, bookmark: Bookmark | None) -> None:
        """Reads on as right after a bookmark, or as at the beginning, whatever was read since."""
        self._lines = LineReader(self._layout, self._features, self._categories, bookmark)
        self._begin_lines(at_start=bookmark is None)

    def _items(self, text: Text, lines: Iterable[Line]) -> Iterator[Reading | Bad]:
        for line in lines:
            where = f"{text.name}, {text.unit} {line.number}"
            try:
                found = self._record(where, line, text.encoding)
            except WrongColumns:
                raise
            except BadInput as error:
                self._gap = True
                yield Bad(where, str(error).removeprefix(where).lstrip(":, "))
                continue
            self._tell()
            if found is not None:
                gap = self._gaps.before(found.time)
                follows, self._gap = gap is None and not self._gap, False
                bookmark = self._bookmark_after(text, line)
                yield Reading(found.values, where, bookmark, follows, found.time, gap, found.point)

    def _record(self, where: str, line: Line, encoding: str) -> Record | None:
        if line.cells is not None:
            return self._lines.read_cells(where, line.cells)
        data = line.data.removeprefix(codecs.BOM_UTF8) if line.number == 1 else line.data
        if self._at_start:
            try:
                form = format_of(where, data, encoding)
            except BadInput as error:
                raise WrongColumns(str(error)) from error
            if form in (NPY, PARQUET):
                raise WrongColumns(
                    f"{where}: this is {form}, which is read as a file that is complete"
                )
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            if self._at_start:
                raise WrongColumns(f"{where}: {NOT_TEXT}") from error
            raise BadInput(f"{where}: not text in {encoding.upper()}") from error
        self._at_start = self._at_start and not text.strip()
        return self._lines.read(where, text)

    def _tell(self) -> None:
        for note in self._lines.findings:
            log.info("%s", note)
        for note in self._lines.notes:
            log.warning("%s", note)
        self._lines.findings.clear()
        self._lines.notes.clear()

    def _idle(self) -> None:
        self._gaps.idle()
        time.sleep(POLL)

    def _bookmark_after(self, text: Text, line: Line) -> Bookmark | None:
        position = text.position(line)
        if position is None:
            return None
        times = self._gaps.state
        return {**position, **self._lines.bookmark, **({} if times is None else {"times": times})}


class File(Source):
    """A file that is complete; the iteration ends with it."""

    def __init__(self, path: Path, *reading: Any, **more: Any) -> None:
        super().__init__(*reading, **more)
        self._path = path

    def __iter__(self) -> Iterator[Item]:
        with open_file(self._path, self._bookmark, self._layout) as text:
            yield from self._whole(text)


class FollowedFile(File):
    """A file that grows, as a log does; the iteration never ends.

    It may appear later, be cut, or be renamed with a new one in its place: the old one is read to
    its end first. A line is a row once its ending is written.
    """

    def __iter__(self) -> Iterator[Item]:
        trouble = Outage(
            str(self._path), "can't be read", "that is tried again", "can be read again"
        )
        waits = False
        while True:
            try:
                yield from self._read(trouble)
            except FileNotFoundError:
                if not waits:
                    log.info("%s is not there: waiting for it", self._path)
                waits = True
            except OSError as error:
                # It is read on from the last row, once that is possible.
                trouble.begin(error)
            else:
                self._bookmark = None
                continue
            self._idle()
            yield None

    def _read(self, trouble: Outage) -> Iterator[Item]:
        with TextFile(self._path, self._bookmark, self._layout.encoding) as text:
            self._begin(text)
            for item in self._growing(text):
                trouble.end()
                if isinstance(item, Reading):
                    self._bookmark = item.bookmark
                yield item
            yield from self._unfinished(text)
            # Rows may have been cut off before they were read.
            self._gap = self._gap or text.cut

    def _growing(self, text: TextFile) -> Iterator[Item]:
        """Reads a file until it is cut or another is in its place."""
        quiet = 0
        # Its writer may need a moment to notice that the file was renamed.
        while quiet < 2 and not text.cut:
            replaced, read = text.replaced, text.read
            yield from self._items(text, text.lines())
            quiet = quiet + 1 if replaced and text.read == read else 0
            self._idle()
            yield None

    def _unfinished(self, text: TextFile) -> Iterator[Reading | Bad]:
        try:
            last = list(text.rest())
        except BadInput as error:
            self._gap = True
            yield Bad(text.name, str(error))
            return
        for line in last:
            if line.complete:
                yield from self._items(text, [line])
            else:
                self._gap = True
                yield Bad(f"{text.name}, line {line.number}", "its end was never written")


class StandardInput(Source):
    """Rows that another program writes; the iteration ends with it, and there is no bookmark.

    A thread reads ahead a little, since not every system can ask a pipe whether it has something.
    Each line is given to ``pass_on``, as it came, before it is read.
    """

    def __init__(self, pass_on: Callable[[bytes], None] | None, *reading: Any) -> None:
        super().__init__(*reading, live=True)
        self._pass_on = pass_on
        self._chunks: queue.Queue[bytes | BadInput] = queue.Queue(4)

    def __iter__(self) -> Iterator[Item]:
        threading.Thread(target=self._read, name="elmgrove-stdin", daemon=True).start()
        text = Text("standard input", self._layout.encoding)
        while (data := self._next()) != b"":
            if data is None:
                self._gaps.idle()
                yield None
            else:
                yield from self._items(text, self._passed_on(text.feed(data)))
        yield from self._items(text, self._passed_on(text.rest()))

    def _passed_on(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Gives lines one by one: what is said of one comes after it, and before the next."""
        for line in lines:
            if self._pass_on is not None:
                self._pass_on(line.data if line.complete else line.data + b"\n")
            yield line

    def _next(self) -> bytes | None:
        try:
            found = self._chunks.get(timeout=POLL)
        except queue.Empty:
            return None
        if isinstance(found, BadInput):
            raise found
        return found

    def _read(self) -> None:
        # Not through sys.stdin: a thread that waits inside it blocks Python's exit.
        file: Any = os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
        data = b"more"
        try:
            if file.peek(len(GZIP)).startswith(GZIP):
                file = gzip.GzipFile(fileobj=file)
            while data:
                data = file.read1(_CHUNK)
                self._chunks.put(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            why = f"standard input: this is gzip, but damaged or cut short ({error})"
            self._chunks.put(BadInput(why))
        except OSError:
            self._chunks.put(b"")
