"""The base of all sources of rows."""

import time
import time as clock
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from elmgrove.algebra.basis import Categories
from elmgrove.device.sources.lines import Bad, BookmarkedFile, Line, Records, Text, TextFile
from elmgrove.reading.arrays import NpyArray, ParquetTable, opened_table
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_protocol import Point
from elmgrove.reading.times import Gaps
from elmgrove.reading.times import told as time_told

# By arrival, a gap is so many times as long as the longest pause of late, and at least so long:
# rows may wait in buffers, and come in bursts.
_SEVERAL, _SECONDS = 5.0, 10.0
# Pauses that must be known, and those that are remembered.
_LEAST, _MOST = 8, 100


class Gap(NamedTuple):
    """A time without rows, from the last row before it to the first one after it.

    ``backwards`` says that many of the last rows came before the one in front of them.
    """

    begin: float
    end: float
    backwards: bool = False

    def __str__(self) -> str:
        begin, end = time_told(self.begin), time_told(self.end)
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
        self._pauses: deque[float] = deque(maxlen=_MOST)
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
        now = clock.time()
        (last, after_idle), self._arrived, self._idle = (self._arrived, self._idle), now, False
        if last is None or not after_idle:
            return None
        pause, known = now - last, len(self._pauses)
        longest = max(self._pauses, default=0.0)
        self._pauses.append(pause)
        gap = known >= _LEAST and pause > max(_SECONDS, _SEVERAL * longest)
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
