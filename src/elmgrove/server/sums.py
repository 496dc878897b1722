"""The merged sums, kept ready while contributions come and go."""

import asyncio
import copy
import logging
from collections.abc import Sequence

from elmgrove.basis import Basis
from elmgrove.cooperation import Charter, Merged, RunningSum
from elmgrove.cooperation.contribution import evidence_of
from elmgrove.evidence import Evidence
from elmgrove.server.records import Change, Federation
from elmgrove.server.store import Store

log = logging.getLogger("elmgrove.server")

#: Changes that are fetched and added at once.
BATCH = 16
#: Contributions kept ready for the sum and for who sent them.
RECENT = 64
#: How often a server looks for what other servers on the same data base stored.
SECONDS_BETWEEN_LOOKS = 0.5


class FederationSum:
    """One federation's sum, which follows the store revision by revision.

    A change costs an addition and a subtraction, however many devices there are. Only at the
    start, and when this server lagged too far behind, all contributions are read.
    """

    def __init__(self, store: Store, federation: str, basis: Basis) -> None:
        self._store = store
        self._federation = federation
        self._running = RunningSum(basis)
        self._revision = 0
        self._recent: dict[int, Evidence] = {}
        self._lock = asyncio.Lock()

    def remember(self, revision: int, evidence: Evidence) -> None:
        """Keeps what just came as it is: it will be added, and asked for by who sent it."""
        self._recent[revision] = evidence
        while len(self._recent) > RECENT:
            # Other threads look here meanwhile; the oldest is the first.
            self._recent.pop(next(iter(self._recent)), None)

    def evidence(self, revision: int, blob: bytes) -> Evidence:
        """What a stored contribution holds."""
        known = self._recent.get(revision)
        return evidence_of(blob, self._running.basis) if known is None else known

    async def current(self) -> tuple[int, RunningSum]:
        """The sum as of now, and its revision. It does not change any more."""
        async with self._lock:
            while (changes := await self._changes()) != []:
                await (self._rebuild() if changes is None else self._apply(changes))
            if self._running.worn:
                await self._rebuild()
            return self._revision, copy.copy(self._running)

    async def _changes(self) -> list[Change] | None:
        found = await self._store.changes(self._federation, self._revision, BATCH)
        if found is None and await self._store.revision(self._federation) == 0:
            return []
        return found

    async def _apply(self, changes: Sequence[Change]) -> None:
        running = copy.copy(self._running)
        await asyncio.to_thread(self._applied, running, changes)
        self._running, self._revision = running, changes[-1].revision

    def _applied(self, running: RunningSum, changes: Sequence[Change]) -> None:
        for change in changes:
            # First what comes, so that a single device's replacement does not empty the sum.
            if change.blob is not None:
                running.add(self.evidence(change.revision, change.blob))
            if change.replaced is not None:
                running.remove(evidence_of(change.replaced, running.basis))

    async def _rebuild(self) -> None:
        running = RunningSum(self._running.basis)
        async with self._store.snapshot(self._federation) as snapshot:
            async for _, blob in snapshot.blobs:
                await asyncio.to_thread(_add, running, blob)
        self._running, self._revision = running, snapshot.revision
        log.info("%s: summed %d contributions afresh", self._federation, running.devices)


class Sums:
    """The sums of all federations that somebody asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sums: dict[tuple[str, float], FederationSum] = {}
        self._changed = asyncio.Event()

    async def merged(
        self, federation: Federation, charter: Charter, without: str | None, revision: int
    ) -> Merged:
        """The sum without one device. ``revision`` is the number to give it."""
        sum_ = self._of(federation, charter)
        at, running = await sum_.current()
        own = None
        while without is not None:
            entry = await self._store.entry(federation.name, without)
            if entry is None or (entry.left and entry.revision <= at):
                break
            found = await self._store.blob(federation.name, without)
            if found is not None and found[0].revision <= at:
                own = await asyncio.to_thread(sum_.evidence, found[0].revision, found[1])
                break
            # It changed since the sum was taken.
            at, running = await sum_.current()
        evidence = await asyncio.to_thread(running.evidence, own)
        return Merged(charter.name, revision, running.devices - (own is not None), evidence)

    def follow(
        self, federation: Federation, charter: Charter, revision: int, evidence: Evidence | None
    ) -> None:
        """Tells that a federation changed: its sum will be ready when it is asked for."""
        sum_ = self._of(federation, charter)
        if evidence is not None:
            sum_.remember(revision, evidence)
        self._changed.set()

    async def run(self) -> None:
        """Keeps all sums up to date, until cancelled."""
        while True:
            for key, sum_ in list(self._sums.items()):
                try:
                    await sum_.current()
                except KeyError:
                    self._sums.pop(key, None)  # the federation was deleted
                except Exception:
                    # One federation that can't be summed must not stop the others' sums.
                    log.exception("%s: the sum could not follow", key[0])
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                continue

    def _of(self, federation: Federation, charter: Charter) -> FederationSum:
        key = (federation.name, federation.created)
        if key not in self._sums:
            # A federation that was deleted and made anew under the same name.
            for former in [known for known in self._sums if known[0] == federation.name]:
                del self._sums[former]
            self._sums[key] = FederationSum(self._store, federation.name, charter.basis)
        return self._sums[key]


def _add(running: RunningSum, blob: bytes) -> None:
    running.add(evidence_of(blob, running.basis))
