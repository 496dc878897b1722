"""Receipts: what a broker is told of messages that were dealt with, and what comes once more."""

import hashlib
import threading
from collections import OrderedDict, deque
from dataclasses import replace
from typing import TYPE_CHECKING

from elmgrove.exchange.broker_address import Message, Receipt

if TYPE_CHECKING:
    from elmgrove.exchange.link import Link

#: Messages that may wait to be dealt with. A broker is asked for fewer, but mosquitto gives out all
#: that it kept after it was restarted: what is more stays in the connection.
MOST_WAITING = 1000
# Messages that are remembered after they were dealt with: more than a broker gives out at a time.
_REMEMBERED = 4 * MOST_WAITING


class Receipts:
    """Keeps what was dealt with until a link can tell the broker, and remembers it for longer.

    A link may be lost before the broker has heard of it: then the message comes again, by the same
    number and marked, and is not heard a second time. Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = deque[Receipt]()
        self._dealt_with = OrderedDict[int, bytes]()
        # The numbers of what was heard by the last link and not dealt with yet.
        self._link, self._open = 0, set[int]()

    @property
    def full(self) -> bool:
        """Whether so many messages wait to be dealt with that no more may be read."""
        return len(self._open) >= MOST_WAITING

    def add(self, message: Message) -> bool:
        """Takes note that a message was dealt with; says whether a broker waits to hear of it."""
        if message.receipt is None:
            return False
        with self._lock:
            self._waiting.append(message.receipt)
            if message.receipt.link == self._link:
                self._open.discard(message.receipt.number)
            self._dealt_with[message.receipt.number] = _digest(message)
            if len(self._dealt_with) > _REMEMBERED:
                self._dealt_with.popitem(last=False)
        return True

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
        message = replace(message, receipt=receipt._replace(link=link))
        with self._lock:
            if link != self._link:
                self._link = link
                self._open.clear()
            self._open.add(receipt.number)
            known = self._dealt_with.pop(receipt.number, None)
        if receipt.again and known == _digest(message):
            self.add(message)
            return None
        return message


def _digest(message: Message) -> bytes:
    return hashlib.sha256(message.topic.encode() + b"\0" + message.payload).digest()
