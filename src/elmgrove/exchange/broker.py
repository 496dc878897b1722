"""A connection to an MQTT broker: paho keeps it, and opens another when it is lost."""

import logging
import random
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from elmgrove.errors import ElmgroveError, Refused, Unauthorized, Unreachable, plain, require_extra
from elmgrove.exchange.base import TLS, Tls
from elmgrove.exchange.broker_address import BrokerAddress, Message
from elmgrove.exchange.tls import context_of

paho: Any = require_extra("paho.mqtt.client", "mqtt")
if TYPE_CHECKING:
    from paho.mqtt.client import Client
else:
    Client = paho.Client

log = logging.getLogger("elmgrove.exchange")
#: The bytes of a message's payload, at most, in either direction.
MOST_PAYLOAD = 1 << 20
# The bytes of a packet: a payload, its topic, and what else is said of it.
_MOST_PACKET = MOST_PAYLOAD + 70_000

# Reason codes of MQTT 5.
_NOT_LET = (0x86, 0x87, 0x8A, 0x8C)
_TOO_LARGE, _QUOTA_EXCEEDED = 0x95, 0x97
_QOS_2 = 0x04
# Linux has it.
_QUICK = getattr(socket, "TCP_QUICKACK", None)


class _Client(Client):
    """Paho's client, whose thread ends by nothing that a broker says, and needs little memory."""

    failed: Callable[[Exception], None]
    #: Called when there is a link, and what was under way is sent again: the rest comes after it.
    ready: Callable[[], None]
    heard_at = 0.0

    def reconnect(self) -> Any:
        try:
            return super().reconnect()
        except (OSError, ValueError) as error:
            self.failed(error)
            raise OSError(str(error)) from error  # after which paho tries again

    def _sock_recv(self, bufsize: int) -> bytes:
        # Asked for all that is left of a packet, at first the whole of it.
        if bufsize > _MOST_PACKET:
            raise OSError(f"a message of {bufsize:,} bytes")
        self.heard_at = time.monotonic()
        line: Any = self._sock
        if _QUICK is not None and line is not None and line.fileno() >= 0:
            # A broker may hold back the next packet until this one is acknowledged, by 40 ms.
            line.setsockopt(socket.IPPROTO_TCP, _QUICK, 1)
        return super()._sock_recv(bufsize)

    def _packet_handle(self) -> Any:
        packet: Any = self._in_packet
        kind = packet["command"] & 0xF0
        if kind == paho.PUBLISH and packet["command"] & _QOS_2:
            # Nobody asked for it, and paho would keep the message until it is released.
            return paho.MQTTErrorCode.MQTT_ERR_PROTOCOL
        if kind not in (paho.CONNACK, paho.DISCONNECT) and not self.is_connected():
            return paho.MQTTErrorCode.MQTT_ERR_PROTOCOL
        if kind == paho.PUBACK and packet["packet"][2:3] == bytes([_TOO_LARGE]):
            # Mosquitto says so beyond its message_size_limit; MQTT has no such acknowledgement.
            packet["packet"] = packet["packet"][:2] + bytes([_QUOTA_EXCEEDED])
        try:
            found = super()._packet_handle()
            if kind == paho.CONNACK and self.is_connected():
                self.ready()
            return found
        except Exception:
            log.debug("a packet that is none", exc_info=True)
            return paho.MQTTErrorCode.MQTT_ERR_PROTOCOL


