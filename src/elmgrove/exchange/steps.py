"""The three steps of a sync, what passes between them, and how one follows the other."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from elmgrove.errors import ElmgroveError
from elmgrove.exchange.base import Listing, SyncReport
from elmgrove.federation import Contribution, Entry, Errand, Merged, Summary

#: So many syncs follow another at once, at most: it was outdated, asks, and has to leave first.
MOST_AGAIN = 3


@dataclass(frozen=True)
class Outgoing:
    """What a device hands over for a sync; nothing in it changes any more.

    ``entries`` are sent; ``own`` stays here, for the rule to compare others with, and so do those
    ``held`` of others, which need not be fetched again. ``tolerance`` is set by a device with
    several patterns: it wants to know the others' apart. ``one_model`` says that others and this
    device are to become one. ``asks`` says that the device wants to know what is held of itself:
    a state that was lost or restored may not know. ``summary`` says how the device is doing; None
    where it does not tell.
    """

    name: str
    entries: tuple[Entry, ...]
    own: Contribution
    ridge: float
    known: Merged | None
    tolerance: float | None
    held: tuple[Contribution, ...]
    one_model: bool
    asks: bool
    summary: Summary | None = None


@dataclass(frozen=True)
class Incoming:
    """What came back: the others' sums or ``others`` by name, and why an entry was not taken.

    None where it is what was known before, or is not asked for. ``own`` is what is held of the
    device itself, if it ``asked``. ``errands`` are asked of it; None where the summary was not
    taken, and is to be told again.
    """

    merged: Merged | None
    refusal: ElmgroveError | None
    others: tuple[Contribution, ...] | None = None
    asked: bool = False
    own: Listing | None = None
    errands: tuple[Errand, ...] | None = None


class Steps(ABC):
    """Something that syncs in three steps, of which the second may have a thread of its own."""

    @abstractmethod
    def prepare(self) -> Any:
        """Gathers what to send now; called in the device's own thread."""

    @abstractmethod
    def transfer(self, outgoing: Any) -> Any:
        """Speaks with the others, and touches nothing of the member: may run in any thread."""

    @abstractmethod
    def apply(self, incoming: Any) -> SyncReport:
        """Lets the member learn what came back; called in the device's own thread."""

    def sync(self) -> SyncReport:
        """Publishes what the guard lets, and takes in what the others learned."""
        report = self.apply(self.transfer(self.prepare()))
        for _ in range(MOST_AGAIN):
            if report.again:
                report = report.then(self.apply(self.transfer(self.prepare())))
        return report

    async def sync_async(self) -> SyncReport:
        """Syncs while the event loop goes on; one at a time.

        Only the transfer has a thread of its own, so the detector may be used meanwhile. Cancelled,
        it takes nothing in; what was offered counts as given away, since it may be under way.
        """
        # Here, since it takes a while to load, and most devices have threads.
        import asyncio

        report = self.apply(await asyncio.to_thread(self.transfer, self.prepare()))
        for _ in range(MOST_AGAIN):
            if report.again:
                after = self.apply(await asyncio.to_thread(self.transfer, self.prepare()))
                report = report.then(after)
        return report
