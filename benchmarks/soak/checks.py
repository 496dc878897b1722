"""What a soak checks: that nothing acknowledged is lost, and that sums are those of the store."""

import hashlib
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import httpx

from benchmarks.soak.server import Server, Stored
from elmgrove.errors import ElmgroveError
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, Ledger, entry_from_bytes
from elmgrove.federation.merged import Merged

#: Sums that are compared each time.
_SUMS = 5
# How far a sum over hundreds of devices may be off by rounding.
_TOLERANCE = 1e-9


class Acknowledged(NamedTuple):
    """What a device was told that the server holds: an epoch, and the content's hash or "left"."""

    epoch: int
    content: str


class Acknowledgements:
    """Hears of each entry that was acknowledged, from all agents, and keeps each one's newest."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._newest: dict[str, Acknowledged] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        threading.Thread(target=self._hear, daemon=True).start()

    @property
    def newest(self) -> dict[str, Acknowledged]:
        """The newest of each device, as of now."""
        return dict(self._newest)

    def _hear(self) -> None:
        while True:
            origin, epoch, content = self._socket.recv(1024).decode().split()
            self.count += 1
            self._newest[origin] = Acknowledged(int(epoch), content)


def lost(acknowledged: Mapping[str, Acknowledged], stored: Mapping[str, Stored]) -> list[str]:
    """Names the devices of which an acknowledged entry is neither held nor superseded.

    What was acknowledged must have been gathered before the store was read.
    """
    return [origin for origin, told in acknowledged.items() if not _holds(stored.get(origin), told)]


def _holds(held: Stored | None, told: Acknowledged) -> bool:
    if held is None or held.epoch < told.epoch:
        return False
    return held.epoch > told.epoch or _content(held) == told.content


def _content(held: Stored) -> str:
    return "left" if held.blob is None else hashlib.sha256(held.blob).hexdigest()


def wrong_sums(server: Server, charter: Charter, random: Random) -> tuple[int, list[str]]:
    """Compares some of the server's sums with those of its store; gives how many, and the wrong.

    Nobody may publish meanwhile.
    """
    _wait_for_peace(server)
    contributions = contributions_in(server.stored())
    names = sorted(contributions)
    asked = random.sample(names, min(_SUMS, len(names)))
    wrong = [name for name in asked if not _is_right(server, charter, name, contributions)]
    return len(asked), wrong


def contributions_in(stored: Mapping[str, Stored]) -> dict[str, Contribution]:
    """Reads the contributions of devices that have not left."""
    found = {}
    for origin, held in stored.items():
        if held.blob is not None:
            entry = entry_from_bytes(held.blob)
            assert isinstance(entry, Contribution)
            found[origin] = entry
    return found


def _is_right(
    server: Server, charter: Charter, name: str, contributions: Mapping[str, Contribution]
) -> bool:
    path = f"/v1/federations/{charter.name}/merged"
    try:
        told = Merged.from_bytes(server.ask(path, without=name))
    except (httpx.HTTPStatusError, ElmgroveError):
        return False
    others = [one for origin, one in contributions.items() if origin != name]
    return is_sum(told, others)


def is_sum(told: Merged, others: Sequence[Contribution]) -> bool:
    """Whether this is the sum over these, added up one by one."""
    total = Ledger(others).total()
    if total is None:
        return told.devices == 0 and told.evidence.count == 0
    right = told.evidence.count == total.count and told.devices == len(others)
    return right and told.evidence.close_to(total, _TOLERANCE)


def _wait_for_peace(server: Server) -> None:
    """Waits until what was under way is stored."""
    before, now = -1, server.revision()
    while now != before:
        time.sleep(0.3)
        before, now = now, server.revision()
