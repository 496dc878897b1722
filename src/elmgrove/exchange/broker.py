"""A broker, as a device sees it: what was published was acknowledged, and lost links come back."""

import hashlib
import logging
import math
import secrets
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from elmgrove.errors import ElmgroveError, Unreachable, require_extra
from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.base import TLS, Tls
from elmgrove.exchange.broker_address import (
    LONGEST_MESSAGE,
    BrokerAddress,
    Message,
    Receipt,
    require_topic,
)
from elmgrove.exchange.broker_connection import Job, Jobs, log_refusal
from elmgrove.exchange.responses import plain
from elmgrove.exchange.tls import context_of

if TYPE_CHECKING:
    from elmgrove.exchange.broker_connection import Link


matcher: Any = require_extra("paho.mqtt.matcher", "mqtt")

#: Hears a message. MUST be quick, and wait for nothing of the broker: it has the broker's thread.
Hears = Callable[[Message], None]


@dataclass(frozen=True)
class Subscribed:
    """Some topics, who hears them, and whether that lasts when a link is lost."""

    topics: tuple[str, ...]
    hears: Hears
    lasts: bool


class Subscriptions:
    """Keeps who hears which topic: the last one who asked for it. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = list[Subscribed]()
        # Those of their topics that the broker has acknowledged: the others are still asked for.
        self._acknowledged = set[str]()
        self._hearing = matcher.MQTTMatcher()

    def add(self, topics: Sequence[str], hears: Hears, *, lasts: bool) -> Subscribed:
        """Lets who asks now hear these topics, and nobody else."""
        made = Subscribed(tuple(map(require_topic, topics)), hears, lasts)
        self._change(topics, made)
        return made

    def remove(self, topics: Collection[str]) -> None:
        """Lets nobody hear these topics."""
        self._change(topics)

    def acknowledge(self, topics: Collection[str]) -> None:
        """Takes note that the broker knows who wants these topics."""
        with self._lock:
            self._acknowledged.update(topics)

    def again(self) -> list[str]:
        """Gives the topics that a new link has to ask for again."""
        with self._lock:
            lasting = [topic for one in self._all if one.lasts for topic in one.topics]
            return [topic for topic in lasting if topic in self._acknowledged]

    def hearing(self, topic: str) -> list[Hears]:
        """Gives those who hear a message under this topic, each once though several match."""
        return [*dict.fromkeys(self._hearing.iter_match(topic))]

    def _change(self, topics: Collection[str], *added: Subscribed) -> None:
        hearing = matcher.MQTTMatcher()
        with self._lock:
            left = [
                replace(one, topics=tuple(topic for topic in one.topics if topic not in topics))
                for one in self._all
            ]
            self._all = [one for one in (*left, *added) if one.topics]
            self._acknowledged.difference_update(topics)
            for one in self._all:
                for topic in one.topics:
                    hearing[topic] = one.hears
            self._hearing = hearing


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


log = logging.getLogger("elmgrove.exchange")
#: Seconds that an acknowledgement may take.
SECONDS = 30.0
#: The bytes of a packet that a broker may send, unless stated.
MOST_PACKET = 200_000
# Seconds between two tries to reach a broker, at first and at most.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
# Seconds for which the thread waits for something to do, and one that closes for the thread.
_TURN, _GOODBYE = 0.5, 2.0


class Broker:
    """Keeps a link to a broker, from the first thing asked on, and opens another when it is lost.

    Any thread may use it. All is published with QoS 1: what was neither acknowledged nor refused
    when a link is lost is asked again by the next one, so the broker may get it twice. ``password``
    is that of the address's user; ``will`` is what the broker publishes when a link ends without a
    goodbye; not ``clean``, it keeps what it owes to this ``client_id`` while that is away. With
    ``receipts`` it owes a message until ``acknowledge`` is called. A packet of more than ``most``
    bytes ends the link.
    """

    def __init__(
        self,
        address: BrokerAddress,
        client_id: str = "",
        *,
        password: str | None = None,
        tls: Tls = TLS,
        will: Message | None = None,
        clean: bool = True,
        most: int = MOST_PACKET,
        receipts: bool = False,
    ) -> None:
        if address.secure:
            context_of(tls)  # files that can't be used are told now, to who states them
        self.address = address
        self._how: dict[str, Any] = {
            "client_id": client_id or f"elmgrove-{secrets.token_hex(8)}",
            "password": password,
            "tls": tls,
            "will": will,
            "clean": clean,
            "most": most,
            "receipts": receipts,
        }
        self._jobs = Jobs(address.place)
        self._lock = threading.Lock()
        self._subscriptions = Subscriptions()
        self._receipts = Receipts()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._waker, self._wake = socket.socketpair()
        for end in (self._waker, self._wake):
            end.setblocking(False)
        #: How many links there were: another number says that the former one was lost.
        self.links = 0
        #: Whether there is a link now; whether by it the broker goes on with what it owed before.
        self.linked = self.resumed = False
        #: The bytes of a message that the broker takes, as far as it said so.
        self.longest = LONGEST_MESSAGE
        #: When bytes came the last time.
        self.moved = 0.0
        #: Why the broker could not be reached; None if it can, or nothing was asked yet.
        self.trouble: ElmgroveError | None = None

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, timeout: float = SECONDS
    ) -> None:
        """Publishes a message, and returns when the broker has acknowledged it.

        ``Refused`` where the broker takes no such message, ``Unauthorized`` where it does not let
        one in, ``Unreachable`` where it can't be asked in time (it may have got it all the same).
        """
        self._await(Job.publishing(topic, payload, timeout, retain=retain))

    def send(
        self, topic: str, payload: bytes, *, retain: bool = False, timeout: float = SECONDS
    ) -> "Future[None]":
        """Publishes a message without waiting: the future knows what came of it.

        As long as ``timeout`` allows, it waits for a broker that can't be reached. ``Unreachable``
        at once where too many wait.
        """
        self._ask(job := Job.publishing(topic, payload, timeout, retain=retain, patient=True))
        return job.future

    def subscribe(
        self, topics: Sequence[str], hears: Hears, *, lasts: bool = True, timeout: float = SECONDS
    ) -> None:
        """Asks for the messages of some topics, what is retained first.

        If it ``lasts``, also after a link was lost; if not, with QoS 0: brokers drop messages of
        QoS 1 where many are retained. Topics that are subscribed to again are heard by the last one
        who did, and what is retained comes again. ``Unauthorized`` where the broker says that these
        are not for this user; some say nothing, and keep the messages.
        """
        job = self._subscribing(topics, hears, timeout, lasts=lasts, patient=False)
        try:
            self._await(job)
        except ElmgroveError:
            self._subscriptions.remove(topics)
            raise

    def follow(self, topics: Sequence[str], hears: Hears) -> "Future[None]":
        """Asks for the messages of some topics without waiting: as soon, and whenever, it can.

        The future knows of the first time; what the broker does not let one hear is logged.
        """
        job = self._subscribing(topics, hears, math.inf, lasts=True, patient=True)
        job.future.add_done_callback(log_refusal)
        self._ask(job)
        return job.future

    def acknowledge(self, message: Message) -> None:
        """Says that a message was dealt with, to a broker that waits for it."""
        if self._receipts.add(message):
            self._awake()

    def owes(self, message: Message) -> bool:
        """Says whether to deal with a message: not if it comes again, or did and was dealt with."""
        owed = self._receipts.owes(message)
        if not owed:
            self._awake()
        return owed

    def unsubscribe(self, topics: Sequence[str], *, timeout: float = SECONDS) -> None:
        """Asks for no more messages of these topics."""
        self._subscriptions.remove(topics)
        self._await(Job(lambda link: link.unsubscribe(topics), timeout))

    def close(self) -> None:
        """Says goodbye, and gives up what was not acknowledged."""
        with self._lock:
            self._closed.set()
            thread = self._thread
        self._awake()
        if thread is None:
            self._end()
        elif thread is not threading.current_thread():
            thread.join(_GOODBYE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Asking, in the thread of who asks

    def _ask(self, job: Job) -> None:
        with self._lock:
            if self._closed.is_set():
                raise self._unreachable("it was closed")
            if self.trouble is not None and not job.patient:
                raise type(self.trouble)(*self.trouble.args)  # each asker gets one of its own
            self._jobs.add(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="elmgrove-mqtt", daemon=True)
                self._thread.start()
        self._awake()

    def _await(self, job: Job) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("who hears a message can't wait for the broker meanwhile")
        self._ask(job)
        try:
            job.future.result(job.left)
        except TimeoutError:
            if job.future.cancel():
                raise self._unreachable("no acknowledgement in time") from None
            job.future.result()

    def _subscribing(
        self, topics: Sequence[str], hears: Hears, seconds: float, *, lasts: bool, patient: bool
    ) -> Job:
        asked = self._subscriptions.add(topics, hears, lasts=lasts)
        job = Job(lambda link: link.subscribe(asked.topics, lasts), seconds, patient=patient)
        job.future.add_done_callback(lambda _: self._subscriptions.acknowledge(asked.topics))
        return job

    def _awake(self) -> None:
        with suppress(OSError):  # full, so it wakes up anyway; or at its end
            self._waker.send(b"!")

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(f"{self.address.place}: {why}")

    # The broker's thread

    def _run(self) -> None:
        backoff = Backoff(_FIRST_WAIT, longest=_LONGEST_WAIT)
        while not self._closed.is_set():
            try:
                self._live(backoff)
            except ElmgroveError as error:
                self._lose(error)
            except Exception as error:  # nothing that a broker says may end the thread
                log.debug("%s", self.address.place, exc_info=True)
                self._lose(self._unreachable(f"it is no broker: {plain(repr(error))}"))
            self._rest(backoff.failed())
        self._end()

    def _live(self, backoff: Backoff) -> None:
        """Opens a link, and serves it until it is lost or nobody needs it any more."""
        from elmgrove.exchange.broker_connection import (
            Link,  # which only who has the extra can load
        )

        number = self.links + 1
        came = partial(self._came, number)
        link = Link(self.address, **self._how, told=self._jobs.told, came=came)
        try:
            link.open()
            while not (link.ready or self._closed.is_set()):
                link.turn(self._wake, _TURN)
                self._jobs.expire()
            self._begin(number, link)
            while not self._closed.is_set():
                self._jobs.ask(link)
                self._receipts.give(link, self.links)
                link.turn(self._wake, _TURN, reads=not self._receipts.full)
                self._jobs.expire()
                self.moved = link.moved
                if link.acknowledged:
                    backoff.succeeded()
            self._receipts.give(link, self.links)
            link.close()
        finally:
            link.drop()

    def _begin(self, number: int, link: "Link") -> None:
        with self._lock:
            if self.links == number:
                return
            self.linked, self.resumed, self.trouble = True, link.resumed, None
            self.longest = link.longest
            self._receipts.begin(number, resumed=link.resumed)
            self.links = number
        if again := self._subscriptions.again():
            link.subscribe(again)

    def _lose(self, error: ElmgroveError) -> None:
        """Keeps what was asked for the next link, unless there was none or a job is to blame."""
        with self._lock:
            was_linked, self.linked = self.linked, False
            self.trouble = None if was_linked else error
        self._jobs.put_back(error)
        if not was_linked:
            self._jobs.give_up(error, lambda job: not job.patient)
        log.debug("%s", error)

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._closed.wait(min(left, _TURN)):
            self._jobs.expire()

    def _end(self) -> None:
        self._jobs.give_up(self._unreachable("it was closed"), lambda job: True)
        self.linked = False
        self._waker.close()
        self._wake.close()

    def _came(self, number: int, link: "Link", came: Message) -> None:
        # What a broker owes may come right behind its welcome.
        self._begin(number, link)
        message = self._receipts.taken(came, number)
        if message is None:
            return
        for hears in self._subscriptions.hearing(message.topic) or [self.acknowledge]:
            try:
                hears(message)
            except Exception:  # a message may be anything, and ends nothing
                log.exception("a message under %s", plain(message.topic))
