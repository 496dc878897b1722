"""Live groups: standing groups of a federation that are kept up to date, or all made again.

Groups stand while devices come, change and leave (``StandingGroups``); a server keeps them ready.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from elmgrove.federation import (
    EVIDENCE,
    Charter,
    Contribution,
    Grouping,
    Merged,
    StandingGroups,
    group,
)
from elmgrove.server.damage import Damage, Reader
from elmgrove.server.limits import Buckets
from elmgrove.server.live import LiveSet, LiveView, take_in
from elmgrove.server.problems import Problem, too_many
from elmgrove.server.store import Change, FederationRow, Store

log = logging.getLogger("elmgrove.server")
T = TypeVar("T")

#: What is grouped at most: patterns, and bytes, all in memory at once.
MOST_PATTERNS = 500
MOST_BYTES = 512 * 2**20
#: Live groups that nobody asked about for so many seconds are dropped.
PATIENCE = 3600.0
#: How many groupings that were made on request are kept.
RECENT = 32
#: How much of the time groups may be made for one key, and for how many seconds at first.
SHARE, BURST = 0.1, 10.0
#: After how many seconds to ask again where other groups are being made.
SECONDS_BETWEEN_TURNS = 10.0


class LiveGrouping(LiveView):
    """The standing groups of one federation, kept up to date.

    It begins with a grouping of all that is there at the first question. A change then costs a
    comparison with each group, not with each pattern.
    """

    def __init__(self, store: Store, reader: Reader) -> None:
        super().__init__(store, reader)
        self._since = 0
        self._grouping = Grouping(EVIDENCE, (), ())
        self._groups = self._begun(self._grouping)

    def _begun(self, grouping: Grouping) -> StandingGroups:
        basis, ridge, terms = self._charter.basis, self._charter.ridge, self._charter.terms
        return StandingGroups(basis, ridge, grouping, terms=terms)

    async def merged(self, origin: str, revision: int, least: int = 1) -> Merged:
        """Gives the sums of a device's groups, under the number ``revision``."""
        return await self._current(
            lambda: self._groups.merged(self._federation, revision, origin, least)
        )

    async def fields(self) -> dict[str, Any]:
        """Says as JSON which pattern is where, and since which revision the groups have stood."""
        return await self._current(
            lambda: {"revision": self._revision, "since": self._since, **self._grouping.fields}
        )

    async def _current(self, question: Callable[[], T]) -> T:
        async with self._lock:
            await self._catch_up()
            return await self._alone(question)

    async def _apply(self, changes: Sequence[Change]) -> int:
        # If this fails half-way, the next time begins with all contributions: revision 0 says so.
        self._revision = 0
        await self._alone(partial(take_in, self._groups, self._reader, changes))
        self._grouping = self._groups.grouping
        _require_few(len(self._grouping.models), self._groups.nbytes)
        return changes[-1].revision

    async def _rebuild(self) -> int:
        revision, made = await group_all(self._store, self._reader, None)
        groups = await asyncio.to_thread(self._begun, made)
        _require_few(len(made.models), groups.nbytes)
        self._groups, self._grouping, self._since = groups, made, revision
        log.info("%s: grouped all %d patterns", self._federation, len(made.models))
        return revision


class LiveGroups(LiveSet[LiveGrouping]):
    """The live groupings of all federations that were asked about, and some made on request.

    One is made on request at a time, in a thread: it takes seconds, all of one core, and a few
    times the memory of the contributions. Meanwhile others are told to ask later, and so are those
    who asked for so much that they used more than their share.
    """

    def __init__(self, store: Store, damage: Damage) -> None:
        super().__init__(store, damage, PATIENCE)
        # As JSON: the models themselves would be all contributions, many times.
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._lock = asyncio.Lock()
        self._shares = Buckets(SHARE, BURST)

    def grouping(self, federation: FederationRow, charter: Charter) -> LiveGrouping:
        """Gives the live grouping of a federation."""
        reader = self._reader(federation, charter)
        return self._view(federation, lambda: LiveGrouping(self._store, reader))

    async def regrouped(
        self,
        federation: FederationRow,
        charter: Charter,
        count: int | None,
        asker: str,
    ) -> dict[str, Any]:
        """Groups all that a federation holds now, and says so as JSON, with its revision."""
        revision = await self._store.revision(federation.name)
        asked = (federation.name, federation.created, count)
        known = self._known.get((*asked, revision))
        if known is not None:
            return known
        async with self._turn(asker):
            reader = self._reader(federation, charter)
            revision, made = await group_all(self._store, reader, count)
        said = {"revision": revision, "since": revision, **made.fields}
        self._remember((*asked, revision), said)
        return said

    @asynccontextmanager
    async def _turn(self, asker: str) -> AsyncIterator[None]:
        """Refuses where another one is at work, or where this asker has used its share."""
        share = self._shares.of(asker)
        if self._lock.locked():
            raise too_many("other groups are being made", SECONDS_BETWEEN_TURNS)
        if wait := share.wait(0.0):
            raise too_many("groups were made for this key for too long", wait)
        async with self._lock:
            began = time.monotonic()
            try:
                yield
            finally:
                share.take(time.monotonic() - began)

    def _remember(self, asked: tuple[Any, ...], fields: dict[str, Any]) -> None:
        self._known[asked] = fields
        while len(self._known) > RECENT:
            self._known.pop(next(iter(self._known)))


async def group_all(store: Store, reader: Reader, count: int | None) -> tuple[int, Grouping]:
    """Groups all that a federation holds, and says of which revision that is."""
    charter, held, patterns = reader.charter, list[Contribution](), 0
    sizes = [entry.size for entry in await store.entries(charter.name) if not entry.left]
    _require_few(0, sum(sizes))
    async with store.snapshot(charter.name) as snapshot:
        async for entry, blob in snapshot.blobs:
            read = reader.contribution
            made = await asyncio.to_thread(read, entry.origin, entry.revision, blob)
            if made is not None:
                held.append(made)
                patterns += len(made.parts)
            _require_few(patterns, 0)
    grouping = await asyncio.to_thread(group, held, charter.ridge, EVIDENCE, count)
    return snapshot.revision, grouping


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
