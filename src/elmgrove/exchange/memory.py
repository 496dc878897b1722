"""An exchange in memory: for devices in one process, and the model for all others."""

from collections.abc import Collection
from typing import Any, NamedTuple

from elmgrove.exchange.base import (
    Listing,
    listing_of,
    merged_of,
    others_of,
    returned_of,
    version_of,
)
from elmgrove.federation import (
    Charter,
    Entry,
    Merged,
    Version,
    entry_from_bytes,
    follows,
)


class _Held(NamedTuple):
    entry: Entry
    size: int
    version: Version


class MemoryExchange:
    """Keeps what can be read of entries' bytes, as if they had travelled.

    An entry is read once, when it comes; everybody gets that one, which nobody can change. Not for
    several threads at once.
    """

    #: Groups are made when somebody asks.
    standing = False

    def __init__(self, charter: Charter) -> None:
        self.charter = charter
        self._held: dict[str, _Held] = {}
        # The device that made each change: for that device it is none.
        self._changes: list[str] = []

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

    def merged(
        self, without: str, known: Merged | None, grouped: str | None = None
    ) -> Merged | None:
        """Adds up all entries but one device's; None if ``known`` is still what it would be."""
        changes = [
            number
            for number, origin in enumerate(self._changes, start=1)
            # In groups, one's own change matters: it may lead to another group.
            if grouped is not None or origin != without
        ]
        revision = changes[-1] if changes else 0
        if known is not None and (known.revision, known.grouped) == (revision, grouped):
            return None
        if grouped is not None:
            return returned_of(self.charter, revision, self.fetch(self._held), without, grouped)
        return merged_of(self.charter, revision, self.fetch(set(self._held) - {without}))

    def others(self, without: str, known: Merged | None) -> Merged | None:
        """Tells a device of all others at once; None if ``known`` is still what it would be."""
        revision = len(self._changes)
        if known is not None and known.revision == revision:
            return None
        return others_of(self.charter, revision, self.fetch(self._held), without)

    def groups(self, distance: str) -> dict[str, Any] | None:
        """Gives None: groups are made when a device asks for its sums, and not kept."""
        return None

    def rotate_key(self) -> bool:
        """Says False: nobody needs a key here."""
        return False

    def close(self) -> None:
        """Does nothing: there is no connection."""
