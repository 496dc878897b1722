"""Live others: what devices of a large federation are told of all others, kept ready."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from elmgrove.federation import Charter, Merged, StandingOthers
from elmgrove.server.damage import Damage, Reader
from elmgrove.server.live import LiveSet, LiveView, take_in
from elmgrove.server.problems import Problem
from elmgrove.server.store import Change, FederationRow, Store

log = logging.getLogger("elmgrove.server")

#: What is held of one federation at most, all in memory.
MOST_BYTES = 1024 * 2**20
#: What nobody asked about for so many seconds is dropped.
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
        """Gives what a device is told of all others, under the number ``revision``."""
        async with self._lock:
            await self._catch_up()
            told = (self._federation, revision, origin, least)
            return await self._alone(partial(self._others.merged, *told))

    async def grouped(self, within: float) -> dict[int, list[str]] | None:
        """Gives the devices that are in each group now; None if that takes longer than ``within``.

        It goes on in any case, for who asks again: to begin with thousands of devices takes a
        minute.
        """
        if self._grouping is None or self._grouping.done():
            self._grouping = asyncio.ensure_future(self._grouped())
            # What went wrong is told to who waits; it may be that nobody does any more.
            self._grouping.add_done_callback(lambda one: one.cancelled() or one.exception())
        done, _ = await asyncio.wait((self._grouping,), timeout=within)
        return self._grouping.result() if done else None

    async def _grouped(self) -> dict[int, list[str]]:
        async with self._lock:
            await self._catch_up()
            return await self._alone(lambda: self._others.grouped)

    def groups_of(self, origin: str) -> list[int]:
        """Lists the groups that a device's patterns are in, as they stand."""
        return self._others.groups_of(origin)

    @property
    def unlike(self) -> dict[str, str]:
        """The devices that are unlike all others, as they stand, and by which sensors."""
        return self._others.unlike

    async def _apply(self, changes: Sequence[Change]) -> int:
        # If this fails half-way, the next time begins with all contributions: revision 0 says so.
        self._revision = 0
        await self._alone(partial(take_in, self._others, self._reader, changes))
        _require_room(self._others.nbytes)
        return changes[-1].revision

    async def _rebuild(self) -> int:
        # Before anything is read: who asks again and again must not have it read each time.
        entries = await self._store.entries(self._federation)
        _require_room(sum(entry.size for entry in entries if not entry.left))
        others = self._begun()
        async with self._store.snapshot(self._federation) as snapshot:
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

    def __init__(self, store: Store, damage: Damage) -> None:
        super().__init__(store, damage, PATIENCE)

    def of(self, federation: FederationRow, charter: Charter) -> LiveOther:
        """Gives those of one federation."""
        reader = self._reader(federation, charter)
        return self._view(federation, lambda: LiveOther(self._store, reader))

    def groups_of(self, federation: FederationRow, names: Sequence[str]) -> dict[str, list[int]]:
        """Lists the groups of some devices, where they are kept: nothing is made for it."""
        view = self._views.get((federation.name, federation.created))
        return {} if view is None else {name: view.groups_of(name) for name in names}

    def unlike(self, federation: FederationRow) -> dict[str, str]:
        """Says which devices are unlike all others, and why, where their sums are kept."""
        view = self._views.get((federation.name, federation.created))
        return {} if view is None else view.unlike


def _require_room(size: int) -> None:
    if size > MOST_BYTES:
        raise Problem(
            "refused",
            f"this federation is too large to be grouped here (more than {MOST_BYTES} bytes); "
            "fetch some of its contributions instead",
        )
