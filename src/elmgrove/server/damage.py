"""Damage: stored contributions that can't be read harm their device alone, and are logged once."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from elmgrove.algebra.evidence import Evidence
from elmgrove.errors import BadFile, ElmgroveError
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, evidence_of
from elmgrove.server.store.records import FederationRow

log = logging.getLogger("elmgrove.server")
T = TypeVar("T")


class CorruptEntries:
    """The entries whose bytes were found to be damaged, of all federations.

    They were checked before they were stored, so it is the disk, or somebody at the data base. The
    device's next sync replaces them.
    """

    def __init__(self) -> None:
        self._known = set[tuple[str, float, int]]()

    def found(self, federation: FederationRow, revision: int) -> bool:
        """Says whether an entry is known to be damaged."""
        return (federation.name, federation.created, revision) in self._known

    def tell(self, federation: FederationRow, origin: str, revision: int, reason: object) -> None:
        """Takes note of a damaged entry, and logs it the first time."""
        if not self.found(federation, revision):
            self._known.add((federation.name, federation.created, revision))
            log.error(
                "%s: what is stored of %r is damaged and left out until its next sync (%s)",
                federation.name,
                origin,
                reason,
            )


@dataclass(frozen=True)
class Reader:
    """Reads what devices of one federation contributed; None for what is damaged."""

    federation: FederationRow
    charter: Charter
    damage: CorruptEntries

    def contribution(self, origin: str, revision: int, blob: bytes) -> Contribution | None:
        """Reads all of a contribution."""

        def whole() -> Contribution:
            found = Contribution.from_bytes(blob)
            self.charter.basis.require(found.basis)
            if found.origin != origin:
                raise BadFile(f"it is of {found.origin!r}")
            return found

        return self._unless_damaged(origin, revision, whole)

    def evidence(self, origin: str, revision: int, blob: bytes) -> Evidence | None:
        """Reads the sum of a contribution's parts."""
        basis = self.charter.basis
        return self._unless_damaged(origin, revision, lambda: evidence_of(blob, basis))

    def _unless_damaged(self, origin: str, revision: int, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except ElmgroveError as error:
            self.damage.tell(self.federation, origin, revision, error)
            return None
