"""One connection to an MQTT broker, from its opening to its loss, in one thread."""

import logging
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from elmgrove.errors import ElmgroveError, Refused, Unauthorized, Unreachable
from elmgrove.exchange.base import SLOWEST, Tls
from elmgrove.exchange.broker_address import (
    LONGEST_MESSAGE,
    BrokerAddress,
    Message,
    Receipt,
    require_topic,
)
from elmgrove.exchange.responses import plain
from elmgrove.exchange.tls import context_of

# What a broker says to whom it does not know, in answer to anything.
_NOT_LET = (0x86, 0x87, 0x8A, 0x8C)
#: What it says of a packet that is larger than it takes.
TOO_LARGE = 0x95


class Reasons:
    """Makes errors of what a broker says to one who is known there by this address."""

    def __init__(self, address: BrokerAddress) -> None:
        self._place = address.place
        self._secure = address.secure
        self._who = repr(address.user) if address.user else "anybody without a name"

    def unreachable(self, why: str) -> Unreachable:
        """Says why the broker can't be asked now."""
        hint = ""
        if self._secure and "certificate" in why.lower():
            hint = " (state the authority that signed the broker's certificate as ca)"
        return Unreachable(f"{self._place}: {why}{hint}")

    def not_let_in(self, reason: ReasonCode) -> ElmgroveError:
        """Says why the broker did not let one in."""
        if reason.value not in _NOT_LET:
            return self.unreachable(f"it lets nobody in by MQTT 5: {said(reason)}")
        return Unauthorized(
            f"{self._place} does not let {self._who} in: {said(reason)}; state user and password, "
            "or a certificate, that the broker knows"
        )

    def not_allowed(self, what: str, topic: str, reason: ReasonCode) -> str:
        """Says why one may not write or read there."""
        told = f"{self._place} does not let {self._who} {what} {plain(topic)}: {said(reason)}"
        if reason.value in _NOT_LET:
            return f"{told}; allow it in the broker's access list"
        if reason.value == TOO_LARGE:
            return f"{told}; let the broker take larger messages"
        return told


def said(reason: ReasonCode) -> str:
    """Gives the words for a code."""
    return plain(reason.getName())


log = logging.getLogger("elmgrove.exchange")
#: Jobs that may wait at a time.
MOST_JOBS = 1000
#: Links that may be lost while a job is under way alone: so many for one that somebody waits for,
#: and of a patient one so many as no line loses that is merely bad.
MOST_LOST, MOST_LOST_PATIENTLY = 3, 30
# Seconds between two looks for those that came too late.
_LOOKED = 0.25


@dataclass
class Job:
    """Something to ask by a link, which gives it a number, and what will know of its outcome.

    One that is ``patient`` waits for a broker that can't be reached, until its time is over. One
    that was under way when a link was lost is ``suspected`` to be why: a message may be more than
    the broker takes. ``lost`` are the links that were lost while it alone was under way.
    """

    ask: "Callable[[Link], int]"
    seconds: float
    patient: bool = False
    suspected: bool = False
    lost: int = 0
    future: "Future[None]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds

    @classmethod
    def publishing(
        cls, topic: str, payload: bytes, seconds: float, *, retain: bool, patient: bool = False
    ) -> "Job":
        """Makes the job of publishing a message."""
        message = Message(require_topic(topic), payload, retain)
        return cls(lambda link: link.publish(message), seconds, patient=patient)

    @property
    def is_guilty(self) -> bool:
        """Whether it was alone under way so often when a link was lost that it must be why."""
        return self.lost >= (MOST_LOST_PATIENTLY if self.patient else MOST_LOST)

    @property
    def left(self) -> float:
        """The seconds that are left for it."""
        return max(self._until - time.monotonic(), 0.0)

    def settle(self, error: ElmgroveError | None) -> None:
        """Says what came of it, if somebody still wants to know."""
        with suppress(InvalidStateError):
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(error)


