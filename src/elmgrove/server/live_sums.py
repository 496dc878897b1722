"""What is kept up with the contributions of a federation: sums, groups, and live pages."""

import asyncio
import copy
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from elmgrove.algebra.evidence import Evidence
from elmgrove.errors import BadFile, ElmgroveError, NotFound, Problem, StoreUnavailable
from elmgrove.federation.aggregation import StandingOthers
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, evidence_of
from elmgrove.federation.merged import MOST_NAMES, Merged
from elmgrove.federation.selection import Rule
from elmgrove.federation.sums import BoundedSum
from elmgrove.server.store.contributions import Change, StoredEntry
from elmgrove.server.store.federations import FederationRow
from elmgrove.server.store.store import Store

log = logging.getLogger("elmgrove.server")
T = TypeVar("T")


class CorruptEntries:
    """The entries whose bytes turned out to be corrupt, of all federations.

    They were checked before they were stored, so it is the disk, or somebody at the data base. The
    device's next sync replaces them; until then they harm nobody else.
    """

    def __init__(self) -> None:
        self._known = set[tuple[str, float, int]]()

    def has(self, federation: FederationRow, revision: int) -> bool:
        return (federation.name, federation.created, revision) in self._known

    def add(self, federation: FederationRow, origin: str, revision: int, reason: object) -> None:
        if not self.has(federation, revision):
            self._known.add((federation.name, federation.created, revision))
            log.error(
                "%s: the contribution of %r is corrupt and left out until its next sync (%s)",
                federation.name,
                origin,
                reason,
            )


