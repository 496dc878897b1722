"""A broker as exchange: what devices contributed are messages that it retains."""

import json
import logging
import threading
from dataclasses import dataclass, replace
from typing import Self

from elmgrove.errors import (
    BadFile,
    BadInput,
    ElmgroveError,
    Refused,
    Unauthorized,
    Unreachable,
    plain,
)
from elmgrove.exchange.base import SLOWEST, TLS, EntriesExchange, Held, Tls
from elmgrove.exchange.broker import MOST_PAYLOAD, Broker
from elmgrove.exchange.broker_address import BrokerAddress, Message
from elmgrove.federation.aggregation import content_limit, require_makeable
from elmgrove.federation.charter import Charter, address_of, require_address
from elmgrove.federation.contribution import Entry, follows

log = logging.getLogger("elmgrove.exchange")
#: The bytes of all entries that a device keeps of what the broker retains.
MOST_KEPT = 128 << 20
# Entries of which is told at a time that they are left out: there may be many.
_TOLD = 5
#: From so many entries on a broker may drop some by its usual settings.
MANY = 1000


@dataclass
class _Retained:
    """What came by a link: its bytes, or what was read of them, or why that could not be."""

    link: int
    size: int
    content: bytes | Held | ElmgroveError


class MqttExchange(EntriesExchange):
    """Retained messages under one topic of a broker: the charter, and an entry of each device.

    ``…/charter`` is the charter, ``…/entries/NAME`` what the device of that name contributed, or
    that it left. All entries are heard from the first look on, as they come. Who may write which
    topic is the broker's business. What is no entry, is under another device's topic or does not
    fit the charter is left out, with a warning. An entry that is too large for a message is
    refused: such a federation needs a server.
    """

    def __init__(
        self,
        url: str,
        device: str,
        *,
        user: str = "",
        password: str | None = None,
        tls: Tls = TLS,
    ) -> None:
        require_address(device)
        address = BrokerAddress.parsed(url)
        if not address.topic or {*address.topic} & {"+", "#"}:
            raise BadInput(f"{address}: a federation has a topic of its own, without + and #")
        self._address = address if address.user else replace(address, user=user)
        self._password, self._tls = password, tls
        self._broker: Broker | None = None
        self._charter: Charter | None = None
        self._lock = threading.Lock()
        self._retained = dict[str, _Retained]()
        # The bytes of all that is retained, and whether there was more.
        self._kept, self._full = 0, False
        # What was told the last time, and is not told again.
        self._reported = set[str]()

    @classmethod
    def create(
        cls, url: str, charter: Charter, *, password: str | None = None, tls: Tls = TLS
    ) -> None:
        """Makes a topic the place of a federation; ``BadInput`` if it is another's already."""
        with cls(url, "elmgrove", password=password, tls=tls) as made:
            topic = made._address.under("charter")
            held = made._retained_charter()
            if held is not None and held != charter:
                raise BadInput(f"{topic} defines another federation")
            made._publish(topic, json.dumps(charter.fields).encode())

    @property
    def charter(self) -> Charter:
        """The federation's charter, read once."""
        if self._charter is None:
            self._charter = self._retained_charter()
        if self._charter is None:
            raise Unreachable(
                f"{self._address.place} retains no charter under {self._address.under('charter')}: "
                "make the federation there ('elmgrove federation create NAME --data FILE "
                f"--exchange {self._address}'), or let this user read that topic"
            )
        return self._charter

    def publish(self, entry: Entry) -> None:
        """Has a device's entry retained in the place of its former one; see ``Exchange``."""
        self.charter.require(entry)
        blob = entry.to_bytes()
        if len(blob) > MOST_PAYLOAD:
            raise Refused(
                f"this contribution has {len(blob):,} bytes, and a message has {MOST_PAYLOAD:,} at "
                "most; use an Elmgrove server as exchange, or fewer units"
            )
        held = self.held().get(entry.origin)
        if not follows(None if held is None else held.version, Held.of(blob).version):
            return
        topic = self._address.under("entries", address_of(entry.origin))
        self._publish(topic, blob)
        self._look()
        if topic not in self._retained and not self._full:
            raise Unauthorized(
                f"{self._address.place} takes what this device writes to {topic}, and does not let "
                "it read that; allow it in the broker's access list"
            )

    def held(self) -> dict[str, Held]:
        """Reads all that is retained now, by the names of the devices."""
        charter, link = self.charter, self._look()
        found, told = dict[str, Held](), list[str]()
        for topic, one in self._heard(link):
            if isinstance(one.content, bytes):
                one.content = _read(topic, one.content, charter)
            if isinstance(one.content, ElmgroveError):
                told.append(f"{plain(topic)} is left out: {plain(str(one.content))}")
            else:
                found[one.content.entry.origin] = one.content
        if self._full:
            told.append(
                f"{self._address.place} retains more than the {MOST_KEPT:,} bytes that a "
                "device keeps, and some are left out"
            )
        if len(found) >= MANY:
            told.append(
                f"{self._address.place} retains {MANY:,} entries or more: raise "
                "max_queued_messages there, or some may be dropped"
            )
        self._tell(told)
        return dict(sorted(found.items()))

    def close(self) -> None:
        """Says goodbye to the broker, and forgets what it retains; the next use begins anew."""
        broker, self._broker, self._charter = self._broker, None, None
        if broker is not None:
            broker.close()
        with self._lock:
            self._retained, self._kept, self._full = {}, 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look(self) -> int:
        """Hears all that is retained now; gives the link by which it came."""
        broker = self._connected()
        broker.catch_up()
        return broker.links

    def _connected(self) -> Broker:
        if self._broker is None:
            topics = [self._address.under("charter"), self._address.under("entries", "+")]
            # Of QoS 1, a broker drops more where much is retained.
            self._broker = Broker(
                self._address, topics, self._hear, password=self._password, tls=self._tls, qos=0
            )
            self._broker.start()
        return self._broker

    def _publish(self, topic: str, payload: bytes) -> None:
        broker = self._connected()
        try:
            broker.wait(lambda: broker.linked)
            sent = broker.publish(topic, payload, retain=True)
            seconds = broker.patience + len(payload) / SLOWEST
            broker.wait(lambda: sent.settled, seconds)
        except ElmgroveError:
            self.close()  # else it would be sent as soon as there is a link
            raise
        if sent.error is not None:
            raise sent.error

    def _hear(self, message: Message) -> None:
        """Keeps what is retained under a topic, in paho's thread."""
        topic, size = message.topic, len(message.topic) + len(message.payload)
        with self._lock:
            former = self._retained.pop(topic, None)
            self._kept -= 0 if former is None else former.size
            if not message.payload:
                return
            if self._kept + size > MOST_KEPT:
                self._full = True
            else:
                self._retained[topic] = _Retained(message.link, size, message.payload)
                self._kept += size

    def _heard(self, link: int) -> list[tuple[str, _Retained]]:
        """Gives the entries as they came, and forgets those that a new link did not bring."""
        with self._lock:
            self._retained = {t: one for t, one in self._retained.items() if one.link >= link}
            self._kept = sum(one.size for one in self._retained.values())
            charter = self._address.under("charter")
            return [(t, one) for t, one in self._retained.items() if t != charter]

    def _retained_charter(self) -> Charter | None:
        self._look()
        topic = self._address.under("charter")
        found = self._retained.get(topic)
        if found is None:
            return None
        try:
            assert isinstance(found.content, bytes)
            made = Charter.from_fields(dict(json.loads(found.content)))
            require_makeable(made)
        except (ValueError, TypeError, RecursionError) as error:
            why = plain(str(error))
            raise Unreachable(f"{self._address.place}: {topic} is no charter: {why}") from error
        return made

    def _tell(self, told: list[str]) -> None:
        """Tells what is wrong, once, and only of a few where there is much."""
        new = [one for one in told if one not in self._reported]
        for one in new[:_TOLD]:
            log.warning("%s", one)
        if len(new) > _TOLD:
            log.warning("%s more are left out", f"{len(new) - _TOLD:,}")
        self._reported = set(told)


def _read(topic: str, blob: bytes, charter: Charter) -> Held | ElmgroveError:
    """Reads an entry as far as it is believed, or says why it is not."""
    try:
        most = content_limit(charter)
        if len(blob) > most:
            raise BadFile(f"longer than the {most:,} bytes it may have")
        held = Held.of(blob)
        charter.require(held.entry)
        if address_of(held.entry.origin) != topic.rpartition("/")[2]:
            raise BadFile(f"an entry of {held.entry.origin!r} under another name")
    except ElmgroveError as error:
        return error
    return held