class Jobs:
    """Keeps jobs in their order: those that wait, and those that were asked by a link.

    One that is suspected is asked alone, so that no other is given up because of it. Any thread may
    use it. ``place`` is where the broker is, for errors.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._waiting = deque[Job]()
        self._asked = dict[int, Job]()
        self._looked = 0.0

    def add(self, job: Job) -> None:
        """Lets a job wait; ``Unreachable`` where too many do."""
        with self._lock:
            if len(self._waiting) + len(self._asked) >= MOST_JOBS:
                raise Unreachable(f"{self._place}: {MOST_JOBS:,} messages wait for it already")
            self._waiting.append(job)

    def ask(self, link: "Link") -> None:
        """Asks what waits, in its order, no more at a time than the broker allows."""
        while (job := self._next(link.in_flight)) is not None:
            try:
                number = job.ask(link)
            except Unreachable:
                with self._lock:
                    self._waiting.appendleft(job)
                raise
            except ElmgroveError as error:
                job.settle(error)
            else:
                with self._lock:
                    self._asked[number] = job

    def told(self, number: int, error: ElmgroveError | None) -> None:
        """Takes note of what came of a job."""
        with self._lock:
            job = self._asked.pop(number, None)
        if job is not None:
            job.settle(error)
        elif error is not None:
            log.warning("%s", error)

    def put_back(self, error: ElmgroveError) -> None:
        """Lets those wait again that were asked by a link that was lost.

        One that was alone is given up if the broker says that this was why, or if it was so often.
        """
        with self._lock:
            asked, self._asked = [*self._asked.values()], {}
            for job in asked:
                job.suspected = True
                job.lost += len(asked) == 1
            refused = isinstance(error, Refused) and len(asked) == 1
            given_up = [job for job in asked if refused or job.is_guilty]
            self._waiting.extendleft(job for job in reversed(asked) if job not in given_up)
        for job in given_up:
            why = f"{error}, {job.lost} times while this was sent"
            blamed = Unreachable(f"{why}; is it more than the broker takes?")
            job.settle(error if refused else blamed)

    def give_up(self, error: ElmgroveError, which: Callable[[Job], bool]) -> None:
        """Says of some jobs that wait, or were asked, that nothing came of them."""
        with self._lock:
            jobs = [*self._asked.values(), *self._waiting]
            self._asked = {at: job for at, job in self._asked.items() if not which(job)}
            self._waiting = deque(job for job in self._waiting if not which(job))
        for job in jobs:
            if which(job):
                job.settle(error)

    def expire(self) -> None:
        """Gives up jobs for which the time is over, or for which nobody waits any more."""
        if time.monotonic() < self._looked + _LOOKED:
            return  # with each message it would take longer than all else
        self._looked = time.monotonic()
        late = Unreachable(f"{self._place}: no acknowledgement in time")
        self.give_up(late, lambda job: job.future.done() or not job.left)

    def _next(self, most: int) -> Job | None:
        with self._lock:
            while self._waiting and self._waiting[0].future.done():
                self._waiting.popleft()
            some = [*self._asked.values(), *islice(self._waiting, 1)]
            alone = any(job.suspected for job in some)
            has_room = len(self._asked) < (1 if alone else most)
            return self._waiting.popleft() if self._waiting and has_room else None


def log_refusal(done: "Future[None]") -> None:
    """Logs why a job that nobody waits for was refused, if it was."""
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, Unreachable):
        log.warning("%s", error)


#: Seconds in which a broker must let one in, and between two signs of life: more for large packets.
CONNECT_SECONDS = 10.0
KEEP_ALIVE = 20
# Seconds for which a broker keeps what it owes to one who was away.
_SESSION_SECONDS = 24 * 3600
# Messages that wait for their acknowledgement at a time, at most, and with those that nobody waits
# for any more: paho keeps them as long as the link lasts.
_IN_FLIGHT, _UNACKNOWLEDGED = 20, 40
# Messages that a broker gives out before it hears that others were dealt with.
_OWED = 100

# In the first byte of a message: it comes with QoS 2, or with what MQTT does not have.
_QOS_2 = 0x04

# Linux has it.
_QUICK = getattr(socket, "TCP_QUICKACK", None)
# Paho's has no types.
_Properties: Any = Properties

#: What was published, subscribed to or given up by this number was done, or why it was not.
Told = Callable[[int, ElmgroveError | None], None]


class _Client(Client):
    """Paho's client, which takes no packet that is larger than it was told, and none of QoS 2."""

    most = 0
    moved = 0.0

    def _sock_recv(self, bufsize: int) -> bytes:
        # Asked for all that is left of a packet, at first the whole of it.
        if bufsize > self.most:
            raise OSError(f"it sends a message of {bufsize:,} bytes, more than {self.most:,}")
        self.moved = time.monotonic()
        return super()._sock_recv(bufsize)

    def _handle_publish(self) -> MQTTErrorCode:
        # Paho would keep what comes with QoS 2, which nobody asked for, until it is released.
        if self._in_packet["command"] & _QOS_2:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        return super()._handle_publish()


