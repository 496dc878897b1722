"""Rows from a broker: a message is a row, or one number that is gathered to a row with others."""

import hashlib
import json
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations, zip_longest
from typing import Any

from elmgrove.algebra.basis import Categories, columns_of
from elmgrove.device.mqtt import Away, client_id, open_broker
from elmgrove.device.settings import Settings
from elmgrove.device.sources.text import POLL, Bad, Bookmark, Item, Line, Reading, Source, Text
from elmgrove.errors import BadInput, plain
from elmgrove.exchange.broker_address import BrokerAddress, Message
from elmgrove.reading.cells import boolean, is_missing, number
from elmgrove.reading.columns import some_of
from elmgrove.reading.layout import Layout


@dataclass(frozen=True)
class RowTopics:
    """Which topics hold rows: some ``filters``, and what is before a column's name in them all.

    No message is under two of them: a broker would give it out for each, and it would be two rows.

    >>> RowTopics.of("mqtt://host/plant/pump1/#").name_of("plant/pump1/motor/temp")
    'motor/temp'
    >>> RowTopics.of("mqtt://host/plant", "pump1/+ hall/temp").filters
    ('plant/pump1/+', 'plant/hall/temp')
    """

    filters: tuple[str, ...]
    base: str

    @classmethod
    def of(cls, source: str, pattern: str = "") -> "RowTopics":
        """Reads a broker's URL whose topic holds the rows, or has those of the pattern below it.

        ``BadInput`` for two that overlap.
        """
        topic = BrokerAddress.parsed(source).topic
        if pattern:
            below = [f"{source.rstrip('/')}/{one}" for one in pattern.split()]
            filters = tuple(BrokerAddress.parsed(one).topic for one in below)
            for one, two in combinations(filters, 2):
                if _overlap(one.split("/"), two.split("/")):
                    raise BadInput(
                        f"pattern: a message may be under {one} and under {two}, and would be two "
                        "rows; name topics that do not overlap, or one that covers both"
                    )
            return cls(filters, topic)
        if not topic:
            raise BadInput("source: name the topics of the rows, as mqtt://host/plant/pump1/#")
        levels = topic.split("/")
        wild = [place for place, level in enumerate(levels) if level in ("+", "#")]
        return cls((topic,), "/".join(levels[: wild[0] if wild else -1]))

    def name_of(self, topic: str) -> str:
        return topic.removeprefix(f"{self.base}/") if self.base else topic


def _overlap(one: list[str], two: list[str]) -> bool:
    """Says whether a topic of the first may be one of the second."""
    # The broker's own topics, which + and # do not stand for.
    if one[0].startswith("$") != two[0].startswith("$"):
        return False
    for here, there in zip_longest(one, two):
        if "#" in (here, there):
            return True
        if here != there and (None in (here, there) or "+" not in (here, there)):
            return False
    return True


#: Names that are told apart, at most: who publishes under ever new ones fills no memory.
MOST_NAMES = 1000
# A name is a column if it came so often by the time that one came, or rows were due, once more.
_OFTEN = 2

Value = float | str | None
Row = dict[str, Value]