@dataclass(frozen=True)
class Reader:
    """Reads the contributions of one federation; None for what is corrupt."""

    federation: FederationRow
    charter: Charter
    corrupt: CorruptEntries

    def contribution(self, origin: str, revision: int, blob: bytes) -> Contribution | None:

        def whole() -> Contribution:
            basis = self.charter.basis
            found = Contribution.from_bytes(blob, basis)
            basis.require(found.basis)
            if found.origin != origin:
                raise BadFile(f"it is of {found.origin!r}")
            return found

        return self._unless_corrupt(origin, revision, whole)

    def evidence(self, origin: str, revision: int, blob: bytes) -> Evidence | None:
        basis = self.charter.basis
        return self._unless_corrupt(origin, revision, lambda: evidence_of(blob, basis))

    def _unless_corrupt(self, origin: str, revision: int, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except ElmgroveError as error:
            self.corrupt.add(self.federation, origin, revision, error)
            return None


class LiveView(ABC):
    """Something made of all contributions of a federation, which takes in changes one by one.

    Only at the start, and when this server lagged too far behind, all contributions are read.
    """

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self._charter = reader.charter
        self._federation = reader.charter.name
        self._revision = 0
        self._lock = asyncio.Lock()
        self.asked_at = time.monotonic()

    async def keep_up(self) -> None:
        async with self._lock:
            await self._catch_up()

    async def _catch_up(self) -> None:
        """The caller must hold the lock."""
        while (changes := await self._changes()) != []:
            if changes is None:
                self._revision = await self._rebuild()
            else:
                self._revision = await self._apply(changes)

    async def _alone(self, use: Callable[[], T]) -> T:
        """Use or changes in a thread what is kept; the caller must hold the lock.

        One that is cancelled holds it until the thread has ended: nobody else may change what that
        one still reads, and it may remember what was true before.
        """
        running = asyncio.ensure_future(asyncio.to_thread(use))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.gather(running, return_exceptions=True)
            raise

    async def _changes(self) -> list[Change] | None:
        found = await self._store.contributions.changes(self._federation, self._revision, 16)
        if found is None and await self._store.contributions.revision(self._federation) == 0:
            return []
        return found

    @abstractmethod
    async def _apply(self, changes: Sequence[Change]) -> int:
        """Apply these changes, all or none, and return the revision."""

    @abstractmethod
    async def _rebuild(self) -> int:
        """Read all contributions, and return their revision."""


V = TypeVar("V", bound=LiveView)


class LiveSet(Generic[V]):
    """The live views of all federations that were asked about.

    A view that nobody asked about for ``patience`` seconds is dropped; the next question makes a
    new one.
    """

    #: Seconds between two looks for what other servers on the same data base stored.
    BETWEEN_LOOKS = 0.5

    def __init__(self, store: Store, corrupt: CorruptEntries, patience: float = math.inf) -> None:
        self._store = store
        self._corrupt = corrupt
        self._patience = patience
        self._views: dict[tuple[Any, ...], V] = {}
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Tell that something was stored, so that it is taken in at once."""
        self._changed.set()

    async def run(self) -> None:
        while True:
            # Before the look, so that no change in the course of it is missed.
            self._changed.clear()
            for key, view in list(self._views.items()):
                try:
                    await view.keep_up()
                except (NotFound, Problem):
                    # The federation was deleted, or has become too large for this.
                    self._views.pop(key, None)
                except Exception:  # one that fails must not stop the others
                    log.exception("%s: changes could not be taken in", key[0])
                if time.monotonic() - view.asked_at > self._patience:
                    self._views.pop(key, None)
            try:
                await asyncio.wait_for(self._changed.wait(), self.BETWEEN_LOOKS)
            except TimeoutError:
                continue

    def _reader(self, federation: FederationRow, charter: Charter) -> Reader:
        return Reader(federation, charter, self._corrupt)

    def _view(self, federation: FederationRow, make: Callable[[], V], *how: str) -> V:
        key = (federation.name, federation.created, *how)
        if key not in self._views:
            # An earlier federation of the same name was deleted.
            for former in [known for known in self._views if known[0] == key[0]]:
                if former[1] != federation.created:
                    del self._views[former]
            self._views[key] = make()
        self._views[key].asked_at = time.monotonic()
        return self._views[key]


class LiveFleet:
    """Lets any number wait for the next change of a federation, with one look for all of them.

    While nobody waits, the data base is not asked.
    """

    #: Seconds between two looks for what other servers on the same data base took...
    BETWEEN_LOOKS = 1.0
    #: ...and between two changes of a page.
    BETWEEN_CHANGES = 1.0

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting = Counter[str]()
        # What each of their federations was at the last look.
        self._markers = dict[str, str]()
        self._changed = asyncio.Event()
        self._moved = asyncio.Condition()

    def wake(self) -> None:
        """Tell that something was stored, so that it is looked at soon."""
        self._changed.set()

    async def run(self) -> None:
        """Look at the federations that somebody waits for, until cancelled."""
        while True:
            # Before the look, so that no change in the course of it is missed.
            self._changed.clear()
            await self._look()
            # For what this one took, however much that is.
            await asyncio.sleep(0.1)
            try:
                longest = self.BETWEEN_LOOKS - 0.1 if self._waiting else None
                await asyncio.wait_for(self._changed.wait(), longest)
            except TimeoutError:
                continue

    async def _look(self) -> None:
        markers = {name: await self._marker(name) for name in list(self._waiting)}
        if markers != self._markers:
            self._markers = markers
            async with self._moved:
                self._moved.notify_all()

    async def _marker(self, federation: str) -> str:
        try:
            return await self._store.fleet.marker(federation)
        except NotFound:
            return ""  # who waits for it finds out by itself
        except StoreUnavailable as error:
            log.warning("a fleet could not be looked at: %s", error)
            return self._markers.get(federation, "")

    async def wait(self, federation: str, seen: str) -> str:
        """Wait until a federation's marker is not ``seen`` any more; return the new one.

        A marker that is not the newest is answered at once. Otherwise it takes a second at least:
        who asks again and again gets an answer a second. ``NotFound`` where it does not exist.
        """
        begun = time.monotonic()
        self._waiting[federation] += 1
        try:
            marker = await self._next(federation, seen)
        finally:
            self._waiting[federation] -= 1
            self._waiting += Counter()
        left = begun + self.BETWEEN_CHANGES - time.monotonic()
        if not seen or left <= 0:
            return marker
        await asyncio.sleep(left)
        return await self._store.fleet.marker(federation)

    async def _next(self, federation: str, seen: str) -> str:
        while True:
            # Before the marker is read, so that no change after that is missed.
            looked = self._markers.get(federation)
            marker = await self._store.fleet.marker(federation)
            if marker != seen:
                return marker
            if looked is None:
                self.wake()
            async with self._moved:
                while self._markers.get(federation) == looked:
                    await self._moved.wait()


class LiveSum(LiveView):
    """The sum over one federation.

    A change costs an addition and a subtraction, however many devices there are.
    """

    def __init__(self, store: Store, reader: Reader) -> None:
        super().__init__(store, reader)
        self._running = BoundedSum(self._charter.basis, self._charter.terms)
        self._recent: dict[int, Evidence] = {}
        # Devices that the log has named already.
        self._named = set[str]()

    def remember(self, revision: int, evidence: Evidence) -> None:
        """Keep what was just put in memory: it will be added, and its device asks without it."""
        self._recent[revision] = evidence
        while len(self._recent) > 64:
            # Other threads look here meanwhile; the oldest is the first.
            self._recent.pop(next(iter(self._recent)), None)

    def known(self, revision: int) -> Evidence | None:
        return self._recent.get(revision)

    def evidence(self, origin: str, revision: int, blob: bytes) -> Evidence | None:
        known = self.known(revision)
        return self._reader.evidence(origin, revision, blob) if known is None else known

    async def current(self) -> tuple[int, BoundedSum]:
        async with self._lock:
            await self._catch_up()
            return self._revision, self._running

    async def _apply(self, changes: Sequence[Change]) -> int:
        # A copy: what was given away stays as it is.
        running = copy.copy(self._running)
        try:
            await asyncio.to_thread(self._apply_each, running, changes)
        except BadFile:  # what is in the sum was corrupted since, and can't be taken out of it
            return await self._rebuild()
        self._running = running
        self._name()
        return changes[-1].revision

    def _apply_each(self, running: BoundedSum, changes: Sequence[Change]) -> None:
        for change in changes:
            before, now = None, None
            if change.blob is not None:
                now = self.evidence(change.origin, change.revision, change.blob)
            # What was corrupted when it came is not in the sum, and not to be taken out of it.
            if change.origin in running:
                before = evidence_of(change.replaced or b"", self._charter.basis)
            running.change(change.origin, before, now)

    async def rebuild(self) -> None:
        async with self._lock:
            self._revision = await self._rebuild()

    async def _rebuild(self) -> int:
        running = BoundedSum(self._charter.basis, self._charter.terms)
        async with self._store.contributions.snapshot(self._federation) as snapshot:
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
        """Tell of each device, once, that it counts with less than it states."""
        for origin, (weight, why) in self._running.less.items():
            if origin not in self._named:
                self._named.add(origin)
                log.warning(
                    "%s: %r counts as %.3g of what it states: %s",
                    self._federation,
                    origin,
                    weight,
                    why,
                )


class LiveSums(LiveSet[LiveSum]):
    async def merged(
        self, federation: FederationRow, charter: Charter, without: str | None, revision: int
    ) -> Merged:
        """Return the sum without one device, under the number ``revision``."""
        live = self._live_sum(federation, charter)
        at, running = await live.current()
        own = list[Evidence]()
        while without is not None and without in running:
            entry, blob = await self._store.contributions.entry(federation.name, without), b""
            part = None if entry is None else live.known(entry.revision)
            if part is None:
                found = await self._store.contributions.blob(federation.name, without)
                entry, blob = found or (entry, b"")
            if entry is not None and not entry.left and entry.revision <= at:
                if part is None:
                    part = await asyncio.to_thread(live.evidence, without, entry.revision, blob)
                if part is not None:
                    own = [part]
                    break
                # It was corrupted since it was added, and can't be taken out.
                await live.rebuild()
            # Or it changed since the sum was taken.
            at, running = await live.current()
        evidence = await asyncio.to_thread(running.evidence, *own)
        names = [name for name in running.names if name != without or not own]
        used = tuple(names[:MOST_NAMES])
        return Merged(charter.name, revision, len(names), (evidence,), used=used)

    async def less(
        self, federation: FederationRow, charter: Charter
    ) -> dict[str, tuple[float, str]]:
        """Return the weight of each device that counts with less than it states, and why."""
        _, running = await self._live_sum(federation, charter).current()
        return running.less

    def note_change(
        self, federation: FederationRow, charter: Charter, revision: int, evidence: Evidence | None
    ) -> None:
        """Tell that a federation changed, so that its sum is ready when it is asked for."""
        live = self._live_sum(federation, charter)
        if evidence is not None:
            live.remember(revision, evidence)
        self.wake()

    def _live_sum(self, federation: FederationRow, charter: Charter) -> LiveSum:
        reader = self._reader(federation, charter)
        return self._view(federation, lambda: LiveSum(self._store, reader))


class LiveOther(LiveView):
    """The groups and loans of one federation; a change costs a comparison with each group."""

    def __init__(self, store: Store, reader: Reader) -> None:
        super().__init__(store, reader)
        self._others = StandingOthers(self._charter)
        self._compare_from = 0.0
        self._grouping: asyncio.Future[dict[int, list[str]]] | None = None

    async def others(self, revision: int, origin: str, rule: Rule, least: int = 1) -> Merged:
        """Return what a device gets of those that it learns from, under this revision."""
        return await self._asked(StandingOthers.others, revision, origin, rule, least)

    async def merged(
        self, revision: int, origin: str, rule: Rule, least: int = 1, *, patterns: bool = False
    ) -> Merged:
        """Return the sums over those that a device learns from, under this revision."""

        def merged(others: StandingOthers) -> Merged:
            return others.pool.merged(revision, origin, rule, least, patterns=patterns)

        return await self._asked(merged)

    async def _asked(self, question: Callable[..., Merged], *how: Any) -> Merged:
        async with self._lock:
            await self._catch_up()
            began = time.monotonic()
            # To compare all devices may take a tenth of the time.
            self._others.pool.patient = began < self._compare_from
            found = await self._alone(partial(question, self._others, *how))
            took = time.monotonic() - began
            if took > 1.0:
                self._compare_from = began + 10.0 * took
            return found

    async def grouped(self, within: float) -> dict[int, list[str]] | None:
        """Return the devices that are in each group now; None if that takes longer than ``within``.

        It goes on in any case, for who asks again: to begin with thousands of devices takes a
        minute.
        """
        if self._grouping is None or self._grouping.done():
            self._grouping = asyncio.ensure_future(self._grouped())
            # What went wrong is raised where somebody waits; maybe nobody does any more.
            self._grouping.add_done_callback(lambda one: one.cancelled() or one.exception())
        done, _ = await asyncio.wait((self._grouping,), timeout=within)
        return self._grouping.result() if done else None

    async def _grouped(self) -> dict[int, list[str]]:
        async with self._lock:
            await self._catch_up()
            return await self._alone(lambda: self._others.grouped)

    def groups_of(self, origin: str) -> list[int]:
        return self._others.groups_of(origin)

    @property
    def unlike(self) -> dict[str, str]:
        """The devices that are unlike all others, as they stand, and by which sensors."""
        return self._others.unlike

    async def _apply(self, changes: Sequence[Change]) -> int:
        # If this fails half-way, the next time begins with all contributions: revision 0 says so.
        self._revision = 0
        await self._alone(partial(self._take, changes))
        _require_room(self._others.nbytes)
        return changes[-1].revision

    def _take(self, changes: Sequence[Change]) -> None:
        for change in changes:
            blob, revision = change.blob, change.revision
            made = None
            if blob is not None:
                made = self._reader.contribution(change.origin, revision, blob)
            if made is None:
                self._others.leave(change.origin)
            else:
                self._others.take(made)

    async def _rebuild(self) -> int:
        # Before anything is read: who asks again and again must not have it read each time.
        entries = await self._store.contributions.entries(self._federation)
        _require_room(sum(entry.size for entry in entries if not entry.left))
        others = StandingOthers(self._charter)
        async with self._store.contributions.snapshot(self._federation) as snapshot:
            async for entry, blob in snapshot.blobs:
                read = self._reader.contribution
                made = await asyncio.to_thread(read, entry.origin, entry.revision, blob)
                if made is not None:
                    await asyncio.to_thread(others.take, made)
                _require_room(others.nbytes)
        self._others = others
        log.info("%s: grouped what all %d devices know", self._federation, len(others))
        return snapshot.revision


class LiveOthers(LiveSet[LiveOther]):
    def __init__(self, store: Store, corrupt: CorruptEntries) -> None:
        super().__init__(store, corrupt, patience=3600.0)

    def of(self, federation: FederationRow, charter: Charter) -> LiveOther:
        reader = self._reader(federation, charter)
        return self._view(federation, lambda: LiveOther(self._store, reader))

    def groups_of(self, federation: FederationRow, names: Sequence[str]) -> dict[str, list[int]]:
        """List the groups of some devices, where they are kept: nothing is made for it."""
        view = self._views.get((federation.name, federation.created))
        return {} if view is None else {name: view.groups_of(name) for name in names}

    def unlike(self, federation: FederationRow) -> dict[str, str]:
        """Say which devices are unlike all others, and why, where their sums are kept."""
        view = self._views.get((federation.name, federation.created))
        return {} if view is None else view.unlike


def _require_room(size: int, most: int = 1024 * 2**20) -> None:
    """Refuse to keep more than ``most`` bytes of one federation, all in memory."""
    if size > most:
        raise Problem(
            "refused",
            f"this federation is too large to be grouped here (more than {most} bytes): "
            "learn from everyone, with merged = true",
        )
