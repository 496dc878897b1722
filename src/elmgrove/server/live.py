"""Views of a federation that follow its contributions, and live pages that wait for changes."""

import asyncio
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from elmgrove.algebra.evidence import Evidence
from elmgrove.errors import BadFile, ElmgroveError, NotFound, Problem, StoreUnavailable
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, evidence_of
from elmgrove.server.store.contributions import Change
from elmgrove.server.store.federations import FederationRow
from elmgrove.server.store.store import Store

log = logging.getLogger("elmgrove.server")
T = TypeVar("T")

#: How often a server looks for what other servers on the same data base stored.
SECONDS_BETWEEN_LOOKS = 0.5


class CorruptEntries:
    """The entries whose bytes turned out to be corrupt, of all federations.

    They were checked before they were stored, so it is the disk, or somebody at the data base. The
    device's next sync replaces them; until then they harm nobody else.
    """

    def __init__(self) -> None:
        self._known = set[tuple[str, float, int]]()

    def has(self, federation: FederationRow, revision: int) -> bool:
        """Say whether an entry is known to be corrupt."""
        return (federation.name, federation.created, revision) in self._known

    def add(self, federation: FederationRow, origin: str, revision: int, reason: object) -> None:
        """Note a corrupt entry, and log it the first time."""
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
        """Read all of a contribution."""

        def whole() -> Contribution:
            basis = self.charter.basis
            found = Contribution.from_bytes(blob, basis)
            basis.require(found.basis)
            if found.origin != origin:
                raise BadFile(f"it is of {found.origin!r}")
            return found

        return self._unless_corrupt(origin, revision, whole)

    def evidence(self, origin: str, revision: int, blob: bytes) -> Evidence | None:
        """Read the sum of a contribution's parts."""
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
        """Take in what changed since the last time."""
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
        """Keep all views up to date, until cancelled."""
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
                await asyncio.wait_for(self._changed.wait(), SECONDS_BETWEEN_LOOKS)
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


#: Seconds between two looks for what other servers on the same data base took...
SECONDS_BETWEEN_FLEET_LOOKS = 1.0
#: ...and between two changes of a page.
SECONDS_BETWEEN_CHANGES = 1.0


class LiveFleet:
    """Lets any number wait for the next change of a federation, with one look for all of them.

    While nobody waits, the data base is not asked.
    """

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
                longest = SECONDS_BETWEEN_FLEET_LOOKS - 0.1 if self._waiting else None
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
        left = begun + SECONDS_BETWEEN_CHANGES - time.monotonic()
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
