"""How much was published over time, counted once: what is over never changes."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakValueDictionary

from elmgrove.federation import AuditRecord
from elmgrove.server.store import Store

#: What is counted.
PUBLISHED = "published"
#: Seconds after which a time is over: writes take a while, and another server's clock may be late.
_SLACK = 120.0
#: Counts that are remembered.
_MOST = 20_000


class ActCounts:
    """Counts what was published, and remembers how much it was in each time that is over.

    A live page so counts the newest records alone, however many there are. Pruning takes the oldest
    away: a time that began before the oldest record is counted again when that is another one.
    """

    def __init__(self) -> None:
        # By federation, step and place: how many there were, and the number of the oldest record.
        self._known: OrderedDict[tuple[str, int, int], tuple[int, int]] = OrderedDict()
        self._locks = WeakValueDictionary[str, asyncio.Lock]()

    async def of(self, store: Store, federation: str, seconds: int, places: range) -> list[int]:
        """Counts in each of these times: a place is its begin, in steps of so many seconds."""
        # One by one, so that others are answered meanwhile; and once for all who look on.
        async with self._locks.setdefault(federation, asyncio.Lock()):
            oldest = await store.audit(federation, 1, after=0)
            return [
                await self._count(store, (federation, seconds, place), oldest) for place in places
            ]

    async def _count(
        self, store: Store, key: tuple[str, int, int], oldest: Sequence[AuditRecord]
    ) -> int:
        if not oldest:
            return 0
        federation, seconds, place = key
        begin, known = place * seconds, self._known.get(key)
        if known is not None and (known[1] == oldest[0].number or begin >= oldest[0].at):
            return known[0]
        count = await store.act_count(federation, PUBLISHED, begin, begin + seconds)
        if begin + seconds < time.time() - _SLACK:
            self._known[key] = count, oldest[0].number
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return count
