"""Offering: what a device gives away is saved before it leaves, or does not leave."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from elmgrove.errors import ElmgroveError
from elmgrove.exchange.base import Listing
from elmgrove.federation import Contribution, Entry, Member, Outdated, Version, shrinks


class HeldBack(ElmgroveError):
    """Says why nothing new leaves a device: what it would give away can't be saved."""


@contextmanager
def holding_back(member: Member) -> Iterator[None]:
    """Undoes what a member decided to give away inside ``with``, if saving it fails there.

    Raises ``HeldBack`` then: others may know what they knew before, and no more.
    """
    before = member.published, member.lead, member.former
    try:
        yield
    except OSError as error:
        member.take_back(*before)
        raise HeldBack(
            f"nothing new is sent, since it can't be saved: {error.filename}: {error.strerror}"
        ) from error


class Offering:
    """What a device may send now: nothing new before it is known what is held of the device.

    A state that was lost or restored may not know what it gave away; so under the guard it ``asks``
    first, and sends with the next sync, at once if something waits. Without a guard nobody asks.
    """

    def __init__(self, member: Member, guarded: bool, save: Callable[[Member], None]) -> None:
        self._member = member
        self._guarded = guarded
        self._save = save
        self._departures: tuple[Entry, ...] = ()
        self._waits = False
        # Whether something is held, as far as is known, that a former self gave away.
        self._held = True
        #: Whether it must be asked what is held of the device.
        self.asks = guarded
        #: Why nothing new could be saved the last time; None if there was no reason.
        self.held_back: HeldBack | None = None

    def entries(self) -> tuple[Entry, ...]:
        """Gives what is to be sent now, as it was saved; as it was before, if that fails.

        A device that offers fewer rows than before, since some were taken out, leaves first: else
        it would be taken for another one under its name.
        """
        entries = self._take()
        if entries is not None:
            return entries
        shared = None if self.outdated else self._member.shared
        # Before a departure that waits, what was sent the last time would be refused.
        return () if shared is None or self._departures else (shared,)

    def answered(
        self, refusal: ElmgroveError | None = None, own: Listing | None = None, *, asked: bool
    ) -> bool:
        """Takes note of an exchange's answer; says whether the next sync should follow at once.

        ``own`` is what it holds of this device, if it was ``asked``. A refusal as ``Outdated`` says
        that it holds a version which is to be outranked.
        """
        if self.held_back is None:
            self._departures = ()
        if asked:
            self._held = own is not None and not own.left and own.epoch != self._member.highest
            if own is not None:
                self._member.recall(own.epoch, left=own.left)
            self.asks = False
            return self._waits
        if not isinstance(refusal, Outdated):
            return False
        if self._guarded and refusal.held_epoch > self._member.highest:
            # Who gave that away, or did somebody take the device out? First it asks.
            self.asks = True
            return True
        self._member.outrank(refusal.held_epoch)
        if refusal.shrunk:
            self._departures = (self._member.depart(),)
        return True

    @property
    def outdated(self) -> bool:
        """Whether what is held has rows that this state does not know of: it stays, or is asked.

        Where it was cleared or left, what this state gave away before may take its place.
        """
        return self._guarded and (self.asks or (self._held and self._member.former > 0))

    def _take(self) -> tuple[Entry, ...] | None:
        """Gives what is given away; None where it must be asked first, or could not be saved."""
        self._waits, self.held_back = self.asks and self._member.has_news, None
        if self.asks:
            return None
        try:
            return self._saved()
        except HeldBack as error:
            self.held_back = error
            return None

    def _saved(self) -> tuple[Entry, ...]:
        member, departures, shared = self._member, self._departures, self._member.shared
        with holding_back(member):
            offer = self._offered()
            if _has_fewer_rows(offer, shared):
                departures = (member.depart(),)
                offer = member.shared
            if departures:
                self._save(member)
        self._departures = departures
        return departures + (() if offer is None or self.outdated else (offer,))

    def _offered(self) -> Contribution | None:
        member = self._member
        with holding_back(member):
            before = member.published
            offer = member.offer(guarded=self._guarded)
            if member.published is not before:
                self._save(member)
        return offer


def _has_fewer_rows(offer: Contribution | None, before: Contribution | None) -> bool:
    """Whether rows were taken out since the last offer, so that the device has to leave."""
    if offer is None or before is None:
        return False
    return shrinks(_version(before), _version(offer))


def _version(offer: Contribution) -> Version:
    return Version(offer.epoch, offer.evidence.count, "")
