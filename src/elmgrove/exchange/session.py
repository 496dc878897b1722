"""A session: one device and its exchange, in step with each other."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from elmgrove.detector.detector import Detector
from elmgrove.errors import ElmgroveError, Mismatch, Outdated, Refused, Unauthorized, Unreachable
from elmgrove.exchange.base import Exchange, Listing, SyncReport, grouped_of, merged_of
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import Contribution, Entry
from elmgrove.federation.ledger import Version, shrinks
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from elmgrove.federation.others import MOST_BYTES
from elmgrove.federation.report import Report
from elmgrove.federation.selection import GROUPS, PARTS, SUM, Everyone, Rule
from elmgrove.federation.terms import SUMS

#: So many syncs follow another at once, at most: it was outdated, asks, and has to leave first.
MOST_AGAIN = 3


@dataclass(frozen=True)
class Outgoing:
    """What a device hands over for a sync; nothing in it changes any more.

    ``entries`` are sent; ``own`` stays here, for the rule to compare others with, and so do those
    ``held`` of others, which need not be fetched again. ``tolerance`` is set by a device with
    several patterns: it wants to know the others' apart. ``one_model`` says that others and this
    device are to become one. ``asks`` says that the device wants to know what is held of itself:
    a state that was lost or restored may not know. ``report`` says how the device is doing; None
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
    report: Report | None = None


@dataclass(frozen=True)
class Incoming:
    """What came back: the others' sums or ``others`` by name, and why an entry was not taken.

    None where it is what was known before, or is not asked for. ``own`` is what is held of the
    device itself, if it ``asked``. ``commands`` are asked of it; None where the report was not
    taken, and is to be told again.
    """

    merged: Merged | None
    refusal: ElmgroveError | None
    others: tuple[Contribution, ...] | None = None
    asked: bool = False
    own: Listing | None = None
    commands: tuple[Command, ...] | None = None


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


@contextmanager
def holding_back(member: Member) -> Iterator[None]:
    """Undoes what a member decided to give away inside ``with``, if saving it fails there.

    Others may know what they knew before then, and no more.
    """
    before = member.published, member.lead, member.former
    try:
        yield
    except OSError:
        member.take_back(*before)
        raise


class PendingUpload:
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
        self.held_back: ElmgroveError | None = None

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
        except OSError as error:
            self.held_back = ElmgroveError(
                f"nothing new is sent, since it can't be saved: {error.filename}: {error.strerror}"
            )
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


#: Of more devices than this, a device is told at once where the exchange keeps groups ready.
MOST_BY_NAME = 16
_NOT_SHOWN = (
    "{who} needs what each device contributed, and in this federation a key reads sums alone: take "
    "everyone, or a federation made with --shows contributions"
)


