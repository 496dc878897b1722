"""Messages of a broker, from its thread to the agent's: in their order, and none twice at work."""

import logging
import queue
from concurrent.futures import Future
from typing import TYPE_CHECKING

from elmgrove.device.access import Access, Away, client_id
from elmgrove.device.topics import RowTopics
from elmgrove.exchange import Message

if TYPE_CHECKING:
    from elmgrove.exchange import Broker

log = logging.getLogger("elmgrove.device")

#: Messages that the broker does not keep and that wait for the agent, and the bytes of all that do;
#: of more, the newest get lost.
CAPACITY, MOST_BYTES = 1000, 16 << 20


class Subscription:
    """Hears the topics of rows, and keeps their messages until the agent's thread takes them.

    A message that the broker keeps until it is acknowledged comes again after a lost link: what
    still waits then was not dealt with, and is dropped here. ``own`` are topics under which the
    device itself speaks, which are no rows of its.
    """

    def __init__(self, broker: "Broker", topics: RowTopics, own: str = "") -> None:
        self._broker = broker
        self._topics = topics
        self._own = own
        # Not a SimpleQueue: a signal in the last moment of its wait may make that last for ever.
        self._waiting = queue.Queue[Message]()
        self._away = Away(broker, "rows are waited for")
        self._links = 0
        # Bytes that came, and of these what the agent's thread took: each is one thread's.
        self._bytes = self._bytes_taken = 0
        self._lost = self._lost_told = 0
        self._broken = False
        #: The topics, for people.
        self.shown = ", ".join(topics.filters)
        broker.follow(topics.filters, self._hear).add_done_callback(self._tell)

    def name_of(self, topic: str) -> str:
        """Gives the name of the column that numbers under a topic are of."""
        return self._topics.name_of(topic)

    def next(self, seconds: float) -> Message | None:
        """Gives the next message, or None if there is none after so many seconds."""
        self._look()
        try:
            message = self._waiting.get(timeout=seconds)
        except queue.Empty:
            return None
        self._bytes_taken += message.size
        return message if self._broker.owes(message) else None

    @property
    def broken(self) -> bool:
        """Whether messages may have been lost since this was last asked."""
        broken, self._broken = self._broken, False
        return broken

    def acknowledge(self, message: Message) -> None:
        """Says that a message was dealt with."""
        self._broker.acknowledge(message)

    def close(self) -> None:
        """Lets go of the broker, which keeps what comes meanwhile."""
        self._broker.close()

    def _hear(self, message: Message) -> None:
        if message.retained or (self._own and message.topic.startswith(self._own)):
            self._broker.acknowledge(message)
            return
        waiting = self._bytes - self._bytes_taken
        is_full = self._waiting.qsize() >= CAPACITY or waiting >= MOST_BYTES
        # For what is owed until it is acknowledged there is room: no more is read than there is.
        if message.receipt is None and is_full:
            self._lost += 1
        else:
            self._bytes += message.size
            self._waiting.put(message)

    def _tell(self, done: "Future[None]") -> None:
        if not done.cancelled() and done.exception() is None:
            log.info("subscribed to %s at %s", self.shown, self._broker.address.place)

    def _look(self) -> None:
        self._away.look()
        if self._broker.links != self._links:
            self._links = self._broker.links
            self._broken = self._broken or not self._broker.resumed
        if self._lost != self._lost_told:
            self._broken = True
            if not self._lost_told:
                log.warning(
                    "%s: messages come faster than rows are judged, and some get lost; publish "
                    "them with QoS 1, and the broker waits",
                    self.shown,
                )
            self._lost_told = self._lost


def subscribed(where: str, pattern: str, name: str, access: Access, own: str = "") -> Subscription:
    """Subscribes to the rows at a broker's URL, for the device of this name."""
    topics = RowTopics.of(where, pattern)
    client = client_id("rows", name, *topics.filters)
    return Subscription(access.broker(where, client, clean=False, receipts=True), topics, own)
