"""Views of a federation that follow its contributions, and tell who looks on what changed."""

import asyncio
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from elmgrove.errors import NotFound, Problem, StoreUnavailable
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.server.damage import CorruptEntries, Reader
from elmgrove.server.store.records import Change, FederationRow
from elmgrove.server.store.store import Store

log = logging.getLogger("elmgrove.server")
T = TypeVar("T")

#: Changes that are fetched and taken in at once.
BATCH = 16
#: How often a server looks for what other servers on the same data base stored.
SECONDS_BETWEEN_LOOKS = 0.5


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
        """Takes in what changed since the last time."""
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
        """Uses or changes in a thread what is kept; the caller must hold the lock.

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
        found = await self._store.changes(self._federation, self._revision, BATCH)
        if found is None and await self._store.revision(self._federation) == 0:
            return []
        return found

    @abstractmethod
    async def _apply(self, changes: Sequence[Change]) -> int:
        """Takes these in, all or none, and says which revision that is."""

    @abstractmethod
    async def _rebuild(self) -> int:
        """Reads all contributions, and says of which revision they are."""


class Taking(Protocol):
    """What contributions can be taken into and out of again: ``StandingGroups``, for instance."""

    def take(self, contribution: Contribution) -> object:
        """Puts a contribution in the place of the device's former one."""
        ...

    def leave(self, origin: str) -> None:
        """Takes a device out."""
        ...


def take_in(taking: Taking, reader: Reader, changes: Sequence[Change]) -> None:
    """Takes in what was contributed, and out who left, in the order in which it happened."""
    for change in changes:
        blob, revision = change.blob, change.revision
        made = None if blob is None else reader.contribution(change.origin, revision, blob)
        if made is None:
            taking.leave(change.origin)
        else:
            taking.take(made)


V = TypeVar("V", bound=LiveView)


class LiveSet(Generic[V]):
    """The live views of all federations that were asked about.

    A view that nobody asked about for ``patience`` seconds is dropped; the next question makes a
    new one.
    """

    def __init__(self, store: Store, damage: CorruptEntries, patience: float = math.inf) -> None:
        self._store = store
        self._damage = damage
        self._patience = patience
        self._views: dict[tuple[Any, ...], V] = {}
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Tells that something was stored, so that it is taken in at once."""
        self._changed.set()

    async def run(self) -> None:
        """Keeps all views up to date, until cancelled."""
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
        return Reader(federation, charter, self._damage)

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
#: ...for what this one took, however much that is...
SHORTEST = 0.1
#: ...and between two times that one who looks on is told.
SECONDS_BETWEEN_NEWS = 1.0


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
        """Tells that something was stored, so that it is looked at soon."""
        self._changed.set()

    async def run(self) -> None:
        """Looks at the federations that somebody waits for, until cancelled."""
        while True:
            # Before the look, so that no change in the course of it is missed.
            self._changed.clear()
            await self._look()
            await asyncio.sleep(SHORTEST)
            try:
                longest = SECONDS_BETWEEN_FLEET_LOOKS - SHORTEST if self._waiting else None
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
            return await self._store.latest(federation)
        except NotFound:
            return ""  # who waits for it will be told that there is none
        except StoreUnavailable as error:
            log.warning("a fleet could not be looked at: %s", error)
            return self._markers.get(federation, "")

    async def wait(self, federation: str, seen: str) -> str:
        """Waits until a federation is not what it was when ``seen`` was; says what it is now.

        Any other text, such as none, is answered at once. Otherwise it takes a second at least: who
        asks again and again is told once a second. ``NotFound`` where it does not exist.
        """
        begun = time.monotonic()
        self._waiting[federation] += 1
        try:
            marker = await self._next(federation, seen)
        finally:
            self._waiting[federation] -= 1
            self._waiting += Counter()
        left = begun + SECONDS_BETWEEN_NEWS - time.monotonic()
        if not seen or left <= 0:
            return marker
        await asyncio.sleep(left)
        return await self._store.latest(federation)

    async def _next(self, federation: str, seen: str) -> str:
        while True:
            # Before the marker is read, so that no change after that is missed.
            looked = self._markers.get(federation)
            marker = await self._store.latest(federation)
            if marker != seen:
                return marker
            if looked is None:
                self.wake()
            async with self._moved:
                while self._markers.get(federation) == looked:
                    await self._moved.wait()
