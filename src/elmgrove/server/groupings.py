"""Groups of a federation's patterns, computed once for each state that somebody asks about."""

import asyncio
from typing import Any

from elmgrove.cooperation import Charter, Contribution, group
from elmgrove.server.problems import Problem
from elmgrove.server.records import Federation
from elmgrove.server.store import Store

#: What is compared at most: patterns, and bytes of contributions, all in memory at once.
MOST_PATTERNS = 500
MOST_BYTES = 512 * 2**20
#: Groupings that are kept.
RECENT = 32


class Groupings:
    """The newest groupings, by federation, revision and how they were asked for.

    One is computed at a time, in a thread: it takes seconds, all of one core, and a few times the
    memory of the contributions. Others wait, and find it ready if they ask for the same.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # As they are told: the models themselves would be all contributions, many times.
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._lock = asyncio.Lock()

    async def grouping(
        self, federation: Federation, charter: Charter, distance: str, count: int | None
    ) -> dict[str, Any]:
        """The grouping of a federation as it is now, and its revision, as JSON holds it."""
        async with self._lock:
            revision = await self._store.revision(federation.name)
            asked = (federation.name, federation.created, distance, count)
            if (*asked, revision) not in self._known:
                revision, held = await self._read(federation.name)
                made = await asyncio.to_thread(group, held, charter.ridge, distance, count)
                self._remember((*asked, revision), {"revision": revision, **made.fields})
            return self._known[(*asked, revision)]

    def _remember(self, asked: tuple[Any, ...], fields: dict[str, Any]) -> None:
        self._known[asked] = fields
        while len(self._known) > RECENT:
            self._known.pop(next(iter(self._known)))

    async def _read(self, federation: str) -> tuple[int, list[Contribution]]:
        sizes = [entry.size for entry in await self._store.entries(federation) if not entry.left]
        if sum(sizes) > MOST_BYTES:
            raise _too_many(f"{sum(sizes)} bytes of contributions, more than {MOST_BYTES}")
        held, patterns = list[Contribution](), 0
        async with self._store.snapshot(federation) as snapshot:
            async for _, blob in snapshot.blobs:
                held.append(await asyncio.to_thread(Contribution.from_bytes, blob))
                patterns += len(held[-1].kinds)
                if patterns > MOST_PATTERNS:
                    raise _too_many(f"more than {MOST_PATTERNS} patterns")
        return snapshot.revision, held


def _too_many(what: str) -> Problem:
    return Problem(
        "refused",
        f"{what} are not grouped here; fetch contributions and group some of them "
        "(elmgrove fleet groups FILES)",
    )
