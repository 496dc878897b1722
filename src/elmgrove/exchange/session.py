"""A session: one device and its exchange, in step with each other."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from elmgrove.detector import Detector
from elmgrove.errors import ElmgroveError, Mismatch
from elmgrove.exchange.base import (
    Exchange,
    Listing,
    SyncReport,
    Unauthorized,
    Unreachable,
    grouped_of,
    merged_of,
)
from elmgrove.exchange.offering import Offering
from elmgrove.exchange.steps import Incoming, Outgoing, Steps
from elmgrove.federation import (
    GROUPS,
    MOST_BYTES,
    PARTS,
    SUM,
    SUMS,
    Contribution,
    Everyone,
    Member,
    Merged,
    Outdated,
    Refused,
    Rule,
)

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
    of the device itself, and the next one sends (``Offering``).
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
        self._offering = Offering(member, guarded, save)

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
            # Where it refused what came, it matched patterns of before.
            matched = incoming.merged.matching if incoming.refusal is None else None
            member.rest_on(replace(incoming.merged, matching=matched))
        told = (self._offering.held_back, incoming.refusal)
        reasons = [one for one in told if one is not None]
        if incoming.others is not None:
            if member.merged is not None:
                member.rest_on(None)
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