class _Socket(ssl.SSLSocket):
    """A socket that is closed when a handshake fails: paho forgets it."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


class Broker:
    """A connection to a broker, with all topics that are subscribed to; any thread may use it.

    ``hear`` gets each message, in paho's thread, retained ones first; it MUST wait for nothing of
    the broker. All is published with QoS 1: what was not acknowledged when a link is lost is sent
    again by the next one, so the broker may get it twice. ``password`` is that of the address's
    user; ``will`` is published by the broker when a link ends without a goodbye. One that
    ``keeps`` has a session: the broker keeps what comes for this ``client_id`` while that is away,
    and until ``acknowledge`` is called.
    """

    #: Seconds between two tries to reach a broker, at first and at most.
    delays = (0.5, 30.0)
    #: Seconds that an answer may take, and all that is retained as long as it comes.
    patience, longest_wait = 30.0, 600.0
    #: Links in a row that may be lost before anything that was sent is acknowledged: more than a
    #: bad line loses. Then a message must be why, as one that is more than a broker takes.
    most_lost = 15

    def __init__(
        self,
        address: BrokerAddress,
        topics: Sequence[str] = (),
        hear: Callable[[Message], None] = lambda message: None,
        *,
        client_id: str = "",
        password: str | None = None,
        tls: Tls = TLS,
        will: Message | None = None,
        qos: int = 1,
        keeps: bool = False,
        subscribed: Callable[[], None] = lambda: None,
    ) -> None:
        self.address = address
        self._who = repr(address.user) if address.user else "anybody without a name"
        self._topics, self._hear, self._qos, self._keeps = topics, hear, qos, keeps
        self._subscribed = subscribed
        #: Notified whenever something of the following is another than before.
        self.changed = threading.Condition()
        #: How many links there were: another number says that the former one was lost.
        self.links = 0
        #: The first of them since which the broker has forgotten nothing that it owes.
        self.session = 0
        #: Whether there is a link now.
        self.linked = False
        # Whether the broker let one in; None while it is asked. Paho may tell of a loss twice.
        self._let_in: bool | None = None
        #: Why the broker could not be reached; None if it can, or was not tried yet.
        self.failure: ElmgroveError | None = None
        # Why it does not let one hear some topics.
        self._refusal: Unauthorized | None = None
        #: The bytes of a packet that it takes, as far as it said so.
        self.longest = _MOST_PACKET
        self._retains = True
        self._closed = False
        # The link whose topics were granted, and the last question that was answered.
        self._granted = 0
        # The question that is asked with the topics, and those that were answered by this link.
        self._first: int | None = None
        self._answered = set[int]()
        # What was published and not acknowledged, by paho's numbers; and what paho told of a
        # number before it was known here.
        self._sent = dict[int, Sent]()
        self._early = dict[int, Any]()
        self._futile = 0
        self._client = self._new_client(
            client_id or f"elmgrove-{secrets.token_hex(8)}", password, tls, will
        )

    def _new_client(
        self, client_id: str, password: str | None, tls: Tls, will: Message | None
    ) -> _Client:
        address = self.address
        client = _Client(paho.CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
        client.failed, client.ready = self._fail, self._ready
        client.connect_timeout = 10.0
        client.max_inflight_messages_set(10)  # as few as any broker known takes
        client.manual_ack_set(self._keeps)
        # A fleet that lost its broker at one moment does not come back at one moment.
        first, longest = (random.uniform(0.5, 1.0) * seconds for seconds in self.delays)
        client.reconnect_delay_set(first, longest)  # type: ignore[arg-type]
        if address.user:
            client.username_pw_set(address.user, password)
        if address.secure:
            context = context_of(tls)
            context.sslsocket_class = _Socket
            client.tls_set_context(context)
        if will is not None:
            client.will_set(will.topic, will.payload, qos=1, retain=will.retained)
        client.on_pre_connect = self._on_pre_connect
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_publish, client.on_message = self._on_publish, self._on_message
        client.on_subscribe, client.on_unsubscribe = self._on_subscribe, self._on_unsubscribe
        client.on_socket_open = _send_at_once
        asked = paho.Properties(paho.PacketTypes.CONNECT)
        asked.MaximumPacketSize = _MOST_PACKET
        if self._keeps:
            asked.SessionExpiryInterval = 24 * 3600
            asked.ReceiveMaximum = 100
        client.connect_async(
            address.host, address.port, 60, clean_start=not self._keeps, properties=asked
        )
        return client

    def start(self) -> None:
        """Begins to connect, in the background."""
        self._client.loop_start()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> "Sent":
        """Publishes a message, now or as soon as there is a link; returns at once.

        ``Refused`` for what this broker can't take, ``Unreachable`` where too much waits for it.
        """
        size = len(payload) + len(topic.encode()) + 32
        if size > self.longest:
            raise Refused(
                f"{self.address.place} takes messages of {self.longest:,} bytes, and this one has "
                f"{size:,}: {topic}; let it take larger ones (max_packet_size)"
            )
        if retain and not self._retains:
            raise Refused(f"{self.address.place} retains nothing; let it (retain_available)")
        sent = Sent(topic)
        found = self._client.publish(topic, payload, 1, retain)
        if found.rc == paho.MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise self._unreachable("too many messages wait for it")
        with self.changed:
            if found.mid in self._early:
                self._finish(sent, self._early.pop(found.mid))
            else:
                self._sent[found.mid] = sent
        return sent

    def wait(
        self, until: Callable[[], bool], seconds: float | None = None, patience: float = 0.0
    ) -> None:
        """Waits until something holds, for as long as ``patience`` more while messages come.

        Raises why the broker can't be reached as soon as that is so, and ``Unreachable`` after as
        many seconds.
        """
        began, seconds = time.monotonic(), self.patience if seconds is None else seconds
        with self.changed:
            while not until():
                if self.failure is not None:
                    raise type(self.failure)(*self.failure.args)  # each asker gets one of its own
                if self._closed:
                    raise self._unreachable("it was closed")
                last = max(began, self._client.heard_at) if patience else began
                left = min(last, began + patience) + seconds - time.monotonic()
                if left <= 0:
                    raise NoAnswer(f"{self.address.place}: no answer in time")
                self.changed.wait(left)

    def catch_up(self) -> None:
        """Waits until all is heard that the broker had for this client when it was asked.

        A broker answers in the order of the questions, so what it retains comes before its answer
        to one that was asked after the subscription, whatever that is. ``Unauthorized`` where it
        does not let one hear the topics; ``Unreachable`` where it drops messages, and so answers.
        """
        for _ in range(3):
            self.wait(lambda: self.linked and self._granted == self.links)
            if self._refusal is not None:
                raise Unauthorized(*self._refusal.args)
            link = self.links
            try:
                self._wait_for(self._first, link)
                self._wait_for(self._ask(), link)
            except NoAnswer:
                self._wait_for(self._ask(), link)
                raise self._unreachable(
                    "it drops messages when many are read; raise max_queued_messages there"
                ) from None
            if self.linked and self.links == link:
                return
        raise self._unreachable("links are lost before all is read")

    def _ask(self) -> int | None:
        """Asks for something that needs no more than an answer."""
        return self._client.unsubscribe("elmgrove/nothing")[1]

    def _wait_for(self, number: int | None, link: int) -> None:
        self.wait(
            lambda: number in self._answered or not self.linked or self.links != link,
            patience=self.longest_wait,
        )

    def acknowledge(self, message: Message) -> None:
        """Says that a message was dealt with, to a broker that waits to hear so."""
        with self.changed:
            # By another link the number may be another message's.
            if message.number and self.linked and message.link == self.links:
                self._client.ack(message.number, 1)

    def close(self) -> None:
        """Says goodbye, and gives up what was not acknowledged."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()
        self._client.disconnect()
        # Paho waits for its thread without a bound, and that may wait for the network.
        ending = threading.Thread(target=self._end, daemon=True)
        ending.start()
        ending.join(2.0)

    def _end(self) -> None:
        with suppress(AttributeError):  # paho forgets its thread when that ends
            self._client.loop_stop()
        line = self._client.socket()
        if line is not None:
            line.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What paho calls, in its thread; some of it while it holds locks, so nothing is asked of it
    # here while ``changed`` is held

    def _on_pre_connect(self, _client: Client, _data: Any) -> None:
        self._let_in = None

    def _on_connect(
        self, client: Client, _data: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        if reason.is_failure:
            self._fail(self._not_let_in(reason))
            return
        granted = vars(properties)
        self.longest = int(granted.get("MaximumPacketSize", _MOST_PACKET))
        self._retains = bool(granted.get("RetainAvailable", 1))
        with self.changed:
            self._let_in = True
            self.links += 1
            self.session = self.session if flags.session_present else self.links
        if self._closed:
            client.disconnect()
        elif self._topics:
            client.subscribe([(topic, self._qos) for topic in self._topics])
            self._first = self._ask()

    def _ready(self) -> None:
        with self.changed:
            self.linked, self.failure, self._answered = True, None, set()
            self.changed.notify_all()

    def _on_disconnect(
        self, client: Client, _data: Any, _flags: Any, reason: Any, _properties: Any
    ) -> None:
        with self.changed:
            let_in, self._let_in, self.linked = self._let_in, False, False
            self._futile += bool(let_in and self._sent)
            self.changed.notify_all()
        if let_in is None:
            self._fail(self.failure or self._unreachable(f"it lets nobody in: {_said(reason)}"))
        elif let_in and (self._futile >= self.most_lost or reason.value == _TOO_LARGE):
            self._give_up(client, f"the connection was lost: {_said(reason)}")

    def _give_up(self, client: Client, why: str) -> None:
        """Gives up all that is under way: something of it ends each link."""
        error = self._unreachable(
            f"{why}, {self._futile} times while this was sent; is it more than the broker takes?"
        )
        self._futile = 0
        dropped = client.drop_out_messages()
        with self.changed:  # known of all at once
            for one in dropped:
                self._settle(one.mid, error)

    def _on_publish(
        self, _client: Client, _data: Any, number: int, reason: Any, _properties: Any
    ) -> None:
        self._futile = 0
        self._settle(number, reason)

    def _settle(self, number: int, result: Any) -> None:
        with self.changed:
            sent = self._sent.pop(number, None)
            if sent is None:
                self._early[number] = result
            else:
                self._finish(sent, result)

    def _finish(self, sent: "Sent", result: Any) -> None:
        if isinstance(result, ElmgroveError):
            sent.error = result
        elif result.is_failure:
            sent.error = Refused(self._not_allowed("write", sent.topic, result))
        sent.settled = True
        self.changed.notify_all()

    def _on_subscribe(
        self, _client: Client, _data: Any, _number: int, reasons: Any, _properties: Any
    ) -> None:
        failed = [at for at, reason in enumerate(reasons[: len(self._topics)]) if reason.is_failure]
        before, self._refusal = self._refusal, None
        if failed:
            why = self._not_allowed("read", self._topics[failed[0]], reasons[failed[0]])
            self._refusal = Unauthorized(why)
            if str(before) != why:
                log.warning("%s", why)
        with self.changed:
            self._granted = self.links
            self.changed.notify_all()
        if not failed:
            self._subscribed()

    def _on_unsubscribe(
        self, _client: Client, _data: Any, number: int, _reasons: Any, _properties: Any
    ) -> None:
        with self.changed:
            self._answered.add(number)
            self.changed.notify_all()

    def _on_message(self, client: Client, _data: Any, came: Any) -> None:
        try:
            topic = came.topic
        except UnicodeDecodeError:
            client.ack(came.mid, came.qos)
            return
        number = came.mid if self._keeps and came.qos else 0
        payload = bytes(came.payload)
        try:
            self._hear(Message(topic, payload, came.retain, self.links, number, came.dup))
        except Exception:  # a message may be anything, and ends nothing
            log.exception("a message under %s", plain(topic))

    def _fail(self, error: Exception) -> None:
        """Takes note of why there is no link."""
        if not isinstance(error, ElmgroveError):
            why = plain(str(error)) or type(error).__name__
            if self.address.secure and "certificate" in why.lower():
                why += " (state the authority that signed the broker's certificate as ca)"
            error = self._unreachable(why)
        with self.changed:
            self.failure = error
            self.changed.notify_all()

    # Words

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(f"{self.address.place}: {why}")

    def _not_let_in(self, reason: Any) -> ElmgroveError:
        if reason.value not in _NOT_LET:
            return self._unreachable(f"it lets nobody in by MQTT 5: {_said(reason)}")
        return Unauthorized(
            f"{self.address.place} does not let {self._who} in: {_said(reason)}; state user and "
            "password, or a certificate, that the broker knows"
        )

    def _not_allowed(self, what: str, topic: str, reason: Any) -> str:
        why = (
            f"{self.address.place} does not let {self._who} {what} {plain(topic)}: {_said(reason)}"
        )
        if reason.value in _NOT_LET:
            return f"{why}; allow it in the broker's access list"
        if reason.value == _QUOTA_EXCEEDED:
            return f"{why}; let the broker take larger messages"
        return why


class NoAnswer(Unreachable):
    """A broker that can be reached, as far as is known, did not answer."""


@dataclass(eq=False)
class Sent:
    """A message that was published, once it is ``settled`` what came of it.

    Without an ``error`` the broker has acknowledged it. ``Refused`` is for one that it does not
    take, ``Unreachable`` for those of which one ended each link.
    """

    topic: str
    settled: bool = False
    error: ElmgroveError | None = None


def _said(reason: Any) -> str:
    return plain(reason.getName())


def _send_at_once(_client: Client, _data: Any, line: Any) -> None:
    """Lets small packets leave when they are written; else they wait for each other, 40 ms."""
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
