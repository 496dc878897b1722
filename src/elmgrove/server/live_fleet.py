"""A live fleet: tells those who look on that something about a federation's devices changed."""

import asyncio
import logging
import time
from collections import Counter

from elmgrove.server.store import NoSuchFederation, Store, StoreUnavailable

log = logging.getLogger("elmgrove.server")

#: Seconds between two looks for what other servers on the same data base took...
SECONDS_BETWEEN_LOOKS = 1.0
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
                longest = SECONDS_BETWEEN_LOOKS - SHORTEST if self._waiting else None
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
        except NoSuchFederation:
            return ""  # who waits for it will be told that there is none
        except StoreUnavailable as error:
            log.warning("a fleet could not be looked at: %s", error)
            return self._markers.get(federation, "")

    async def wait(self, federation: str, seen: str) -> str:
        """Waits until a federation is not what it was when ``seen`` was; says what it is now.

        Any other text, such as none, is answered at once. Otherwise it takes a second at least: who
        asks again and again is told once a second. ``NoSuchFederation`` where it does not exist.
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
