"""A broker as exchange: what devices contributed are messages that it retains."""

import hashlib
import json
import logging
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from elmgrove.errors import BadFile, BadInput, ElmgroveError, Refused, Unauthorized, Unreachable
from elmgrove.exchange.base import SLOWEST, TLS, EntriesExchange, Exchange, Held, Tls
from elmgrove.exchange.broker import SECONDS, Broker
from elmgrove.exchange.broker_address import BrokerAddress, Message
from elmgrove.exchange.responses import plain
from elmgrove.federation.charter import Charter, address_of, require_address
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import (
    Contribution,
    Departure,
    Entry,
    entry_from_bytes,
    require_epoch,
    require_origin,
)
from elmgrove.federation.ledger import Version, follows
from elmgrove.federation.others import content_limit, require_makeable
from elmgrove.federation.report import Report

#: The bytes of an announcement, at most.
MOST_ANNOUNCED = 2048
#: Announcements lie under as many topics. A broker that is asked for all of one gives out few
#: enough at a time; some drop what is more than a thousand.
SHARDS = "0123456789abcdef"
_FORMAT = 1
_LONGEST_URL = 500


def shard_of(address: str) -> str:
    """Gives the shard of a device, by its name as it is in topics."""
    return hashlib.sha256(address.encode()).hexdigest()[0]


