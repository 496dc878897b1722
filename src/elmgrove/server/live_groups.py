"""Groups of a federation's patterns: standing ones, and afresh for who asks for that."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from elmgrove.federation import Charter, Contribution, Grouping, Merged, StandingGroups, group
from elmgrove.server.live import LiveSet, LiveView
from elmgrove.server.problems import Problem
from elmgrove.server.store import Change, FederationRow, Store

log = logging.getLogger("elmgrove.server")
T = TypeVar("T")

#: What is grouped at most: patterns, and bytes, all in memory at once.
MOST_PATTERNS = 500
MOST_BYTES = 512 * 2**20
#: By parameters, fewer patterns than this are grouped afresh each time: the number of groups stays
#: what it was at the start, and of a few devices it can't be told.
FEW = 32
#: Standing groups that nobody asked about for so many seconds are let go of.
PATIENCE = 3600.0
#: LiveGroups made afresh that are kept.
RECENT = 32


class LiveGrouping(LiveView):
    """One federation's standing groups by one distance.

    Begins with a grouping of all that is there when somebody first asks. A change then costs a
    comparison with each group, not with each pattern.
    """

    def __init__(self, store: Store, charter: Charter, distance: str) -> None:
        super().__init__(store, charter.name)
        self._charter = charter
        self._distance = distance
        self._since = 0
        self._grouping = Grouping(distance, (), ())
        self._standing = self._begun(self._grouping)

    def _begun(self, grouping: Grouping) -> StandingGroups:
        return StandingGroups(self._charter.basis, self._charter.ridge, grouping)

    async def merged(self, origin: str, revision: int) -> Merged:
        """What comes back to a device. ``revision`` is the number to give it."""
        return await self._asked(lambda: self._standing.merged(self._federation, revision, origin))

    async def fields(self) -> dict[str, Any]:
        """Who is where, as JSON holds it; ``since`` is when all was last grouped afresh."""
        return await self._asked(
            lambda: {"revision": self._revision, "since": self._since, **self._grouping.fields}
        )

    async def _asked(self, question: Callable[[], T]) -> T:
        async with self._lock:
            await self._follow()
            return await asyncio.to_thread(question)

    async def _apply(self, changes: Sequence[Change]) -> int:
        if self._distance == "parameters" and len(self._grouping.models) < FEW:
            return await self._rebuild()
        # What fails half-way is not to be gone on with: from 0, all begins anew.
        self._revision = 0
        await asyncio.to_thread(_follow, self._standing, changes)
        self._grouping = self._standing.grouping
        _require_few(len(self._grouping.models), self._standing.nbytes)
        return changes[-1].revision

    async def _rebuild(self) -> int:
        revision, made = await grouped(self._store, self._charter, self._distance, None)
        standing = await asyncio.to_thread(self._begun, made)
        _require_few(len(made.models), standing.nbytes)
        self._standing, self._grouping, self._since = standing, made, revision
        log.info("%s: %d patterns grouped afresh", self._federation, len(made.models))
        return revision


class LiveGroups(LiveSet[LiveGrouping]):
    """The standing groups of all federations that somebody asked for, and the newest afresh.

    One is made afresh at a time, in a thread: it takes seconds, all of one core, and a few times
    the memory of the contributions. Others wait, and find it ready if they ask for the same.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(PATIENCE)
        self._store = store
        # As they are told: the models themselves would be all contributions, many times.
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._lock = asyncio.Lock()

    def standing(self, federation: FederationRow, charter: Charter, distance: str) -> LiveGrouping:
        """The groups that are kept."""
        return self._of(federation, lambda: LiveGrouping(self._store, charter, distance), distance)

    async def anew(
        self, federation: FederationRow, charter: Charter, distance: str, count: int | None
    ) -> dict[str, Any]:
        """The grouping of a federation as it is now, and its revision, as JSON holds it."""
        async with self._lock:
            revision = await self._store.revision(federation.name)
            asked = (federation.name, federation.created, distance, count)
            if (*asked, revision) not in self._known:
                revision, made = await grouped(self._store, charter, distance, count)
                said = {"revision": revision, "since": revision, **made.fields}
                self._remember((*asked, revision), said)
            return self._known[(*asked, revision)]

    def _remember(self, asked: tuple[Any, ...], fields: dict[str, Any]) -> None:
        self._known[asked] = fields
        while len(self._known) > RECENT:
            self._known.pop(next(iter(self._known)))


def _follow(standing: StandingGroups, changes: Sequence[Change]) -> None:
    for change in changes:
        if change.blob is None:
            standing.leave(change.origin)
        else:
            standing.take(Contribution.from_bytes(change.blob))


async def grouped(
    store: Store, charter: Charter, distance: str, count: int | None
) -> tuple[int, Grouping]:
    """All that a federation holds, grouped afresh, and its revision."""
    held, patterns = list[Contribution](), 0
    sizes = [entry.size for entry in await store.entries(charter.name) if not entry.left]
    _require_few(0, sum(sizes))
    async with store.snapshot(charter.name) as snapshot:
        async for _, blob in snapshot.blobs:
            held.append(await asyncio.to_thread(Contribution.from_bytes, blob))
            patterns += len(held[-1].parts)
            _require_few(patterns, 0)
    made = await asyncio.to_thread(group, held, charter.ridge, distance, count)
    return snapshot.revision, made


def _require_few(patterns: int, size: int) -> None:
    if patterns > MOST_PATTERNS:
        raise _too_many(f"more than {MOST_PATTERNS} patterns")
    if size > MOST_BYTES:
        raise _too_many(f"{size} bytes of contributions and sums, more than {MOST_BYTES},")


def _too_many(what: str) -> Problem:
    return Problem(
        "refused",
        f"{what} are not grouped here; fetch contributions and group some of them "
        "(elmgrove fleet groups FILES)",
    )
