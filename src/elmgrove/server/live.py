"""What is kept ready of a federation, and follows the store revision by revision."""

import asyncio
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from elmgrove.server.problems import Problem
from elmgrove.server.store import Change, FederationRow, Store

log = logging.getLogger("elmgrove.server")

#: Changes that are fetched and taken in at once.
BATCH = 16
#: How often a server looks for what other servers on the same data base stored.
SECONDS_BETWEEN_LOOKS = 0.5


class LiveView(ABC):
    """Something made of all contributions of a federation, which takes in changes one by one.

    Only at the start, and when this server lagged too far behind, all contributions are read.
    """

    def __init__(self, store: Store, federation: str) -> None:
        self._store = store
        self._federation = federation
        self._revision = 0
        self._lock = asyncio.Lock()
        self.asked_at = time.monotonic()

    async def keep_up(self) -> None:
        """Takes in what changed since the last time."""
        async with self._lock:
            await self._follow()

    async def _follow(self) -> None:
        """The same, for who holds the lock."""
        while (changes := await self._changes()) != []:
            if changes is None:
                self._revision = await self._rebuild()
            else:
                self._revision = await self._apply(changes)

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


F = TypeVar("F", bound=LiveView)


class LiveSet(Generic[F]):
    """The followers of all federations that somebody asked for."""

    def __init__(self, patience: float = math.inf) -> None:
        """What nobody asked for in ``patience`` seconds is made anew when somebody does."""
        self._patience = patience
        self._kept: dict[tuple[Any, ...], F] = {}
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Tells that something was stored: it need not be waited for."""
        self._changed.set()

    async def run(self) -> None:
        """Keeps all up to date, until cancelled."""
        while True:
            for key, follower in list(self._kept.items()):
                try:
                    await follower.keep_up()
                except (KeyError, Problem):
                    # The federation was deleted, or has become too large for this.
                    self._kept.pop(key, None)
                except Exception:
                    # One federation that can't be followed must not stop the others.
                    log.exception("%s could not be followed", key[0])
                if time.monotonic() - follower.asked_at > self._patience:
                    self._kept.pop(key, None)
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                continue

    def _of(self, federation: FederationRow, make: Callable[[], F], *how: str) -> F:
        key = (federation.name, federation.created, *how)
        if key not in self._kept:
            # A federation that was deleted and made anew under the same name.
            for former in [known for known in self._kept if known[0] == key[0]]:
                if former[1] != federation.created:
                    del self._kept[former]
            self._kept[key] = make()
        self._kept[key].asked_at = time.monotonic()
        return self._kept[key]
