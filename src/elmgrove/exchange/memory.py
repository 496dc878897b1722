"""An exchange in memory: for devices in one process, and the model for all others."""

from collections.abc import Collection
from typing import NamedTuple

from elmgrove.exchange.base import BareExchange, Listing, listing_of, version_of
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Entry, entry_from_bytes
from elmgrove.federation.ledger import Version, follows


class _Held(NamedTuple):
    entry: Entry
    size: int
    version: Version


class MemoryExchange(BareExchange):
    """Keeps what can be read of entries' bytes, as if they had travelled.

    An entry is read once, when it comes; everybody gets that one, which nobody can change. Not for
    several threads at once.
    """

    def __init__(self, charter: Charter) -> None:
        self._charter = charter
        self._held: dict[str, _Held] = {}
        # The device that made each change: for that device it is none.
        self._changes: list[str] = []

    @property
    def charter(self) -> Charter:
        """The federation's charter, as it was told."""
        return self._charter

    def forget_charter(self) -> None:
        """Does nothing: it was told the charter."""

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one; see ``Exchange``."""
        self.charter.require(entry)
        held = self._held.get(entry.origin)
        blob = entry.to_bytes()
        version = version_of(blob)
        if follows(None if held is None else held.version, version):
            self._held[entry.origin] = _Held(entry_from_bytes(blob), len(blob), version)
            self._changes.append(entry.origin)

    def listings(self) -> list[Listing]:
        """Lists what is held of every device, in the order of the names."""
        return [listing_of(held.entry, held.size) for _, held in sorted(self._held.items())]

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """Gives the entries of these devices that are there."""
        return [self._held[name].entry for name in sorted(origins) if name in self._held]

    def _revision(self, without: str | None) -> int:
        changes = enumerate(self._changes, start=1)
        return max((number for number, origin in changes if origin != without), default=0)

    def _entries_but(self, without: str | None) -> list[Entry]:
        return self.fetch(set(self._held) - {without})

    def close(self) -> None:
        """Does nothing: there is no connection."""
