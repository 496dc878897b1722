"""Live sums: the merged sums, kept ready while contributions come and go."""

import asyncio
import copy
import logging
from collections.abc import Sequence

from elmgrove.algebra import Evidence
from elmgrove.federation import BoundedSum, Charter, Influence, Merged, evidence_of
from elmgrove.server.live import LiveSet, LiveView
from elmgrove.server.store import Change, FederationRow, Store

log = logging.getLogger("elmgrove.server")

#: Contributions kept in memory for the sum and for the devices that sent them.
RECENT = 64


class LiveSum(LiveView):
    """The sum over one federation.

    A change costs an addition and a subtraction, however many devices there are.
    """

    def __init__(self, store: Store, charter: Charter) -> None:
        super().__init__(store, charter.name)
        self._charter = charter
        self._running = self._begun()
        self._recent: dict[int, Evidence] = {}
        # Devices that the log has named already.
        self._named = set[str]()

    def _begun(self) -> BoundedSum:
        return BoundedSum(self._charter.basis, self._charter.terms)

    def remember(self, revision: int, evidence: Evidence) -> None:
        """Keeps what was just put in memory: it will be added, and its device asks without it."""
        self._recent[revision] = evidence
        while len(self._recent) > RECENT:
            # Other threads look here meanwhile; the oldest is the first.
            self._recent.pop(next(iter(self._recent)), None)

    def evidence(self, revision: int, blob: bytes) -> Evidence:
        """Gives the evidence in a stored contribution."""
        known = self._recent.get(revision)
        return evidence_of(blob, self._running.basis) if known is None else known

    async def current(self) -> tuple[int, BoundedSum]:
        """Gives the revision as of now, and its sum, which does not change any more."""
        async with self._lock:
            await self._catch_up()
            return self._revision, self._running

    async def _apply(self, changes: Sequence[Change]) -> int:
        # A copy: what was given away stays as it is.
        running = copy.copy(self._running)
        await asyncio.to_thread(self._apply_each, running, changes)
        self._running = running
        self._name()
        return changes[-1].revision

    def _apply_each(self, running: BoundedSum, changes: Sequence[Change]) -> None:
        for change in changes:
            before, now = change.replaced, change.blob
            running.change(
                change.origin,
                None if before is None else evidence_of(before, running.basis),
                None if now is None else self.evidence(change.revision, now),
            )

    async def _rebuild(self) -> int:
        running = self._begun()
        async with self._store.snapshot(self._federation) as snapshot:
            async for origin, blob in snapshot.blobs:
                await asyncio.to_thread(_add, running, origin, blob)
        self._running = running
        log.info("%s: added up all %d contributions", self._federation, running.devices)
        self._name()
        return snapshot.revision

    def _name(self) -> None:
        """Tells of each device, once, that it counts with less than it states."""
        influence = self._running.influence
        for origin in influence.bounded.keys() - self._named:
            self._named.add(origin)
            log.warning(
                "%s: %r counts as %.6g of %.6g rows: %s",
                self._federation,
                origin,
                influence.rows(origin),
                influence.claims[origin].rows,
                influence.why(origin),
            )


class LiveSums(LiveSet[LiveSum]):
    """The live sums of all federations that were asked about."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    async def merged(
        self, federation: FederationRow, charter: Charter, without: str | None, revision: int
    ) -> Merged:
        """Gives the sum without one device, under the number ``revision``."""
        live = self._live_sum(federation, charter)
        at, running = await live.current()
        own = None
        while without is not None:
            entry = await self._store.entry(federation.name, without)
            if entry is None or (entry.left and entry.revision <= at):
                break
            found = await self._store.blob(federation.name, without)
            if found is not None and found[0].revision <= at:
                own = without, await asyncio.to_thread(live.evidence, found[0].revision, found[1])
                break
            # It changed since the sum was taken.
            at, running = await live.current()
        evidence = await asyncio.to_thread(running.evidence, own)
        return Merged(charter.name, revision, running.devices - (own is not None), (evidence,))

    async def influence(self, federation: FederationRow, charter: Charter) -> Influence:
        """Gives how much each device counts in the sum over all."""
        _, running = await self._live_sum(federation, charter).current()
        return running.influence

    def take_in(
        self, federation: FederationRow, charter: Charter, revision: int, evidence: Evidence | None
    ) -> None:
        """Tells that a federation changed, so that its sum is ready when it is asked for."""
        live = self._live_sum(federation, charter)
        if evidence is not None:
            live.remember(revision, evidence)
        self.wake()

    def _live_sum(self, federation: FederationRow, charter: Charter) -> LiveSum:
        return self._view(federation, lambda: LiveSum(self._store, charter))


def _add(running: BoundedSum, origin: str, blob: bytes) -> None:
    running.change(origin, None, evidence_of(blob, running.basis))
