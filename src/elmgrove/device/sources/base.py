"""The base of all sources of rows."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from elmgrove.device.sources.lines import Line, Text, TextFile
from elmgrove.device.sources.records import Bad, Records

#: Seconds between two looks for something new.
POLL = 0.1

Bookmark = dict[str, Any]


class Reading(NamedTuple):
    """One row, where it is (for messages), and the bookmark after it (for a restart).

    ``follows`` is False where the row before it may be missing: after a bad row or a cut, and at
    a start that found no bookmark to go on from. ``time`` is when it was measured, in seconds since
    1970 (UTC), where the data tell.
    """

    row: list[float]
    where: str
    bookmark: Bookmark | None
    follows: bool = True
    time: float | None = None


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

    def __init__(self, records: Records) -> None:
        self._records = records
        self._gap = True

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns' names in the order of the row; None where the file has no names."""
        return self._records.names

    @property
    def width(self) -> int | None:
        """How many numbers a row has; None before the first row."""
        return self._records.width

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Gives the rows after the bookmark that the source was opened with."""

    def saved(self, bookmark: Bookmark) -> None:  # noqa: B027 (most sources have nothing to do)
        """Tells the source that a restart would begin at this bookmark: what is before may go."""

    def _whole(self, text: TextFile) -> Iterator[Reading | Bad]:
        """Reads all of a file that is complete, with or without a line ending at its end."""
        self._begin(text)
        yield from self._items(text, text.lines())
        yield from self._items(text, text.rest())

    def _begin(self, text: TextFile) -> None:
        self._records.begin(at_start=text.began == 0)
        # Where a bookmark fitted, the next row follows the one that it came with.
        self._gap = self._gap and text.began == 0

    def _items(self, text: Text, lines: Iterable[Line]) -> Iterator[Reading | Bad]:
        for line in lines:
            where = f"{text.name}, line {line.number}"
            row = self._records.row(where, line)
            if isinstance(row, Bad):
                self._gap = True
                yield row
            elif row is not None:
                follows, self._gap = not self._gap, False
                yield Reading(row, where, self._bookmark_after(text, line), follows)

    def _bookmark_after(self, text: Text, line: Line) -> Bookmark | None:
        position = text.position(line)
        return None if position is None else {**position, **self._records.bookmark}


def pause() -> None:
    """Waits a moment before the next look for something new."""
    time.sleep(POLL)