class Gathering:
    """Makes one row of the newest values of all columns.

    A row is complete when each column has a value again; of one that came twice before that, the
    newer counts. With ``seconds``, there is a row every so many seconds instead, in which a column
    that did not come is missing. Where no ``columns`` are known they are found: those that came
    twice by the time that a name comes a third time, or that a third row is due.
    """

    def __init__(
        self, columns: Collection[str] = (), seconds: float = 0.0, aside: Collection[str] = ()
    ) -> None:
        #: The columns, once they are known; in the order of their names if they were found.
        self.columns: tuple[str, ...] = tuple(columns)
        self._seconds = seconds
        self._aside = frozenset(aside)
        self._came: Counter[str] = Counter()
        self._new: Row = {}
        self._due: float | None = None
        self._turns = 0
        #: What is worth telling.
        self.findings: list[str] = []

    def knows(self, name: str) -> bool:
        """Says whether a value of this name has a place in rows, as far as that is known."""
        return name in self.columns if self.columns else name not in self._aside

    def take(self, name: str, value: Value, now: float) -> list[Row]:
        """Takes a value in; gives the rows that are complete with it, mostly none.

        ``BadInput`` if there are more names than can be told apart.
        """
        if self._seconds and self._due is None:
            self._due = now + self._seconds
        rows = list[Row]()
        if not self.columns:
            self._count(name)
            # What shows the columns is the first value of the row after.
            rows += self._completed()
        if self.knows(name):
            self._new[name] = value
        return rows + self._completed()

    def due(self, now: float) -> Row | None:
        """Gives the row whose time has come; None before that, and where nothing came."""
        if self._due is None or now < self._due:
            return None
        # Rows that nobody waited for, as while the machine slept, are not made up.
        self._due += self._seconds * (1 + (now - self._due) // self._seconds)
        self._turns += 1
        if not self.columns and self._turns > _OFTEN:
            self._settle()
        row = self._taken()
        return row if self.columns and any(value is not None for value in row.values()) else None

    def _completed(self) -> list[Row]:
        whole = bool(self.columns) and not self._seconds and len(self._new) == len(self.columns)
        return [self._taken()] if whole else []

    def _count(self, name: str) -> None:
        """Counts a name while columns are not known: it may show which they are."""
        if name in self._aside:
            return
        if name not in self._came and len(self._came) >= MOST_NAMES:
            raise BadInput(f"more than {MOST_NAMES:,} topics: subscribe to fewer, or name columns")
        self._came[name] += 1
        if self._came[name] > _OFTEN and not self._seconds:
            self._settle()

    def _settle(self) -> None:
        often = sorted(name for name, times in self._came.items() if times >= _OFTEN)
        if not often:
            return
        self.columns = tuple(often)
        self._new = {name: value for name, value in self._new.items() if name in often}
        self.findings.append(f"a row is a value of each of {len(often)} topics: {some_of(often)}")
        rare = sorted(self._came.keys() - {*often})
        if rare:
            self.findings.append(
                f"{some_of(rare)} came only once meanwhile: left out; name columns to wait for them"
            )
        self._came.clear()

    def _taken(self) -> Row:
        row = {name: self._new.get(name) for name in self.columns}
        self._new = {}
        return row | dict.fromkeys(self._aside)


log = logging.getLogger("elmgrove.device")

#: Messages that wait for the agent, and their bytes, at most.
MOST_WAITING, MOST_BYTES = 1000, 16 << 20


class Subscription:
    """Hears the topics of rows, and keeps their messages until the agent's thread takes them.

    Where too much waits, no more is read of what the broker keeps until it is acknowledged; what it
    does not keep gets lost. What it keeps comes again by the next link if that was lost before the
    broker heard of the acknowledgement, and is not dealt with twice. ``own`` are topics under which
    the device itself speaks, which are no rows of its.
    """

    def __init__(self, settings: Settings, name: str, own: str = "") -> None:
        self._topics = RowTopics.of(settings.source, settings.pattern)
        self._own = own
        #: The topics, for people.
        self.shown = ", ".join(self._topics.filters)
        self._changed = threading.Condition()
        self._waiting = deque[Message]()
        self._bytes = self._lost = self._lost_told = self._session = 0
        self._closed = self._broken = self._reported = False
        # What was dealt with, by the number that it comes again by: more than a broker owes.
        self._dealt_with = OrderedDict[int, bytes]()
        self._broker = open_broker(
            settings,
            settings.source,
            client_id("rows", name, *self._topics.filters),
            self._topics.filters,
            self._hear,
            keeps=True,
            subscribed=self._tell,
        )
        self._away = Away(self._broker, "rows are waited for")
        self._broker.start()

    def name_of(self, topic: str) -> str:
        return self._topics.name_of(topic)

    def next(self, seconds: float) -> Message | None:
        """Gives the next message, or None if there is none after so many seconds."""
        self._look()
        with self._changed:
            if not self._waiting:
                self._changed.wait(seconds)
            if not self._waiting:
                return None
            message = self._waiting.popleft()
            self._bytes -= len(message.payload)
            self._changed.notify_all()
        return message if self._owed(message) else None

    @property
    def broken(self) -> bool:
        """Whether messages may have been lost since this was last asked."""
        broken, self._broken = self._broken, False
        return broken

    def acknowledge(self, message: Message) -> None:
        if message.number:
            self._dealt_with[message.number] = _digest(message)
            if len(self._dealt_with) > 4 * MOST_WAITING:
                self._dealt_with.popitem(last=False)
        self._broker.acknowledge(message)

    def close(self) -> None:
        """Lets go of the broker, which keeps what comes meanwhile."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._broker.close()

    def _owed(self, message: Message) -> bool:
        """Says whether to deal with a message: not if it comes again, and was dealt with before."""
        if not message.again:
            self._dealt_with.pop(message.number, None)  # it was another message's number
        elif self._dealt_with.get(message.number) == _digest(message):
            self._broker.acknowledge(message)
            return False
        return True

    def _hear(self, message: Message) -> None:
        if message.retained or (self._own and message.topic.startswith(self._own)):
            self._broker.acknowledge(message)
            return
        with self._changed:
            while self._is_full and message.number and not self._closed:
                self._changed.wait()
            if self._is_full:
                self._lost += 1
            else:
                self._bytes += len(message.payload)
                self._waiting.append(message)
                self._changed.notify_all()

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= MOST_WAITING or self._bytes >= MOST_BYTES

    def _tell(self) -> None:
        if not self._reported:
            log.info("subscribed to %s at %s", self.shown, self._broker.address.place)
        self._reported = True

    def _look(self) -> None:
        self._away.look()
        if self._broker.session != self._session:
            self._session, self._broken = self._broker.session, True
        if self._lost != self._lost_told:
            self._broken = True
            if not self._lost_told:
                log.warning(
                    "%s: messages come faster than rows are judged, and some get lost; publish "
                    "them with QoS 1, and the broker waits",
                    self.shown,
                )
            self._lost_told = self._lost


def _digest(message: Message) -> bytes:
    return hashlib.sha256(message.topic.encode() + b"\0" + message.payload).digest()


#: What a bookmark says of the rows: the columns that are gathered, or None for whole messages.
GATHERED = "gathered"


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
        self.name = name
        self._number += 1

    @property
    def where(self) -> str:
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
        gathering: Gathering,
        layout: Layout,
        features: Sequence[str] | None,
        categories: Categories | None,
        bookmark: Bookmark | None,
    ) -> None:
        super().__init__(layout, features, categories, bookmark, live=True)
        self._subscription = subscription
        self._gathering = gathering
        self._text = MessageText(layout.encoding)
        self._rows = MessageText("utf-8")
        self._rows.unit = "row"
        # Whether rows are gathered; None while that is open.
        self._gathers = None if bookmark is None else bookmark[GATHERED] is not None
        self._influx = layout.is_influx()
        # Columns whose values need not be numbers.
        self._worded = {*(categories or {}), *_more_columns(layout)}
        self._left: set[str] = set()
        self._begin_lines(at_start=bookmark is None)

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
                    self._gaps.idle()
                    yield None
                else:
                    yield from self._read(message)
                    messages.acknowledge(message)

    def _read(self, message: Message) -> Iterator[Reading | Bad]:
        self._text.begin(plain(message.topic))
        name = self._subscription.name_of(message.topic)
        if not message.payload.strip():
            return
        if len(name) > 200:
            yield self._bad("a topic of more than 200 letters")
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
        separators = (b",", b";", b"\t", b"|")
        if any(line.data.count(one) > MOST_NAMES for line in lines for one in separators):
            yield self._bad(f"more than {MOST_NAMES:,} values")
            return
        silent = True
        for item in self._tried(self._text, lines):
            silent = False
            yield item
        if self._bookmark is None and not self._influx:
            # The next message stands for itself: this one may have been nothing of ours.
            self._go_back(None)
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
            self._go_back(self._bookmark)
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
        if name not in self._left and len(self._left) < 10:
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
