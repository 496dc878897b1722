"""Merged sums and groups of a federation, kept ready while contributions come and go.

Groups stand while devices come, change and leave (``StandingGroups``); a server keeps them ready.
"""

import asyncio
import copy
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from elmgrove.algebra.evidence import Evidence
from elmgrove.errors import BadFile, Problem
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, evidence_of
from elmgrove.federation.groups import EVIDENCE, Grouping, group
from elmgrove.federation.merged import Merged
from elmgrove.federation.others import StandingOthers
from elmgrove.federation.standing import StandingGroups
from elmgrove.federation.sums import BoundedSum, Influence
from elmgrove.server.limits import TokenBuckets
from elmgrove.server.live import CorruptEntries, LiveSet, LiveView, Reader
from elmgrove.server.problems import too_many
from elmgrove.server.store.contributions import Change, StoredEntry
from elmgrove.server.store.federations import FederationRow
from elmgrove.server.store.store import Store

log = logging.getLogger("elmgrove.server")

#: Contributions kept in memory for the sum and for the devices that sent them.
RECENT = 64


class LiveSum(LiveView):
    """The sum over one federation.

    A change costs an addition and a subtraction, however many devices there are.
    """

    def __init__(self, store: Store, reader: Reader) -> None:
        super().__init__(store, reader)
        self._running = self._begun()
        self._recent: dict[int, Evidence] = {}
        # Devices that the log has named already.
        self._named = set[str]()

    def _begun(self) -> BoundedSum:
        return BoundedSum(self._charter.basis, self._charter.terms)

    def remember(self, revision: int, evidence: Evidence) -> None:
        """Keep what was just put in memory: it will be added, and its device asks without it."""
        self._recent[revision] = evidence
        while len(self._recent) > RECENT:
            # Other threads look here meanwhile; the oldest is the first.
            self._recent.pop(next(iter(self._recent)), None)

    def evidence(self, origin: str, revision: int, blob: bytes) -> Evidence | None:
        """Return the evidence in a stored contribution; None if it is corrupt."""
        known = self._recent.get(revision)
        return self._reader.evidence(origin, revision, blob) if known is None else known

    async def current(self) -> tuple[int, BoundedSum]:
        """Return the revision as of now, and its sum, which does not change any more."""
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
        """Add up all contributions again."""
        async with self._lock:
            self._revision = await self._rebuild()

    async def _rebuild(self) -> int:
        running = self._begun()
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
        influence = self._running.influence
        for origin in influence.bounded.keys() - self._named:
            self._named.add(origin)
            log.warning(
                "%s: %r counts as %.6g of %.6g rows: %s",
                self._federation,
                origin,
                influence.rows(origin),
                influence.claims[origin].rows,
                influence.why(origin),
            )


class LiveSums(LiveSet[LiveSum]):
    """The live sums of all federations that were asked about."""

    async def merged(
        self, federation: FederationRow, charter: Charter, without: str | None, revision: int
    ) -> Merged:
        """Return the sum without one device, under the number ``revision``."""
        live = self._live_sum(federation, charter)
        at, running = await live.current()
        own = None
        while without is not None and without in running:
            found = await self._store.contributions.blob(federation.name, without)
            entry = (
                await self._store.contributions.entry(federation.name, without)
                if found is None
                else found[0]
            )
            if entry is not None and not entry.left and entry.revision <= at:
                blob = b"" if found is None else found[1]
                part = await asyncio.to_thread(live.evidence, without, entry.revision, blob)
                if part is not None:
                    own = without, part
                    break
                # It was corrupted since it was added, and can't be taken out.
                await live.rebuild()
            # Or it changed since the sum was taken.
            at, running = await live.current()
        evidence = await asyncio.to_thread(running.evidence, own)
        return Merged(charter.name, revision, running.devices - (own is not None), (evidence,))

    async def influence(self, federation: FederationRow, charter: Charter) -> Influence:
        """Return how much each device counts in the sum over all."""
        _, running = await self._live_sum(federation, charter).current()
        return running.influence

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


def _apply_changes(
    groups: StandingOthers | StandingGroups, reader: Reader, changes: Sequence[Change]
) -> None:
    """Apply contributions and departures in the order in which they happened."""
    for change in changes:
        blob, revision = change.blob, change.revision
        made = None if blob is None else reader.contribution(change.origin, revision, blob)
        if made is None:
            groups.leave(change.origin)
        else:
            groups.take(made)


#: What is held of one federation at most, all in memory.
MOST_BYTES = 1024 * 2**20
#: Seconds after which what nobody asked about is dropped.
PATIENCE = 3600.0


