"""Rows from standard input."""

import os
import queue
import sys
import threading
from collections.abc import Iterator

from elmgrove.device.sources.records import Records
from elmgrove.device.sources.source import POLL, Item, Source
from elmgrove.device.sources.text import Text

_CHUNK = 1 << 16
_CHUNKS_AHEAD = 4


class StandardInput(Source):
    """Rows that another program writes. The iteration ends with it; there is no way back.

    A thread reads ahead a little, since not every system can ask a pipe whether it has something.
    """

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self._chunks: queue.Queue[bytes] = queue.Queue(_CHUNKS_AHEAD)

    def __iter__(self) -> Iterator[Item]:
        threading.Thread(target=self._read, name="elmgrove-stdin", daemon=True).start()
        text = Text("standard input")
        while (data := self._next()) != b"":
            if data is None:
                yield None
            else:
                yield from self._items(text, text.feed(data))
        yield from self._items(text, text.rest())

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
                data = os.read(handle, _CHUNK)
            except OSError:
                data = b""
            self._chunks.put(data)
