"""A board: what a broker retains of a federation, read to its end."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import TypeVar

from elmgrove.errors import BadFile, ElmgroveError
from elmgrove.exchange.announcements import MOST_ANNOUNCED, SHARDS, Announcement, shard_of
from elmgrove.exchange.base import SLOWEST, Unauthorized, Unreachable
from elmgrove.exchange.broker import SECONDS, Broker
from elmgrove.exchange.broker_address import Message
from elmgrove.exchange.responses import plain
from elmgrove.federation import address_of

log = logging.getLogger("elmgrove.exchange")
#: The bytes of all announcements, with their topics, that a device remembers.
MOST_HEARD = 16 * 2**20
#: From so many announcements of one shard on, a broker may drop some by its usual settings.
MANY = 1000
#: Seconds in which nothing comes, and then one's own echo is missed.
PATIENCE = 5.0
# Links that may be lost while something is read.
_TRIES = 3
# Announcements of which is told at a time that they are none: there may be millions.
_TOLD = 5

Read = TypeVar("Read")


class Echoes:
    """Publishes an echo and waits until it is heard: a broker gives out one after the other.

    No broker says when it has given out all that it retains, but what it had for a device when
    that published its echo comes before the echo.
    """

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._changed = threading.Condition()
        self._awaited = dict[bytes, "Future[None]"]()

    def listen(self) -> None:
        """Asks the broker for one's own echoes, as long as there is this link."""
        self._broker.subscribe([self._topic], self._hear, lasts=False)

    def settle(self, size: int) -> None:
        """Waits until all is heard that the broker has now, of at most so many bytes.

        Returns early where the link is lost meanwhile. ``Unreachable`` if the broker drops
        messages or does not come to an end, ``Unauthorized`` if the device does not hear what it
        publishes.
        """
        link, until = self._broker.links, time.monotonic() + SECONDS + size / SLOWEST
        self._awaited.clear()
        first = self._publish(until)
        if self._comes(first, link, until):
            return
        place = self._broker.address.place
        if not self._comes(self._publish(until), link, until):
            raise Unauthorized(
                f"{place} takes what this device writes to {self._topic}, and does not let it read "
                "that; allow it in the broker's access list"
            )
        if first in self._awaited and self._broker.links == link:
            raise Unreachable(
                f"{place} drops messages when many are read; raise max_queued_messages there"
            )

    def _publish(self, until: float) -> bytes:
        echo = secrets.token_hex(8).encode()
        with self._changed:
            left = until - time.monotonic()
            self._awaited[echo] = self._broker.send(self._topic, echo, timeout=left)
        return echo

    def _comes(self, echo: bytes, link: int, until: float) -> bool:
        """Waits for an echo; says whether it came, or can't come any more by this link."""
        with self._changed:
            while echo in self._awaited and self._broker.links == link:
                trouble = self._broker.trouble
                if trouble is not None:
                    raise type(trouble)(*trouble.args)
                if time.monotonic() > until:
                    place = self._broker.address.place
                    raise Unreachable(f"{place}: what it retains does not come to an end in time")
                sent = self._awaited[echo]
                if sent.done():
                    sent.result()
                    # Before that, the broker may be busy with something else.
                    if time.monotonic() > self._broker.moved + PATIENCE:
                        return False
                self._changed.wait(0.2)
        return True

    def _hear(self, message: Message) -> None:
        with self._changed:
            self._awaited.pop(message.payload, None)
            self._changed.notify_all()


