"""Live sums: the merged sums, kept ready while contributions come and go."""

import asyncio
import copy
import logging
from collections.abc import Sequence

from elmgrove.algebra import Evidence
from elmgrove.errors import BadFile
from elmgrove.federation import BoundedSum, Charter, Influence, Merged, evidence_of
from elmgrove.server.damage import Reader
from elmgrove.server.live import LiveSet, LiveView
from elmgrove.server.store import Change, FederationRow, Store, StoredEntry

log = logging.getLogger("elmgrove.server")

#: Contributions kept in memory for the sum and for the devices that sent them.
RECENT = 64


class LiveSum(LiveView):
    """The sum over one federation.

    A change costs an addition and a subtraction, however many devices there are.
    """

    def __init__(self, store: Store, reader: Reader) -> None:
        super().__init__(store, reader)
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

    def evidence(self, origin: str, revision: int, blob: bytes) -> Evidence | None:
        """Gives the evidence in a stored contribution; None if it is damaged."""
        known = self._recent.get(revision)
        return self._reader.evidence(origin, revision, blob) if known is None else known

    async def current(self) -> tuple[int, BoundedSum]:
        """Gives the revision as of now, and its sum, which does not change any more."""
        async with self._lock:
            await self._catch_up()
            return self._revision, self._running

    async def _apply(self, changes: Sequence[Change]) -> int:
        # A copy: what was given away stays as it is.
        running = copy.copy(self._running)
        try:
            await asyncio.to_thread(self._apply_each, running, changes)
        except BadFile:  # what is in the sum was damaged since, and can't be taken out of it
            return await self._rebuild()
        self._running = running
        self._name()
        return changes[-1].revision

    def _apply_each(self, running: BoundedSum, changes: Sequence[Change]) -> None:
        for change in changes:
            before, now = None, None
            if change.blob is not None:
                now = self.evidence(change.origin, change.revision, change.blob)
            # What was damaged when it came is not in the sum, and not to be taken out of it.
            if change.origin in running:
                before = evidence_of(change.replaced or b"", self._charter.basis)
            running.change(change.origin, before, now)

    async def rebuild(self) -> None:
        """Adds up all contributions again."""
        async with self._lock:
            self._revision = await self._rebuild()

    async def _rebuild(self) -> int:
        running = self._begun()
        async with self._store.snapshot(self._federation) as snapshot:
            async for entry, blob in snapshot.blobs:
                await asyncio.to_thread(self._add, running, entry, blob)
        self._running = running
        log.info("%s: added up all %d contributions", self._federation, running.devices)
        self._name()
        return snapshot.revision

    def _add(self, running: BoundedSum, entry: StoredEntry, blob: bytes) -> None:
        evidence = self._reader.evidence(entry.origin, entry.revision, blob)
        running.change(entry.origin, None, evidence)

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

    async def merged(
        self, federation: FederationRow, charter: Charter, without: str | None, revision: int
    ) -> Merged:
        """Gives the sum without one device, under the number ``revision``."""
        live = self._live_sum(federation, charter)
        at, running = await live.current()
        own = None
        while without is not None and without in running:
            found = await self._store.blob(federation.name, without)
            entry = await self._store.entry(federation.name, without) if found is None else found[0]
            if entry is not None and not entry.left and entry.revision <= at:
                blob = b"" if found is None else found[1]
                part = await asyncio.to_thread(live.evidence, without, entry.revision, blob)
                if part is not None:
                    own = without, part
                    break
                # It was damaged since it was added, and can't be taken out.
                await live.rebuild()
            # Or it changed since the sum was taken.
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
        reader = self._reader(federation, charter)
        return self._view(federation, lambda: LiveSum(self._store, reader))