class Session(Steps):
    """Keeps a member in step with an exchange.

    ``rule`` chooses the devices to use (all unless stated). A member that only asks others and
    borrows from them knows each by name: those that are new are fetched, as many as have no more
    bytes together than ``MOST_BYTES``. Where all are wanted and they are many, or where the
    federation shows sums alone, it is told of all at once, in groups (``StandingOthers``). One that
    merges them takes the exchange's sum or groups where the rule needs no more; contributions are
    fetched one by one with any other rule, and by a device with patterns that takes everyone. Where
    sums alone are shown these are refused, and what was received stays.
    ``save`` is called before anything new leaves the device: a device that forgot what it sent
    can't keep the upload guard. Where it raises ``OSError`` nothing new leaves, and the report says
    why; what others know is taken in all the same. Under the guard the first sync asks what is held
    of the device itself, and the next one sends (``PendingUpload``).
    """

    def __init__(
        self,
        member: Member,
        exchange: Exchange,
        *,
        rule: Rule | None = None,
        guarded: bool = True,
        save: Callable[[Member], None] = lambda member: None,
    ) -> None:
        self.member = member
        self.exchange = exchange
        self._rule = rule or Everyone()
        self._guarded = guarded
        self._save = save
        self._offering = PendingUpload(member, guarded, save)

    @property
    def detector(self) -> Detector:
        """The member's detector: ``observe`` rows with it."""
        return self.member.detector

    def leave(self) -> None:
        """Takes this device's part out of everybody's next model. A later sync joins again."""
        if self._offering.asks:
            self._offering.answered(own=self._listed(self.member.name), asked=True)
        departure = self.member.depart()
        self._save(self.member)
        try:
            self.exchange.publish(departure)
        except Outdated as outdated:
            self.member.outrank(outdated.held_epoch)
            self.exchange.publish(self.member.depart())
        self._save(self.member)

    # The steps of a sync, for programs that transfer in a thread of its own

    def prepare(self) -> Outgoing:
        """Gathers what to send now; called in the device's own thread."""
        entries = self._offering.entries()
        detector = self.member.detector
        tolerance = (
            None if detector.patterns is None else detector.patterns.tolerance(detector.basis)
        )
        return Outgoing(
            self.member.name,
            entries,
            self.member.contribution(),
            detector.model.ridge,
            self.member.merged,
            tolerance,
            tuple(self.member.ledger),
            self.member.merges,
            self._offering.outdated,
        )

    def transfer(self, outgoing: Outgoing) -> Incoming:
        """Speaks with the exchange, and touches nothing of the member: may run in any thread."""
        try:
            self.exchange.charter.basis.require(outgoing.own.basis)
        except Mismatch:
            self.exchange.forget_charter()
            raise
        own = self._listed(outgoing.name) if outgoing.asks else None
        refusal = None
        try:
            for entry in outgoing.entries:
                self.exchange.publish(entry)
        except (Unreachable, Unauthorized):
            raise
        except ElmgroveError as error:
            refusal = error
        incoming = self._received(outgoing, refusal)
        return replace(incoming, asked=outgoing.asks, own=own)

    def _received(self, outgoing: Outgoing, refusal: ElmgroveError | None) -> Incoming:
        who = self._who_needs_each(outgoing)
        if who and self._sums_alone:
            return Incoming(None, refusal or Refused(_NOT_SHOWN.format(who=who)))
        if not outgoing.one_model:
            return self._others(outgoing, refusal, all_wanted=not who)
        if not who:
            return Incoming(self._ready_sum(outgoing), refusal)
        chosen = self._chosen(outgoing)
        return Incoming(None if chosen == outgoing.known else chosen, refusal)

    def apply(self, incoming: Incoming) -> SyncReport:
        """Lets the member learn what came back."""
        member = self.member
        again = self._offering.answered(incoming.refusal, incoming.own, asked=incoming.asked)
        if incoming.merged is not None:
            member.set_prior(incoming.merged)
        told = (self._offering.held_back, incoming.refusal)
        reasons = [one for one in told if one is not None]
        if incoming.others is not None:
            if member.merged is not None:
                member.set_prior(None)
            for other in incoming.others:
                held = member.ledger.get(other.origin)
                if held is not None and held.epoch > other.epoch:
                    # The exchange was made to forget that one, and it is who says what counts.
                    member.forget(other.origin)
            only = {other.origin for other in incoming.others}
            reasons += member.receive_all(incoming.others, only)
        sum_of = 0 if member.merged is None else member.merged.devices
        return SyncReport.of(
            member,
            guarded=self._guarded,
            devices=len(member.ledger) or sum_of,
            updated=incoming.merged is not None or incoming.others is not None,
            refusal="; ".join(map(str, reasons)) or None,
            again=again,
        )

    @property
    def _sums_alone(self) -> bool:
        """Whether a key reads no single contribution here; without a server all see everything."""
        return self.exchange.standing and self.exchange.charter.terms.shows == SUMS

    def _who_needs_each(self, outgoing: Outgoing) -> str:
        """What needs each contribution by itself; empty where sums and groups will do."""
        needs = self._rule.needs
        if needs == PARTS:
            return f"the merge rule '{type(self._rule).__name__.lower()}'"
        if needs == GROUPS and not outgoing.one_model:
            return "merge = 'group' without merged = true"
        # A sum tells no patterns apart.
        if needs == SUM and outgoing.one_model and outgoing.tolerance is not None:
            return "one model of several patterns without merge = 'group'"
        return ""

    def _ready_sum(self, outgoing: Outgoing) -> Merged | None:
        return self.exchange.merged(outgoing.name, self._known(outgoing), self._rule.grouped_by)

    def _known(self, outgoing: Outgoing) -> Merged | None:
        """What was told of this federation; the number of another one means nothing here."""
        known = outgoing.known
        return known if known and known.federation == self.exchange.charter.name else None

    def _others(
        self, outgoing: Outgoing, refusal: ElmgroveError | None, *, all_wanted: bool
    ) -> Incoming:
        """Others as they are asked and borrowed from: by name or, where they are many, at once."""
        known = self._known(outgoing)
        # Who was told of many before need not list them in order to see that they are many.
        told_many = all_wanted and known is not None and known.devices > MOST_BY_NAME
        at_once = told_many or self._sums_alone
        listings = {} if at_once else self._listings(outgoing)
        if at_once or (all_wanted and self._many(listings)):
            try:
                return Incoming(self.exchange.others(outgoing.name, known), refusal)
            except Refused as error:
                if self._sums_alone:
                    return Incoming(None, refusal or error)
                # Too many to be told of at once: then as many as can be held by name.
                listings = self._listings(outgoing)
        # As many are held as have no more bytes together than what is told at once.
        chosen = tuple(self._found(outgoing, _smallest(listings)))
        same = chosen == outgoing.held and outgoing.known is None
        return Incoming(None, refusal, None if same else chosen)

    def _many(self, listings: Mapping[str, Listing]) -> bool:
        size = sum(listing.size for listing in listings.values())
        return size > MOST_BYTES or (self.exchange.standing and len(listings) > MOST_BY_NAME)

    def _listed(self, name: str) -> Listing | None:
        """What the exchange holds of this device."""
        return next((one for one in self.exchange.listings() if one.origin == name), None)

    def _listings(self, outgoing: Outgoing) -> dict[str, Listing]:
        """What the exchange holds of the others."""
        return {
            listing.origin: listing
            for listing in self.exchange.listings()
            if not listing.left and listing.origin != outgoing.name
        }

    def _found(self, outgoing: Outgoing, listings: Mapping[str, Listing]) -> list[Contribution]:
        """What the rule chooses of these; what is held is not fetched again."""
        held = {one.origin: one for one in outgoing.held}
        same = [
            held[origin]
            for origin, listing in listings.items()
            if origin in held and held[origin].epoch == listing.epoch
        ]
        fetched = self.exchange.fetch(set(listings) - {one.origin for one in same})
        new = [entry for entry in fetched if isinstance(entry, Contribution)]
        others = sorted(same + new, key=lambda one: one.origin)
        return self._rule.choose(outgoing.own, outgoing.ridge, others)

    def _chosen(self, outgoing: Outgoing) -> Merged:
        chosen = self._found(outgoing, self._listings(outgoing))
        if outgoing.tolerance is None:
            return merged_of(self.exchange.charter, 0, chosen)
        return grouped_of(self.exchange.charter, chosen, outgoing.tolerance)

    def close(self) -> None:
        """Saves, and lets go of the exchange's connections; the member stays usable."""
        try:
            self._save(self.member)
        finally:
            self.exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _smallest(listings: Mapping[str, Listing]) -> dict[str, Listing]:
    """As many of these as have no more than ``MOST_BYTES`` together."""
    fitting, size = dict[str, Listing](), 0
    for origin in sorted(listings, key=lambda origin: (listings[origin].size, origin)):
        size += listings[origin].size
        if size > MOST_BYTES:
            break
        fitting[origin] = listings[origin]
    return fitting