class LiveOther(LiveView):
    """The groups and loans of one federation; a change costs a comparison with each group."""

    def __init__(self, store: Store, reader: Reader) -> None:
        super().__init__(store, reader)
        self._others = self._begun()
        self._grouping: asyncio.Future[dict[int, list[str]]] | None = None

    def _begun(self) -> StandingOthers:
        return StandingOthers(self._charter.basis, self._charter.ridge, self._charter.terms)

    async def merged(self, origin: str, revision: int, least: int = 1) -> Merged:
        """Return what a device gets of all others, under the number ``revision``."""
        async with self._lock:
            await self._catch_up()
            which = (self._federation, revision, origin, least)
            return await self._alone(partial(self._others.merged, *which))

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
        """List the groups that a device's patterns are in, as they stand."""
        return self._others.groups_of(origin)

    @property
    def unlike(self) -> dict[str, str]:
        """The devices that are unlike all others, as they stand, and by which sensors."""
        return self._others.unlike

    async def _apply(self, changes: Sequence[Change]) -> int:
        # If this fails half-way, the next time begins with all contributions: revision 0 says so.
        self._revision = 0
        await self._alone(partial(_apply_changes, self._others, self._reader, changes))
        _require_room(self._others.nbytes)
        return changes[-1].revision

    async def _rebuild(self) -> int:
        # Before anything is read: who asks again and again must not have it read each time.
        entries = await self._store.contributions.entries(self._federation)
        _require_room(sum(entry.size for entry in entries if not entry.left))
        others = self._begun()
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
    """The live others of all federations that were asked about."""

    def __init__(self, store: Store, corrupt: CorruptEntries) -> None:
        super().__init__(store, corrupt, PATIENCE)

    def of(self, federation: FederationRow, charter: Charter) -> LiveOther:
        """Return those of one federation."""
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


def _require_room(size: int) -> None:
    if size > MOST_BYTES:
        raise Problem(
            "refused",
            f"this federation is too large to be grouped here (more than {MOST_BYTES} bytes); "
            "fetch some of its contributions instead",
        )


T = TypeVar("T")

#: What is grouped at most: patterns, and bytes, all in memory at once.
MOST_PATTERNS = 500
MOST_GROUP_BYTES = 512 * 2**20


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
        """Return the sums of a device's groups, under the number ``revision``."""
        return await self._current(
            lambda: self._groups.merged(self._federation, revision, origin, least)
        )

    async def fields(self) -> dict[str, Any]:
        """Say as JSON which pattern is where, and since which revision the groups have stood."""
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
        await self._alone(partial(_apply_changes, self._groups, self._reader, changes))
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

    #: The share of the time for one key, and the seconds that it may use at first.
    SHARE = (0.1, 10.0)

    def __init__(self, store: Store, corrupt: CorruptEntries) -> None:
        super().__init__(store, corrupt, PATIENCE)
        # As JSON: the models themselves would be all contributions, many times.
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._lock = asyncio.Lock()
        self._shares = TokenBuckets(*self.SHARE)

    def grouping(self, federation: FederationRow, charter: Charter) -> LiveGrouping:
        """Return the live grouping of a federation."""
        reader = self._reader(federation, charter)
        return self._view(federation, lambda: LiveGrouping(self._store, reader))

    async def regrouped(
        self,
        federation: FederationRow,
        charter: Charter,
        count: int | None,
        asker: str,
    ) -> dict[str, Any]:
        """Group all that a federation holds now, and return it as JSON, with its revision."""
        revision = await self._store.contributions.revision(federation.name)
        asked = (federation.name, federation.created, count)
        known = self._known.get((*asked, revision))
        if known is not None:
            return known
        async with self._turn(asker):
            reader = self._reader(federation, charter)
            revision, made = await group_all(self._store, reader, count)
        found = {"revision": revision, "since": revision, **made.fields}
        self._remember((*asked, revision), found)
        return found

    @asynccontextmanager
    async def _turn(self, asker: str) -> AsyncIterator[None]:
        """Refuse where another one is at work, or where this asker has used its share."""
        if self._lock.locked():
            raise too_many("other groups are being made", 10.0)
        if wait := self._shares.wait(asker, 0.0):
            raise too_many("groups were made for this key for too long", wait)
        async with self._lock:
            began = time.monotonic()
            try:
                yield
            finally:
                self._shares.take(asker, time.monotonic() - began)

    def _remember(self, asked: tuple[Any, ...], fields: dict[str, Any]) -> None:
        self._known[asked] = fields
        while len(self._known) > 32:
            self._known.pop(next(iter(self._known)))


async def group_all(store: Store, reader: Reader, count: int | None) -> tuple[int, Grouping]:
    """Group all that a federation holds, and return the revision."""
    charter, held, patterns = reader.charter, list[Contribution](), 0
    sizes = [
        entry.size for entry in await store.contributions.entries(charter.name) if not entry.left
    ]
    _require_few(0, sum(sizes))
    async with store.contributions.snapshot(charter.name) as snapshot:
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
    if size > MOST_GROUP_BYTES:
        raise _too_many(f"{size} bytes of contributions and sums, more than {MOST_GROUP_BYTES},")


def _too_many(what: str) -> Problem:
    return Problem(
        "refused",
        f"{what} are not grouped here; fetch contributions and group some of them "
        "(elmgrove fleet FILES)",
    )