class _Socket(ssl.SSLSocket):
    """A socket that is closed when a handshake fails: paho forgets it."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


class Link:
    """Speaks MQTT 5 with a broker, as long as that lasts; a new connection is a new link.

    ``told`` hears what came of a number that ``publish``, ``subscribe`` or ``unsubscribe`` gave,
    ``came`` each message. The broker may send packets of ``most`` bytes.
    """

    def __init__(
        self,
        address: BrokerAddress,
        client_id: str,
        *,
        password: str | None,
        tls: Tls,
        will: Message | None,
        clean: bool,
        most: int,
        receipts: bool,
        told: Told,
        came: Callable[["Link", Message], None],
    ) -> None:
        self._address = address
        self._words = Reasons(address)
        self._told = told
        self._came = came
        self._topics = dict[int, str]()
        self._clean = clean
        self._receipts = receipts
        self._client = client = _Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=MQTTv5, reconnect_on_failure=False
        )
        client.manual_ack_set(receipts)
        client.most = most
        client.connect_timeout = CONNECT_SECONDS
        if address.user:
            client.username_pw_set(address.user, password)
        if address.secure:
            context = context_of(tls)
            context.sslsocket_class = _Socket
            client.tls_set_context(context)
        if will is not None:
            client.will_set(will.topic, will.payload, qos=1, retain=will.retained)
        client.on_socket_open = _at_once
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = client.on_unsubscribe = self._on_listed
        self._until = 0.0
        #: Whether the broker has let one in; how many messages may wait for it, and how long.
        self.ready = False
        #: Whether the broker goes on with what it owed by a link before.
        self.resumed = False
        self.in_flight = _IN_FLIGHT
        self.longest = LONGEST_MESSAGE
        #: Whether it has done something of what was asked: then it is a broker that works.
        self.acknowledged = False
        self._retains = True
        #: Why the link is no more; None as long as it is.
        self.lost: ElmgroveError | None = None

    def open(self) -> None:
        """Connects and says who one is; ``ready`` tells when the broker has let one in."""
        asked = _Properties(PacketTypes.CONNECT)
        asked.MaximumPacketSize = self._client.most
        if not self._clean:
            asked.SessionExpiryInterval = _SESSION_SECONDS
        if self._receipts:
            asked.ReceiveMaximum = _OWED
        self._until = time.monotonic() + CONNECT_SECONDS
        try:
            self._client.connect(
                self._address.host,
                self._address.port,
                max(KEEP_ALIVE, self._client.most // SLOWEST),
                clean_start=self._clean,
                properties=asked,
            )
        except (OSError, ValueError) as error:
            raise self._words.unreachable(plain(str(error)) or type(error).__name__) from error

    def turn(self, wake: socket.socket, seconds: float, *, reads: bool = True) -> None:
        """Reads and writes what can be, or waits so long for that or for a byte from ``wake``.

        Unless it ``reads``, what the broker sends stays where it is, and the broker has to wait.
        """
        line: Any = self._client.socket()
        if line is None or self.lost is not None:
            raise self.lost or self._words.unreachable("the connection was lost")
        if not self.ready and time.monotonic() > self._until:
            raise self._words.unreachable("it does not answer; is a broker there?")
        with selectors.DefaultSelector() as waiting:
            writes = selectors.EVENT_WRITE if self._client.want_write() else 0
            if asked := (selectors.EVENT_READ if reads else 0) | writes:
                waiting.register(line, asked)
            waiting.register(wake, selectors.EVENT_READ)
            has_more = reads and self._address.secure and line.pending()
            ready = waiting.select(0.0 if has_more else seconds)
        found = {key.fileobj: events for key, events in ready}
        if wake in found:
            wake.recv(1 << 12)
        if has_more or found.get(line, 0) & selectors.EVENT_READ:
            self._client.loop_read()
            _acknowledge(line)
        if found.get(line, 0) & selectors.EVENT_WRITE:
            self._client.loop_write()
        self._client.loop_misc()

    @property
    def moved(self) -> float:
        """When bytes came the last time, or were looked for."""
        return self._client.moved

    def publish(self, message: Message) -> int:
        """Sends a message, and gives the number of which ``told`` will hear.

        ``Refused`` for what this broker can't take, ``Unreachable`` if it acknowledges nothing.
        """
        if len(self._topics) >= _UNACKNOWLEDGED:
            raise self._words.unreachable("it acknowledges nothing of what it is sent")
        if message.size > self.longest:
            raise Refused(
                f"{self._address.place} takes messages of {self.longest:,} bytes, and this one has "
                f"{message.size:,}: {message.topic}; let it take larger ones (max_packet_size)"
            )
        if message.retained and not self._retains:
            raise Refused(f"{self._address.place} retains nothing; let it (retain_available)")
        sent = self._client.publish(message.topic, message.payload, 1, message.retained)
        self._topics[sent.mid] = message.topic
        return sent.mid

    def subscribe(self, topics: Sequence[str], qos: int = 1) -> int:
        """Asks for the messages of some topics, retained ones first."""
        return self._listed(topics, self._client.subscribe([(topic, qos) for topic in topics])[1])

    def unsubscribe(self, topics: Sequence[str]) -> int:
        """Asks for no more messages of some topics."""
        return self._listed(topics, self._client.unsubscribe(list(topics))[1])

    def acknowledge(self, receipt: int) -> None:
        """Says that a message was dealt with."""
        self._client.ack(receipt, 1)

    def _listed(self, topics: Sequence[str], number: int | None) -> int:
        if number is None:
            raise self._words.unreachable("the connection was lost")
        self._topics[number] = ", ".join(topics)
        return number

    def close(self) -> None:
        """Says goodbye, if somebody hears it: a will is for links that end otherwise."""
        if self.ready and self.lost is None:
            self._client.disconnect()
            self._client.loop_write()

    def drop(self) -> None:
        """Lets go of the connection without a word."""
        line = self._client.socket()
        if line is not None:
            line.close()

    # What paho calls, within ``turn``

    def _on_connect(
        self, _client: Any, _data: Any, flags: Any, reason: ReasonCode, properties: Any
    ) -> None:
        if reason.is_failure:
            self.lost = self._words.not_let_in(reason)
            return
        granted = vars(properties)
        self.longest = int(granted.get("MaximumPacketSize", self.longest))
        self.in_flight = min(_IN_FLIGHT, int(granted.get("ReceiveMaximum", _IN_FLIGHT)))
        self._retains = bool(granted.get("RetainAvailable", 1))
        self.resumed = bool(flags.session_present)
        self.ready = True

    def _on_disconnect(
        self, _client: Any, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any
    ) -> None:
        if self.lost is None and reason.value == TOO_LARGE:
            self.lost = Refused(self._words.not_allowed("write", "what it sent", reason))
        self.lost = self.lost or self._words.unreachable(f"the connection was lost: {said(reason)}")

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""  # which nobody hears
        owed = self._receipts and message.qos
        receipt = Receipt(0, message.mid, bool(message.dup)) if owed else None
        self._came(self, Message(topic, bytes(message.payload), bool(message.retain), receipt))

    def _on_publish(
        self, _client: Any, _data: Any, number: int, reason: ReasonCode, _properties: Any
    ) -> None:
        topic = self._topics.pop(number, "")
        refused = (
            Refused(self._words.not_allowed("write", topic, reason)) if reason.is_failure else None
        )
        self.acknowledged |= refused is None
        self._told(number, refused)

    def _on_listed(
        self, _client: Any, _data: Any, number: int, reasons: Sequence[ReasonCode], _props: Any
    ) -> None:
        topic, refused = self._topics.pop(number, ""), None
        failed = [reason for reason in reasons if reason.is_failure]
        if failed:
            refused = Unauthorized(self._words.not_allowed("read", topic, failed[0]))
        self.acknowledged |= refused is None
        self._told(number, refused)


def _acknowledge(line: Any) -> None:
    """Says at once that bytes came: a broker may hold back the next ones until then, 40 ms."""
    if _QUICK is not None and line.fileno() >= 0:
        line.setsockopt(socket.IPPROTO_TCP, _QUICK, 1)


def _at_once(_client: Any, _data: Any, line: Any) -> None:
    """Lets small packets leave when they are written; else they wait for each other, 40 ms."""
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
