"""An exchange in memory: for devices in one process, and the model for all others."""

import hashlib
from collections.abc import Collection

from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.similarity import Kind, groups
from elmgrove.exchange.interface import Listing
from elmgrove.federation import (
    Charter,
    Contribution,
    Cost,
    Entry,
    Ledger,
    Merged,
    StandingGroups,
    Version,
    entry_from_bytes,
    follows,
    group,
)


class MemoryExchange:
    """Keeps entries as bytes, as if they had travelled. Not for several threads at once."""

    def __init__(self, charter: Charter) -> None:
        self.charter = charter
        self._held: dict[str, bytes] = {}
        # Each change is numbered, and who made it, so that one's own are no news to oneself.
        self._changes: list[str] = []

    def publish(self, entry: Entry) -> None:
        """See ``Exchange``."""
        self.charter.require(entry)
        held = self._held.get(entry.origin)
        blob = entry.to_bytes()
        if follows(None if held is None else version_of(held), version_of(blob)):
            self._held[entry.origin] = blob
            self._changes.append(entry.origin)

    def listings(self) -> list[Listing]:
        """See ``Exchange``."""
        return [
            listing_of(entry_from_bytes(blob), len(blob)) for _, blob in sorted(self._held.items())
        ]

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """See ``Exchange``."""
        return [
            entry_from_bytes(self._held[name]) for name in sorted(origins) if name in self._held
        ]

    def merged(
        self, without: str, known: Merged | None, grouped: str | None = None
    ) -> Merged | None:
        """See ``Exchange``."""
        news = [
            number
            for number, origin in enumerate(self._changes, start=1)
            # In groups, one's own change matters: it may lead to another group.
            if grouped is not None or origin != without
        ]
        revision = news[-1] if news else 0
        if known is not None and (known.revision, known.grouped) == (revision, grouped):
            return None
        if grouped is not None:
            return returned_of(self.charter, revision, self.fetch(self._held), without, grouped)
        return merged_of(self.charter, revision, self.fetch(set(self._held) - {without}))

    def close(self) -> None:
        """See ``Exchange``."""


def version_of(blob: bytes) -> Version:
    """What the rule of succession needs to know of an entry."""
    entry = entry_from_bytes(blob)
    count = entry.evidence.count if isinstance(entry, Contribution) else None
    return Version(entry.epoch, count, hashlib.sha256(blob).hexdigest())


def listing_of(entry: Entry, size: int, seconds: float = 0.0) -> Listing:
    """An entry as a listing shows it."""
    left = not isinstance(entry, Contribution)
    return Listing(entry.origin, entry.epoch, left, Cost(seconds, size))


def merged_of(charter: Charter, revision: int, entries: Collection[Entry]) -> Merged:
    """The sum over entries, in the order of their names."""
    ledger = Ledger(entries)
    total = ledger.total()
    evidence = Evidence.zero(charter.basis) if total is None else total
    return Merged(charter.name, revision, len(ledger), evidence)


def returned_of(
    charter: Charter, revision: int, entries: Collection[Entry], origin: str, distance: str
) -> Merged:
    """What comes back to a device when all entries are grouped afresh."""
    grouping = group(Ledger(entries), charter.ridge, distance)
    standing = StandingGroups(charter.basis, charter.ridge, grouping)
    return standing.merged(charter.name, revision, origin)


def grouped_of(charter: Charter, entries: Collection[Entry], tolerance: float) -> Merged:
    """The sum by kind: what one model explains as well as several is one group."""
    ledger = Ledger(entries)
    kinds = [kind for kind in ledger.kinds if kind.count > 0]
    found = groups([Kind(kind, charter.ridge) for kind in kinds], tolerance)
    sums = tuple(Evidence.sum(kinds[index] for index in one) for one in found)
    evidence = Evidence.sum(sums) if sums else Evidence.zero(charter.basis)
    return Merged(charter.name, 0, len(ledger), evidence, sums)