class Board:
    """What is retained under a federation's topics, as of the moment when somebody looks.

    Announcements are heard from the first look on as they come, so another look costs an echo. All
    are read again after a link was lost.
    """

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self._echoes = Echoes(broker, broker.address.under("echoes", name))
        self._lock = threading.Lock()
        self._payloads = dict[str, bytes]()
        self._size = 0
        # The link by which all shards were read; 0 before that.
        self._link = 0
        self._read = dict[str, tuple[bytes, Announcement]]()
        # What was told, and is still so.
        self._wrong = dict[str, str]()
        self._said = set[str]()

    def announcements(self, require: Callable[[Announcement], None]) -> dict[str, Announcement]:
        """Gives all announcements, by the names of their devices.

        What is none is left out, and what does not pass what is required of each new one.
        """
        if self._link and self._link == self._broker.links:
            self._echoes.settle(MOST_HEARD // len(SHARDS))
        if not self._link or self._link != self._broker.links:
            self._link = self._by_one_link(self._hear_shards)
        with self._lock:
            payloads = dict(self._payloads)
        wrong = dict[str, str]()
        for topic, payload in payloads.items():
            try:
                if self._read.get(topic, (None,))[0] != payload:
                    require(one := _announcement(topic, payload))
                    self._read[topic] = payload, one
            except ElmgroveError as error:
                wrong[topic] = str(error)
        self._read = {
            topic: read for topic, read in self._read.items() if read[0] == payloads.get(topic)
        }
        self._tell(wrong)
        return {one.device: one for _, one in self._read.values()}

    def forget(self) -> None:
        """Lets all announcements be new ones again."""
        self._read.clear()

    def contents(self, topics: Collection[str], size: int) -> dict[str, bytes]:
        """Reads what is retained under each of these topics, of so many bytes at most."""

        def read() -> dict[str, bytes]:
            found = dict[str, bytes]()

            def hear(message: Message) -> None:
                if message.payload:
                    found[message.topic] = message.payload

            self._broker.subscribe(sorted(topics), hear, lasts=False)
            self._echoes.settle(size)
            self._broker.unsubscribe(sorted(topics))
            return found

        return self._by_one_link(read) if topics else {}

    def _by_one_link(self, read: Callable[[], Read]) -> Read:
        for _ in range(_TRIES):
            self._echoes.listen()
            link = self._broker.links
            found = read()
            if self._broker.links == link:
                return found
        raise Unreachable(f"{self._broker.address.place}: links are lost before all is read")

    def _hear_shards(self) -> int:
        """Asks for the announcements of one shard after the other; gives the link's number."""
        with self._lock:
            self._payloads, self._size = {}, 0
        for shard in SHARDS:
            before = len(self._payloads)
            topic = self._broker.address.under("entries", shard, "+")
            self._broker.subscribe([topic], self._hear, lasts=False)
            self._echoes.settle(MOST_HEARD // len(SHARDS))
            if len(self._payloads) - before >= MANY:
                self._say_once(
                    f"retains more than {MANY:,} announcements under {topic}: raise "
                    "max_queued_messages there, or some may be dropped"
                )
        return self._broker.links

    def _hear(self, message: Message) -> None:
        """Remembers an announcement, if it may be one; in the broker's thread."""
        topic, payload = message.topic, message.payload
        with self._lock:
            before = self._payloads.pop(topic, None)
            if before is not None:
                self._size -= len(topic) + len(before)
            if not payload or len(payload) > MOST_ANNOUNCED:
                return
            size = self._size + len(topic) + len(payload)
            if size <= MOST_HEARD:
                self._payloads[topic], self._size = payload, size
                return
        self._say_once(
            f"retains more announcements than the {MOST_HEARD:,} bytes that a device "
            "remembers, and some are left out"
        )

    def _say_once(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            log.warning("%s %s", self._broker.address.place, what)

    def _tell(self, wrong: Mapping[str, str]) -> None:
        """Tells what is left out and why, once, and only of a few where there are many."""
        new = [topic for topic, why in wrong.items() if self._wrong.get(topic) != why]
        for topic in new[:_TOLD]:
            log.warning("%s is left out: %s", plain(topic), plain(wrong[topic]))
        if len(new) > _TOLD:
            log.warning("%s more announcements are left out", f"{len(new) - _TOLD:,}")
        self._wrong = dict(wrong)


def _announcement(topic: str, payload: bytes) -> Announcement:
    """Reads an announcement; ``BadFile`` for what is none, or not its device's."""
    *_, shard, address = topic.split("/")
    one = Announcement.from_bytes(payload)
    if (shard_of(address), address) != (shard, address_of(one.device)):
        raise BadFile(f"an announcement of {one.device!r}, which is not that device's topic")
    return one