@dataclass(frozen=True)
class Announcement:
    """Says that there is an entry of a device, and what it must be when it is fetched.

    The entry is retained by the broker or, where that is too much for a message, on the Elmgrove
    server at ``url``. ``rows`` is None for a departure, of which nothing has to be fetched.
    """

    device: str
    epoch: int
    rows: float | None
    size: int
    sha256: str
    url: str = ""

    def __post_init__(self) -> None:
        require_origin(self.device)
        require_epoch(self.epoch)
        if self.rows is not None and not (_is_number(self.rows) and 0 <= self.rows < math.inf):
            raise BadInput(f"rows: a finite number from 0 on, not {self.rows!r:.80}")
        if type(self.size) is not int or not 0 <= self.size < 2**63:
            raise BadInput(f"size: a whole number of bytes, not {self.size!r:.80}")
        if not isinstance(self.sha256, str) or not _is_digest(self.sha256):
            raise BadInput(f"sha256: 64 digits from 0 to f, not {self.sha256!r:.80}")
        is_text = isinstance(self.url, str) and (not self.url or self.url.isprintable())
        if not is_text or len(self.url) > _LONGEST_URL:
            raise BadInput(f"url: a text of at most {_LONGEST_URL} letters, not {self.url!r:.80}")

    @classmethod
    def of(cls, entry: Entry, blob: bytes, url: str = "") -> "Announcement":
        """Announces an entry, of which these are the bytes."""
        rows = entry.evidence.count if isinstance(entry, Contribution) else None
        digest = hashlib.sha256(blob).hexdigest()
        return cls(entry.origin, entry.epoch, rows, len(blob), digest, url)

    @property
    def version(self) -> Version:
        """What ``follows`` needs to know of the entry."""
        return Version(self.epoch, self.rows, self.sha256)

    @property
    def left(self) -> bool:
        """Whether the device left."""
        return self.rows is None

    def entry_of(self, blob: bytes) -> Entry:
        """Reads the entry that was announced, or a newer one of the same device.

        A device replaces its entry before it announces that, so a newer one may be there already.
        ``BadFile`` for anything else: what is older, was altered, or is another device's.
        """
        entry = entry_from_bytes(blob)
        if entry.origin != self.device:
            raise BadFile(f"an entry of {entry.origin!r} under another name")
        if entry.epoch < self.epoch:
            raise BadFile(f"older (epoch {entry.epoch}) than was announced (epoch {self.epoch})")
        if entry.epoch == self.epoch and Announcement.of(entry, blob, self.url) != self:
            raise BadFile("not what was announced")
        return entry

    def to_bytes(self) -> bytes:
        """Writes it as JSON."""
        return json.dumps({"format": _FORMAT, **asdict(self)}).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> "Announcement":
        """Reads what ``to_bytes`` wrote; ``BadFile`` for anything else."""
        try:
            fields = json.loads(payload)
            if not isinstance(fields, dict):
                raise BadInput("it is no object")
            if fields.pop("format", None) != _FORMAT:
                raise BadInput("it is of no format that this version of Elmgrove can read")
            return cls(**_texts(fields))
        except ElmgroveError as error:
            raise BadFile(f"no announcement: {error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise BadFile(f"no announcement: {error!r:.200}") from error


def _texts(fields: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(fields.get("device"), str):
        raise BadInput(f"device: a name, not {fields.get('device')!r:.80}")
    return fields


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set(SHARDS)


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


#: The bytes of an entry that a broker retains, at most; it may say that it takes fewer.
MOST_RETAINED = 1 << 20
#: The bytes of an entry that is a message, at most.
MOST_BLOB = MOST_RETAINED
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
        most = min(MOST_BLOB, self._broker.longest - around)
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
        return {}  # a server shows single contributions to administrators only

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


# The bytes of a packet around an entry.
_AROUND = 4096


class MqttExchange(EntriesExchange):
    """Retained messages under one topic of a broker: the charter, and of each device two.

    ``…/charter`` is the charter, ``…/entries/S/NAME`` what a device announces, where S is the shard
    of the name, and ``…/blobs/NAME`` its entry. An entry that is too large for a message goes to a
    federation on a server, ``blobs``, which the device joins as any other (``token``, ``key``,
    ``keyfile``); others ask their own server for it, never one that somebody else names. That
    server is told how the device is doing, too. Who may write which topic is the broker's business.
    What is read is believed as far as its device announced it, in its own name, and it fits the
    charter; the rest is left out, with a warning.
    """

    def __init__(
        self,
        url: str,
        device: str,
        *,
        user: str = "",
        password: str | None = None,
        tls: Tls = TLS,
        blobs: str = "",
        token: str | None = None,
        key: str | None = None,
        keyfile: Path | None = None,
    ) -> None:
        require_address(device)
        address = _address(url, user)
        server = _server(blobs, device, token=token, key=key, keyfile=keyfile, tls=tls)
        self._address, self._server = address, server
        self._broker = Broker(address, password=password, tls=tls, most=MOST_RETAINED + _AROUND)
        self._board = Board(self._broker, quote(address.user or device, safe=""))
        self._blobs = Blobs(self._broker, self._board, server, blobs)
        self._charter: Charter | None = None

    @classmethod
    def create(
        cls, url: str, charter: Charter, *, password: str | None = None, tls: Tls = TLS
    ) -> None:
        """Makes a topic the place of a federation; ``BadInput`` if it is another's already."""
        with cls(url, "elmgrove", password=password, tls=tls) as made:
            held = made._retained_charter()
            if held is not None and held != charter:
                raise BadInput(f"{made._address.under('charter')} defines another federation")
            content = json.dumps(charter.fields).encode()
            if len(content) > MOST_RETAINED:
                raise BadInput(f"this charter has more than the {MOST_RETAINED:,} bytes it may")
            made._broker.publish(made._address.under("charter"), content, retain=True)

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
        """Has a device's entry retained in the place of its former one; see ``Exchange``.

        First the entry, then what announces it: what was announced is there.
        """
        self.charter.require(entry)
        blob = entry.to_bytes()
        new, held = self._blobs.announcement(entry, blob), self._look().get(entry.origin)
        if not follows(None if held is None else held.version, new.version):
            return
        self._blobs.put(entry, blob, new, held)
        address = address_of(entry.origin)
        topic = self._address.under("entries", shard_of(address), address)
        self._broker.publish(topic, new.to_bytes(), retain=True)

    def held(self) -> dict[str, Held]:
        """Reads all that is announced of every device."""
        found = dict[str, Held]()
        looked = self._look()
        wanted = [one for _, one in sorted(looked.items())]
        for entry in self._blobs.read(wanted, self.charter.require):
            found[entry.origin] = Held(entry, looked[entry.origin].version)
        return found

    def report(self, report: Report) -> tuple[Command, ...]:
        """Tells the server for blobs how a device is doing, if there is one; see ``Exchange``."""
        return () if self._server is None else self._server.report(report)

    def close(self) -> None:
        """Says goodbye to the broker, and to the server if there is one."""
        self._charter = None
        self._board.forget()
        self._blobs.forget()
        self._broker.close()
        self._blobs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look(self) -> dict[str, Announcement]:
        charter = self.charter
        most = content_limit(charter)

        def require(one: Announcement) -> None:
            if not charter.admits(one.device):
                raise Refused(f"{one.device!r} is not among the devices that may join")
            if one.size > most:
                raise BadFile(f"it announces {one.size:,} bytes, and has {most:,} at most")

        return self._board.announcements(require)

    def _retained_charter(self) -> Charter | None:
        topic = self._address.under("charter")
        found = self._board.contents([topic], MOST_RETAINED).get(topic)
        if found is None:
            return None
        try:
            made = Charter.from_fields(dict(json.loads(found)))
            require_makeable(made)
        except (ValueError, TypeError, RecursionError) as error:
            why = plain(str(error))
            raise Unreachable(f"{self._address.place}: {topic} is no charter: {why}") from error
        return made


def _address(url: str, user: str) -> BrokerAddress:
    address = BrokerAddress.parsed(url)
    if not address.topic or {*address.topic} & {"+", "#"}:
        raise BadInput(f"{address}: a federation has a topic of its own, without + and #")
    return address if address.user else replace(address, user=user)


def _server(
    url: str,
    device: str,
    *,
    token: str | None,
    key: str | None,
    keyfile: Path | None,
    tls: Tls,
) -> Exchange | None:
    if not url:
        return None
    # httpx takes a while to load, and most brokers hold all there is.
    from elmgrove.exchange.http import HttpExchange

    return HttpExchange(url, device, token=token, key=key, keyfile=keyfile, tls=tls)
