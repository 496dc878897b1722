"""The base of all sources of rows."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from elmgrove.algebra import Categories
from elmgrove.device.sources.lines import Line, Text, TextFile
from elmgrove.device.sources.records import Bad, Records
from elmgrove.device.sources.table_file import TableFile
from elmgrove.device.sources.timing import Gap, Timing
from elmgrove.reading import Point

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
