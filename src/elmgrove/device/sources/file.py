"""Rows from one file, as it is now or as it grows, and from standard input."""

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from elmgrove.device.health import Outage
from elmgrove.device.sources.base import (
    POLL,
    Bad,
    Bookmark,
    Item,
    Line,
    Reading,
    Records,
    Source,
    Text,
    TextFile,
    Timing,
    open_file,
)
from elmgrove.errors import BadInput
from elmgrove.reading.layout import Layout

log = logging.getLogger("elmgrove.device")

#: What is given each line of standard input, for the next program.
PassOn = Callable[[bytes], None]


class File(Source):
    """A file that is complete; the iteration ends with it."""

    def __init__(
        self,
        path: Path,
        records: Records,
        timing: Timing,
        bookmark: Bookmark | None,
        layout: Layout,
    ) -> None:
        super().__init__(records, timing)
        self._path = path
        self._bookmark = bookmark
        self._layout = layout

    def __iter__(self) -> Iterator[Item]:
        with open_file(self._path, self._bookmark, self._layout) as text:
            yield from self._whole(text)


class FollowedFile(File):
    """A file that grows, as a log does; the iteration never ends.

    It may appear later, be cut, or be renamed with a new one in its place: the old one is read to
    its end first. A line is a row once its ending is written (a carriage return alone: once the
    next line begins). Where it can't be read for a while, that is told, and tried again.
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
        """Reads the file until another is in its place."""
        with TextFile(self._path, self._bookmark, self._layout.encoding) as text:
            self._begin(text)
            for item in self._growing(text):
                trouble.end()
                if isinstance(item, Reading):
                    self._bookmark = item.bookmark
                yield item
            yield from self._unfinished(text)
            yield from self._last_items(text)
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

    def __init__(
        self, records: Records, timing: Timing, layout: Layout, pass_on: PassOn | None = None
    ) -> None:
        super().__init__(records, timing)
        self._layout = layout
        self._pass_on = pass_on
        self._chunks: queue.Queue[bytes] = queue.Queue(4)

    def __iter__(self) -> Iterator[Item]:
        threading.Thread(target=self._read, name="elmgrove-stdin", daemon=True).start()
        text = Text("standard input", self._layout.encoding)
        while (data := self._next()) != b"":
            if data is None:
                self._timing.idle()
                yield None
            else:
                yield from self._items(text, self._passed_on(text.feed(data)))
        yield from self._items(text, self._passed_on(text.rest()))
        yield from self._last_items(text)

    def _passed_on(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Gives lines one by one: what is said of one comes after it, and before the next."""
        for line in lines:
            if self._pass_on is not None:
                self._pass_on(line.data if line.complete else line.data + b"\n")
            yield line

    def _next(self) -> bytes | None:
        try:
            return self._chunks.get(timeout=POLL)
        except queue.Empty:
            return None

    def _read(self) -> None:
        # Not through sys.stdin: a thread that waits inside it blocks Python's exit.
        handle = sys.stdin.fileno()
        data = b"more"
        while data:
            try:
                data = os.read(handle, 1 << 16)
            except OSError:
                data = b""
            self._chunks.put(data)
