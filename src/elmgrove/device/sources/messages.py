"""Rows from a broker: a message is a row, or one number that is gathered to a row with others."""

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from elmgrove.algebra import Categories, columns_of
from elmgrove.device.sources.base import POLL, Bookmark, Item, Reading, Source
from elmgrove.device.sources.gathering import MOST_NAMES, Gathering, Row, Value
from elmgrove.device.sources.lines import Line, Text
from elmgrove.device.sources.records import Bad, Records
from elmgrove.device.sources.row_topics import Subscription
from elmgrove.device.sources.timing import Timing
from elmgrove.errors import BadInput
from elmgrove.exchange import Message, plain
from elmgrove.reading import Layout, boolean, is_missing, number

log = logging.getLogger("elmgrove.device")

#: What a bookmark says of the rows: the columns that are gathered, or None for whole messages.
GATHERED = "gathered"
# The letters of a column's name, at most, and the topics that are named because they hold no rows.
_LONGEST_NAME, _MOST_LEFT = 200, 10
# What separates the values of a line.
_MARKS = (b",", b";", b"\t", b"|")


class MessageText(Text):
    """Messages as lines of text: each has a name and a number."""

    unit = "message"

    def __init__(self, encoding: str) -> None:
        super().__init__("", "utf-8")
        self._from = encoding
        #: What bookmarks say of the rows.
        self.gathered: Sequence[str] | None = None

    def position(self, line: Line) -> dict[str, Any]:
        """Gives what a restart must know: there is no way back, but the columns stay."""
        return {GATHERED: self.gathered}

    def begin(self, name: str) -> None:
        """Begins the next message, which came under this name."""
        self.name = name
        self._number += 1

    @property
    def where(self) -> str:
        """The message, for people."""
        return f"{self.name}, {self.unit} {self._number}"

    def lines(self, payload: bytes) -> list[Line]:
        """Gives the lines of a message; an object of JSON over several lines is one."""
        if self._from.lower() not in ("utf-8", "utf8", "ascii"):
            payload = payload.decode(self._from, "replace").encode()
        found = [line for line in payload.splitlines() if line.strip()]
        if found and found[0].lstrip().startswith(b"{"):
            whole = all(line.lstrip().startswith(b"{") for line in found)
            found = found if whole else [b" ".join(found)]
        return [Line(line, self._number, self._number) for line in found]


