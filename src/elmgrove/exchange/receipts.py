"""Receipts: what a broker is told of messages that were dealt with, and what comes once more."""

import hashlib
import threading
from collections import OrderedDict, deque
from dataclasses import replace
from typing import TYPE_CHECKING

from elmgrove.exchange.broker_address import Message, Receipt

if TYPE_CHECKING:
    from elmgrove.exchange.link import Link

#: Messages that may wait to be dealt with, and their bytes: what is more stays in the connection. A
#: broker is asked for fewer, but mosquitto gives out all that it kept after it was restarted.
MOST_WAITING, MOST_BYTES = 1000, 16 << 20
# Messages that are remembered after they were dealt with: more than a broker gives out at a time.
_REMEMBERED = 4 * MOST_WAITING


class Receipts:
    """Keeps what was dealt with until a link can tell the broker, and remembers it for longer.

    A link may be lost before the broker has heard of it: then the message comes again, by the same
    number and marked, and is not dealt with a second time. Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = deque[Receipt]()
        self._dealt_with = OrderedDict[int, bytes]()
        # The last link, and the first since which the broker forgot nothing that it owes.
        self._link = self._session = 0
        # The sizes of what waits to be dealt with, by links and numbers: also of what comes again
        # by the next link, as long as it is not known to be of no use.
        self._open = dict[tuple[int, int], int]()
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether so much waits to be dealt with that no more may be read."""
        return len(self._open) >= MOST_WAITING or self._size >= MOST_BYTES

    def begin(self, link: int, *, resumed: bool) -> None:
        """Takes note of a new link; where the broker has not ``resumed``, it owes nothing."""
        self._link = link
        if not resumed:
            self._session = link

    def add(self, message: Message) -> bool:
        """Takes note that a message was dealt with; says whether a broker waits to hear of it."""
        if message.receipt is None:
            return False
        with self._lock:
            self._waiting.append(message.receipt)
            self._close(message.receipt)
            self._dealt_with[message.receipt.number] = _digest(message)
            if len(self._dealt_with) > _REMEMBERED:
                self._dealt_with.popitem(last=False)
        return True

    def owes(self, message: Message) -> bool:
        """Says whether a message is to be dealt with; takes note of it if not.

        What came by a lost link comes again, unless the broker forgot it; and what came again may
        have been dealt with meanwhile.
        """
        if message.receipt is None:
            return True
        if self._session <= message.receipt.link < self._link:
            with self._lock:
                self._close(message.receipt)
            return False
        return not (self._knows(message) and self.add(message))

    def give(self, link: "Link", number: int) -> None:
        """Tells the broker by the link of this number; what came by another comes again."""
        while self._waiting:
            receipt = self._waiting.popleft()
            if receipt.link == number:
                link.acknowledge(receipt.number)

    def taken(self, message: Message, link: int) -> Message | None:
        """Gives a message that came by a link as it is to be heard; None if it was before."""
        receipt = message.receipt
        if receipt is None:
            return message
        known, receipt = self._knows(message), receipt._replace(link=link)
        message = replace(message, receipt=receipt)
        with self._lock:
            self._close(receipt)  # a broker may use a number twice
            self._open[link, receipt.number] = message.size
            self._size += message.size
            self._dealt_with.pop(receipt.number, None)
        if known:
            self.add(message)
            return None
        return message

    def _knows(self, message: Message) -> bool:
        """Whether a message that may have come before was dealt with then."""
        receipt = message.receipt
        if receipt is None or not receipt.again:
            return False
        with self._lock:
            return self._dealt_with.get(receipt.number) == _digest(message)

    def _close(self, receipt: Receipt) -> None:
        self._size -= self._open.pop((receipt.link, receipt.number), 0)


def _digest(message: Message) -> bytes:
    return hashlib.sha256(message.topic.encode() + b"\0" + message.payload).digest()
