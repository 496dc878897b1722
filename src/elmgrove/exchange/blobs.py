"""Blobs: the bytes of entries, retained by a broker or, where they are too many, on a server."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from elmgrove.errors import BadFile, ElmgroveError
from elmgrove.exchange.announcements import Announcement
from elmgrove.exchange.base import SLOWEST, Exchange
from elmgrove.exchange.board import Board
from elmgrove.exchange.broker import SECONDS, Broker
from elmgrove.exchange.broker_address import Message
from elmgrove.exchange.responses import plain
from elmgrove.federation import Contribution, Departure, Entry, Refused, address_of

log = logging.getLogger("elmgrove.exchange")
#: The bytes of an entry that a broker retains, at most; it may say that it takes fewer.
MOST_RETAINED = 1 << 20
# Entries that are read at a time, and their bytes.
_AT_ONCE, _BYTES_AT_ONCE = 20, 8 << 20
#: The bytes of entries that a device keeps, not to read them again.
MOST_KEPT = 32 * 2**20


class Kept:
    """Keeps entries as they were announced; where there are too many, those that were used last."""

    def __init__(self) -> None:
        self._entries = OrderedDict[str, tuple[Announcement, Entry]]()
        self._size = 0

    def get(self, announced: Announcement) -> Entry | None:
        """Finds the entry that was announced so."""
        found = self._entries.get(announced.device)
        if found is None or found[0].version != announced.version:
            return None
        self._entries.move_to_end(announced.device)
        return found[1]

    def put(self, announced: Announcement, entry: Entry) -> None:
        """Keeps an entry in the place of what was kept of this device."""
        self._drop(announced.device)
        self._entries[announced.device] = announced, entry
        self._size += announced.size
        while self._size > MOST_KEPT:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Drops all entries that were kept."""
        self._entries.clear()
        self._size = 0

    def _drop(self, device: str) -> None:
        found = self._entries.pop(device, None)
        if found is not None:
            self._size -= found[0].size


class Blobs:
    """Puts the bytes of one's own entry where they belong, and reads those of others.

    ``server`` is the exchange for those that are too large for a message, at ``url``. Where others
    say that theirs are is told to people, and nothing is asked of an address that came so.
    """

    def __init__(self, broker: Broker, board: Board, server: Exchange | None, url: str) -> None:
        self._broker = broker
        self._board = board
        self._server = server
        self._url = url
        self._kept = Kept()
        # Why some were left out the last time: the same is told once.
        self._left_out = dict[str, str]()

    def announcement(self, entry: Entry, blob: bytes) -> Announcement:
        """Says where an entry belongs; ``Refused`` if it is too large, and there is no server."""
        around = Message(self._topic(entry.origin), b"").size
        most = min(MOST_RETAINED, self._broker.longest - around)
        is_large = isinstance(entry, Contribution) and len(blob) > most
        if is_large and self._server is None:
            raise Refused(
                f"this contribution has {len(blob):,} bytes, and {self._broker.address.place} "
                f"retains no more than {most:,}; set blobs to a federation on an Elmgrove server, "
                "or use fewer units"
            )
        return Announcement.of(entry, blob, self._url if is_large else "")

    def put(self, entry: Entry, blob: bytes, new: Announcement, held: Announcement | None) -> None:
        """Puts an entry where it is announced to be, and takes the former one away elsewhere."""
        was_there = "" if held is None else held.url
        if self._server is not None and (new.url or was_there):
            self._server.publish(entry)
        elif was_there:
            log.warning("what was contributed before stays on the server at %s", plain(was_there))
        is_here = not (new.left or new.url)
        timeout = SECONDS + len(blob) / SLOWEST
        topic, content = self._topic(entry.origin), blob if is_here else b""
        self._broker.publish(topic, content, retain=True, timeout=timeout)

    def read(
        self, announced: Sequence[Announcement], require: Callable[[Entry], None]
    ) -> list[Entry]:
        """Gives the entries that were announced, in this order, as far as they are there."""
        found = {one.device: self._kept.get(one) for one in announced}
        for some in _together([one for one in announced if found[one.device] is None]):
            blobs = self._departures(some) | self._retained(some) | self._on_server(some)
            for one in some:
                found[one.device] = self._read(one, blobs.get(one.device), require)
        return [entry for entry in found.values() if entry is not None]

    def forget(self) -> None:
        """Drops the entries of others that were kept, so that each is read again when needed."""
        self._kept.clear()

    def rotate_key(self) -> bool:
        """Changes the device's key on the server, if there is one; see ``Exchange``."""
        return self._server is not None and self._server.rotate_key()

    def close(self) -> None:
        """Closes the connection to the server, if there is one."""
        if self._server is not None:
            self._server.close()

    def _read(
        self, one: Announcement, blob: bytes | None, require: Callable[[Entry], None]
    ) -> Entry | None:
        try:
            if blob is None:
                raise BadFile(self._not_there(one))
            entry = one.entry_of(blob)
            require(entry)
        except ElmgroveError as error:
            if self._left_out.get(one.device) != str(error):
                log.warning("the entry of %s is left out: %s", plain(one.device), plain(str(error)))
            self._left_out[one.device] = str(error)
            return None
        self._left_out.pop(one.device, None)
        if entry.epoch == one.epoch:
            self._kept.put(one, entry)
        return entry

    def _departures(self, some: Sequence[Announcement]) -> dict[str, bytes]:
        left = [one for one in some if one.left]
        return {one.device: Departure(one.device, one.epoch).to_bytes() for one in left}

    def _retained(self, some: Sequence[Announcement]) -> dict[str, bytes]:
        here = [one for one in some if not (one.left or one.url)]
        size = sum(one.size for one in here)
        topics = {self._topic(one.device): one.device for one in here}
        found = self._board.contents(topics, size)
        return {topics[topic]: blob for topic, blob in found.items()}

    def _on_server(self, some: Sequence[Announcement]) -> dict[str, bytes]:
        there = [one.device for one in some if one.url and not one.left]
        if self._server is None or not there:
            return {}
        return {entry.origin: entry.to_bytes() for entry in self._server.fetch(there)}

    def _not_there(self, one: Announcement) -> str:
        if not one.url:
            return "it was announced, and is not there"
        if self._server is None:
            return f"it is on the server at {one.url}; set blobs in order to read it"
        return f"it was announced to be at {one.url}, and is not on this device's server"

    def _topic(self, device: str) -> str:
        return self._broker.address.under("blobs", address_of(device))


def _together(announced: Sequence[Announcement]) -> Iterator[list[Announcement]]:
    """Gives as many at a time as are read together."""
    some, size = list[Announcement](), 0
    for one in announced:
        if some and (len(some) == _AT_ONCE or size + one.size > _BYTES_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(one)
        size += one.size
    if some:
        yield some
