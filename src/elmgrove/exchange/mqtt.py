"""A broker as exchange: what devices contributed are messages that it retains."""

import hashlib
import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Self
from urllib.parse import quote

from elmgrove.errors import BadFile, BadInput
from elmgrove.exchange.announcements import Announcement, shard_of
from elmgrove.exchange.bare import BareExchange
from elmgrove.exchange.base import TLS, Exchange, Listing, Tls, Unreachable
from elmgrove.exchange.blobs import MOST_RETAINED, Blobs
from elmgrove.exchange.board import Board
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.broker_address import BrokerAddress
from elmgrove.exchange.responses import plain
from elmgrove.federation import (
    Charter,
    Entry,
    Errand,
    Refused,
    Summary,
    address_of,
    content_limit,
    follows,
    require_address,
    require_makeable,
)

# The bytes of a packet around an entry.
_AROUND = 4096


class MqttExchange(BareExchange):
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
        # The announcements of the last revision.
        self._looked = dict[str, Announcement]()

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
                "make the federation there ('elmgrove federation create NAME --data FILE --broker "
                f"{self._address}'), or let this user read that topic"
            )
        return self._charter

    def forget_charter(self) -> None:
        """Lets the charter be read again, and all that had to fit it."""
        self._charter = None
        self._board.forget()
        self._blobs.forget()

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

    def listings(self) -> list[Listing]:
        """Lists what is announced of every device, in the order of the names."""
        return [
            Listing(name, one.epoch, one.left, one.size)
            for name, one in sorted(self._look().items())
        ]

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """Reads the entries of these devices that are there."""
        wanted = [one for name, one in sorted(self._look().items()) if name in origins]
        return self._blobs.read(wanted, self.charter.require)

    @property
    def somebody_looks(self) -> bool:
        """Whether there is a server for blobs: its dashboard shows the device."""
        return self._server is not None

    def report(self, summary: Summary) -> tuple[Errand, ...]:
        """Tells the server for blobs how a device is doing, if there is one; see ``Exchange``."""
        return () if self._server is None else self._server.report(summary)

    def rotate_key(self) -> bool:
        """Changes the device's key on the server for blobs; False where there is none."""
        return self._blobs.rotate_key()

    def close(self) -> None:
        """Says goodbye to the broker, and to the server if there is one."""
        self._broker.close()
        self._blobs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _revision(self, without: str | None) -> int:
        self._looked = {name: one for name, one in self._look().items() if name != without}
        stamps = [(name, one.epoch, one.sha256) for name, one in sorted(self._looked.items())]
        return int.from_bytes(hashlib.sha256(repr(stamps).encode()).digest()[:7], "big")

    def _entries_but(self, without: str | None) -> list[Entry]:
        looked = [one for _, one in sorted(self._looked.items())]
        return self._blobs.read(looked, self.charter.require)

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