class Messages(Source):
    """Messages of a broker, as they come; the iteration never ends.

    What is a number alone is a value of its topic, and gathered to a row with those of the other
    topics; all else is a line of JSON, CSV or line protocol, and a row of its own. The first good
    row decides which of the two rows are, and the others are left alone from then on. A message
    that the broker had retained is old, and no row.

    A message is acknowledged once its row was judged, so that the broker keeps it until then; those
    that come while the agent is away wait there. That is before what was learned of it is saved: a
    broker owes few messages at a time, and would give out no more until the next save. So a crash
    loses what was learned since the last one. Whatever a message is, it is at worst a bad row.
    """

    def __init__(
        self,
        subscription: Subscription,
        records: Records,
        timing: Timing,
        layout: Layout,
        gathering: Gathering,
        bookmark: Bookmark | None,
    ) -> None:
        super().__init__(records, timing)
        self._subscription = subscription
        self._layout = layout
        self._gathering = gathering
        self._bookmark = bookmark
        self._text = MessageText(layout.encoding)
        self._rows = MessageText("utf-8")
        self._rows.unit = "row"
        # Whether rows are gathered; None while that is open.
        self._gathers = None if bookmark is None else bookmark[GATHERED] is not None
        self._influx = layout.is_influx()
        # Columns whose values need not be numbers.
        self._worded = {*layout.categories, *_more_columns(layout)}
        self._left: set[str] = set()
        records.go_back(bookmark)

    def __iter__(self) -> Iterator[Item]:
        with closing(self._subscription) as messages:
            while True:
                message = messages.next(POLL)
                if messages.broken:
                    self._gap = True
                row = self._gathering.due(time.monotonic())
                if row is not None:
                    yield from self._gathered(row)
                if message is None:
                    self._timing.idle()
                    yield None
                else:
                    yield from self._read(message)
                    messages.acknowledge(message)

    def _read(self, message: Message) -> Iterator[Reading | Bad]:
        self._text.begin(plain(message.topic))
        name = self._subscription.name_of(message.topic)
        if not message.payload.strip():
            return
        if len(name) > _LONGEST_NAME:
            yield self._bad(f"a topic of more than {_LONGEST_NAME} letters")
        elif (values := self._value(name, message.payload)) is not None:
            yield from self._take(name, values[0])
        elif not self._gathers:
            yield from self._whole_rows(message.payload)
        elif self._gathering.knows(name):
            yield self._bad(f"{message.payload!r:.60} is no number")
        else:
            self._leave(name, "is no number")

    # Whole rows

    def _whole_rows(self, payload: bytes) -> Iterator[Reading | Bad]:
        lines = self._text.lines(payload)
        if any(line.data.count(mark) > MOST_NAMES for line in lines for mark in _MARKS):
            yield self._bad(f"more than {MOST_NAMES:,} values")
            return
        silent = True
        for item in self._tried(self._text, lines):
            silent = False
            yield item
        if self._bookmark is None and not self._records.waits and not self._influx:
            # The next message stands for itself: this one may have been nothing of ours.
            self._records.go_back(None)
            if silent:
                yield self._bad("no row; names come in one message with their values, or in JSON")

    def _tried(self, text: MessageText, lines: Sequence[Line]) -> Iterator[Reading | Bad]:
        """Reads lines; what would be no file of rows at all is no more here than a bad row."""
        try:
            for item in self._items(text, lines):
                if isinstance(item, Reading):
                    self._bookmark = item.bookmark
                    self._gathers = text.gathered is not None
                yield item
        except BadInput as error:
            self._records.go_back(self._bookmark)
            self._gap = True
            yield Bad(text.where, str(error).removeprefix(text.where).lstrip(":, "))

    # Numbers

    def _value(self, name: str, payload: bytes) -> tuple[Value] | None:
        """The value that a message is; None where it is something else."""
        if self._influx or payload.lstrip().startswith(b"{"):
            return None
        try:
            text = payload.decode(self._layout.encoding).strip()
        except UnicodeDecodeError:
            return None
        if name in self._worded:
            return (text,)
        if is_missing(text):
            return (None,)
        found = boolean(text)
        found = number(text, self._layout.decimal) if found is None else found
        return None if found is None else (found,)

    def _take(self, name: str, value: Value) -> Iterator[Reading | Bad]:
        if self._gathers is False:
            self._leave(name, "is one number, where a row is a message")
            return
        try:
            rows = self._gathering.take(name, value, time.monotonic())
        except BadInput as error:
            yield self._bad(str(error))
            return
        if not self._gathering.knows(name):
            self._leave(name, "is none of the columns")
        for row in rows:
            yield from self._gathered(row)

    def _gathered(self, row: Row) -> Iterator[Reading | Bad]:
        while self._gathering.findings:
            log.info("%s: %s", self._subscription.shown, self._gathering.findings.pop(0))
        self._rows.begin(self._subscription.shown)
        self._rows.gathered = self._gathering.columns
        return self._tried(self._rows, self._rows.lines(json.dumps(row).encode()))

    # Both

    def _bad(self, reason: str) -> Bad:
        self._gap = True
        return Bad(self._text.where, reason)

    def _leave(self, name: str, why: str) -> None:
        """Tells that messages are no rows, once for each topic, and of the first ones alone."""
        if name not in self._left and len(self._left) < _MOST_LEFT:
            self._left.add(name)
            log.info("%s: what comes as %.60r %s: left alone", self._subscription.shown, name, why)


def gathering_for(
    layout: Layout,
    features: Sequence[str] | None,
    categories: Categories | None,
    bookmark: Bookmark | None,
    seconds: float,
) -> Gathering:
    """Makes what gathers numbers: for the columns that are known, or for those that it finds."""
    if bookmark is not None and bookmark.get(GATHERED):
        return Gathering(bookmark[GATHERED], seconds)
    wanted = columns_of(features, categories or {}) if features else list(layout.columns)
    columns = dict.fromkeys([*wanted, *_more_columns(layout)]) if wanted else ()
    return Gathering(columns, seconds, () if features else layout.drop)


def _more_columns(layout: Layout) -> list[str]:
    """The columns that are read and not learned: the label, and the time."""
    return [name for name in (layout.label, (layout.time or "").partition("=")[0]) if name]
