"""Federations in rounds on a server, as a client sees them: turns, requests, replies, gifts."""

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Self

from elmgrove.exchange.asking import SHORT
from elmgrove.exchange.base import TLS, Tls
from elmgrove.exchange.joining import HttpDevice
from elmgrove.exchange.responses import Fields, plain
from elmgrove.federation import address_of

#: The most bytes of a request or a gift: 5,000 units with as many inputs.
_MOST = 400_000_000


class Turn(NamedTuple):
    """What a client is told: which of how many rounds it is, and whether it is asked in it.

    ``again`` are the seconds for which the server asks to be left alone.
    """

    number: int
    rounds: int
    asked: bool
    ended: bool
    again: float


class HttpRounds:
    """Speaks with ``elmgrove serve`` about the rounds of one federation, for one client.

    ``url`` ends in the federation's name; the client joins by a key of its own (``HttpDevice``).
    """

    def __init__(
        self,
        url: str,
        device: str,
        *,
        key: str | None = None,
        token: str | None = None,
        keyfile: Path | None = None,
        tls: Tls = TLS,
    ) -> None:
        self._device = device
        self._joined = HttpDevice(url, device, key=key, token=token, keyfile=keyfile, tls=tls)

    def show(self) -> Fields:
        """Asks for the agenda, where the federation stands, and the reports of its rounds."""
        return self._joined.request("GET", "/rounds").json()

    def turn(self, wait: int) -> Turn:
        """Waits some seconds, or until this client is asked or the last round is over."""
        answer = self._joined.request("GET", "/rounds/turn", params={"wait": wait}, most=SHORT)
        told = answer.json()
        return Turn(
            told.whole("number"),
            told.whole("rounds"),
            told.flag("asked"),
            told.flag("ended"),
            answer.retry_after,
        )

    def request(self, number: int) -> bytes:
        """Fetches what is asked in a round; of the one after the last, what all led to."""
        return self._joined.request("GET", f"/rounds/{number}/request", most=_MOST).content

    def reply(self, number: int, blob: bytes, failed: str = "") -> bool:
        """Sends a reply to a round; says whether it is used, which one with nothing new is not.

        A client that ``failed`` says why, so that nobody waits for it. What returns is stored.
        ``Refused`` if it came too late or can't be used.
        """
        where = f"/rounds/{number}/replies/{address_of(self._device)}"
        stated = {"failed": plain(failed)} if failed else {}
        answer = self._joined.request("PUT", where, content=blob, params=stated, most=SHORT)
        told = answer.json()
        if told.text("digest") != sha256(blob).hexdigest():
            raise answer.unlike("it did not store what was sent")
        return told.flag("used")

    def gift(self) -> bytes:
        """Fetches what this client gets after the last round."""
        where = f"/rounds/gifts/{address_of(self._device)}"
        return self._joined.request("GET", where, most=_MOST).content

    def model(self) -> bytes:
        """Fetches what all clients know together after the last round."""
        return self._joined.request("GET", "/rounds/model", most=_MOST).content

    def close(self) -> None:
        """Closes the connection, if there is one."""
        self._joined.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
