"""A session: one device and its exchange, in step with each other."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Self

from elmgrove.detector import Detector
from elmgrove.errors import ElmgroveError
from elmgrove.exchange.base import (
    Exchange,
    Listing,
    SyncReport,
    Unauthorized,
    Unreachable,
    grouped_of,
    merged_of,
)
from elmgrove.exchange.steps import Incoming, Outgoing, Steps
from elmgrove.federation import (
    MERGED,
    PARTS,
    SUM,
    Contribution,
    Cost,
    Entry,
    Everyone,
    Member,
    Merged,
    Outdated,
    Refused,
    Rule,
    Version,
    shrinks,
    within,
)

#: Of others that are asked by name, as many are held as have so many bytes together.
MOST_BYTES = 8_000_000
#: Of more devices than this, a device is told at once where the exchange keeps groups ready.
MOST_BY_NAME = 16


class Session(Steps):
    """Keeps a member in step with an exchange.

    ``rule`` chooses the devices to use (all unless stated), ``budget`` says how much fetching may
    cost. A member that only asks others and borrows from them knows each by name: those that are
    new are fetched, as many as a budget allows. Where all are wanted and they are many, it is told
    of all at once, in groups (``StandingOthers``). One that merges them takes the exchange's sum or
    groups where the rule needs no more; contributions are fetched one by one with a budget, with
    any other rule, and by a device with patterns that takes everyone.
    ``save`` is called before anything new leaves the device: a device that forgot what it sent
    can't keep the upload guard. So under the guard the first sync only asks what is held of the
    device itself, and the next one follows at once if there is something to send.
    """

    def __init__(
        self,
        member: Member,
        exchange: Exchange,
        *,
        rule: Rule | None = None,
        budget: Cost | None = None,
        guarded: bool = True,
        save: Callable[[Member], None] = lambda member: None,
    ) -> None:
        self.member = member
        self.exchange = exchange
        self._rule = rule or Everyone()
        self._budget = budget
        self._guarded = guarded
        self._save = save
        self._departures: tuple[Entry, ...] = ()
        # Whether it is known what the exchange holds of this device; without a guard nobody asks.
        self._asked = not guarded
        # Whether something waited to be sent when it asked.
        self._waits = False

    @property
    def detector(self) -> Detector:
        """The member's detector: ``observe`` rows with it."""
        return self.member.detector

    def leave(self) -> None:
        """Takes this device's part out of everybody's next model. A later sync joins again."""
        if not self._asked:
            self._recall(self._listed(self.member.name))
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
        """Gathers what to send now; called in the device's own thread.

        A device that offers fewer rows than before, since some were taken out, leaves first: else
        it would be taken for another one under its name.
        """
        before = self.member.shared
        self._waits = not self._asked and self.member.has_news
        offer = offered(self.member, self._guarded, self._save) if self._asked else None
        if self._guarded and self.member.former:
            # What is held has rows that this state does not know of: it stays till there are more.
            offer = None
        if offer is not None and before is not None and shrinks(_rows(before), _rows(offer)):
            self._departures = (self.member.depart(),)
            offer = self.member.shared
        if self._departures:
            self._save(self.member)
        entries = self._departures + (() if offer is None else (offer,))
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
            self.member.policy == MERGED,
            not self._asked,
        )

    def transfer(self, outgoing: Outgoing) -> Incoming:
        """Speaks with the exchange, and touches nothing of the member: may run in any thread."""
        self.exchange.charter.basis.require(outgoing.own.basis)
        refusal, own = None, self._listed(outgoing.name) if outgoing.asks else None
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
        if not outgoing.one_model:
            return self._others(outgoing, refusal)
        # A sum tells no patterns apart.
        wants_parts = self._rule.needs == SUM and outgoing.tolerance is not None
        if self._budget is None and self._rule.needs != PARTS and not wants_parts:
            return Incoming(self._ready_sum(outgoing), refusal)
        chosen = self._chosen(outgoing)
        return Incoming(None if chosen == outgoing.known else chosen, refusal)

    def apply(self, incoming: Incoming) -> SyncReport:
        """Lets the member learn what came back."""
        member = self.member
        again = self._outrank(incoming.refusal)
        if incoming.asked:
            self._recall(incoming.own)
            again = self._waits
        if incoming.merged is not None:
            member.rest_on(incoming.merged)
        reasons = [] if incoming.refusal is None else [incoming.refusal]
        if incoming.others is not None:
            if member.merged is not None:
                member.rest_on(None)
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

    def _outrank(self, refusal: ElmgroveError | None) -> bool:
        """Makes this device's next entry newer than the version that the exchange holds.

        Says whether that was why the exchange refused an entry.
        """
        self._departures = ()
        if not isinstance(refusal, Outdated):
            return False
        if self._guarded and refusal.held_epoch > self.member.highest:
            # Held by whom, and is it a departure? First it asks.
            self._asked = False
            return True
        self.member.outrank(refusal.held_epoch)
        if refusal.shrunk:
            self._departures = (self.member.depart(),)
        return True

    def _ready_sum(self, outgoing: Outgoing) -> Merged | None:
        return self.exchange.merged(outgoing.name, self._known(outgoing), self._rule.grouped_by)

    def _known(self, outgoing: Outgoing) -> Merged | None:
        """What was told of this federation; the number of another one means nothing here."""
        known = outgoing.known
        return known if known and known.federation == self.exchange.charter.name else None

    def _others(self, outgoing: Outgoing, refusal: ElmgroveError | None) -> Incoming:
        """Others as they are asked and borrowed from: by name or, where they are many, at once."""
        all_wanted = self._budget is None and self._rule.needs == SUM
        known = self._known(outgoing)
        # Who was told of many before need not list them in order to see that they are many.
        told_many = all_wanted and known is not None and known.devices > MOST_BY_NAME
        listings = {} if told_many else self._listings(outgoing)
        if told_many or (all_wanted and self._many(listings)):
            try:
                return Incoming(self.exchange.others(outgoing.name, known), refusal)
            except Refused:
                # Too many to be told of at once: then as many as can be held by name.
                listings = self._listings(outgoing)
        budget = self._budget or Cost(bytes=MOST_BYTES)
        chosen = tuple(self._found(outgoing, listings, budget))
        same = chosen == outgoing.held and outgoing.known is None
        return Incoming(None, refusal, None if same else chosen)

    def _many(self, listings: Mapping[str, Listing]) -> bool:
        size = sum(listing.cost.bytes for listing in listings.values())
        return size > MOST_BYTES or (self.exchange.standing and len(listings) > MOST_BY_NAME)

    def _listed(self, name: str) -> Listing | None:
        """What the exchange holds of this device."""
        return next((one for one in self.exchange.listings() if one.origin == name), None)

    def _recall(self, own: Listing | None) -> None:
        """Lets the member know what the exchange holds of it."""
        if own is not None:
            self.member.recall(own.epoch, left=own.left)
        self._asked = True

    def _listings(self, outgoing: Outgoing) -> dict[str, Listing]:
        """What the exchange holds of the others."""
        return {
            listing.origin: listing
            for listing in self.exchange.listings()
            if not listing.left and listing.origin != outgoing.name
        }

    def _found(
        self, outgoing: Outgoing, listings: Mapping[str, Listing], budget: Cost | None
    ) -> list[Contribution]:
        """What the rule chooses of what the budget affords; what is held is not fetched again."""
        held = {one.origin: one for one in outgoing.held}
        costs = {origin: listing.cost for origin, listing in listings.items()}
        wanted: Collection[str] = costs if budget is None else within(budget, costs)
        same = [
            held[origin]
            for origin in wanted
            if origin in held and held[origin].epoch == listings[origin].epoch
        ]
        fetched = self.exchange.fetch(set(wanted) - {one.origin for one in same})
        new = [entry for entry in fetched if isinstance(entry, Contribution)]
        others = sorted(same + new, key=lambda one: one.origin)
        return self._rule.choose(outgoing.own, outgoing.ridge, others)

    def _chosen(self, outgoing: Outgoing) -> Merged:
        chosen = self._found(outgoing, self._listings(outgoing), self._budget)
        if outgoing.tolerance is None:
            return merged_of(self.exchange.charter, 0, chosen)
        return grouped_of(self.exchange.charter, chosen, outgoing.tolerance)

    def close(self) -> None:
        """Saves, and lets go of the exchange's connections; the member stays usable."""
        self._save(self.member)
        self.exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _rows(offer: Contribution) -> Version:
    return Version(offer.epoch, offer.evidence.count, "")


def offered(member: Member, guarded: bool, save: Callable[[Member], None]) -> Contribution | None:
    """Lets a member offer what it may give away, and saves it before anybody can have it."""
    before = member.published
    offer = member.offer(guarded=guarded)
    if member.published is not before:
        save(member)
    return offer
