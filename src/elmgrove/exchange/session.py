"""A session: one device and its exchange, in step with each other."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from elmgrove.detector import Detector
from elmgrove.errors import BadInput, ElmgroveError
from elmgrove.exchange.base import (
    Exchange,
    SyncReport,
    Unauthorized,
    Unreachable,
    grouped_of,
    merged_of,
)
from elmgrove.exchange.folder import FolderExchange
from elmgrove.federation import (
    PARTS,
    SUM,
    Contribution,
    Cost,
    Entry,
    Everyone,
    Member,
    Merged,
    Outdated,
    Rule,
    within,
)
from elmgrove.storage import load, save


@dataclass(frozen=True)
class Outgoing:
    """What a device hands over for a sync; nothing in it changes any more.

    ``entries`` are sent; ``own`` stays here, for the rule to compare others with. ``tolerance`` is
    set by a device with several patterns: it wants to know the others' apart.
    """

    name: str
    entries: tuple[Entry, ...]
    own: Contribution
    ridge: float
    known: Merged | None
    tolerance: float | None


@dataclass(frozen=True)
class Incoming:
    """What came back: the others' sum if it is another one, and why an entry was not taken."""

    merged: Merged | None
    refusal: ElmgroveError | None


class Session:
    """Keeps a member in step with an exchange.

    ``rule`` chooses the devices to merge (all unless stated), ``budget`` says how much
    fetching may cost. Where the rule needs a sum or groups, the exchange's are taken.
    Contributions are fetched one by one with a budget, with any other rule, and by a device with
    patterns that takes everyone.
    ``save`` is called before anything new leaves the device: a device that forgot what it sent
    can't keep the upload guard.
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

    @property
    def detector(self) -> Detector:
        """The member's detector: ``observe`` rows with it."""
        return self.member.detector

    def sync(self) -> SyncReport:
        """Publishes what the guard lets, and takes in what the others learned."""
        report = self.apply(self.transfer(self.prepare()))
        if report.again:
            report = self.apply(self.transfer(self.prepare()))
        return report

    def leave(self) -> None:
        """Takes this device's part out of everybody's next model. A later sync joins again."""
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
        offer = offered(self.member, self._guarded, self._save)
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
        )

    def transfer(self, outgoing: Outgoing) -> Incoming:
        """Speaks with the exchange, and touches nothing of the member: may run in any thread."""
        self.exchange.charter.basis.require(outgoing.own.basis)
        refusal = None
        try:
            for entry in outgoing.entries:
                self.exchange.publish(entry)
        except (Unreachable, Unauthorized):
            raise
        except ElmgroveError as error:
            refusal = error
        # A sum tells no patterns apart.
        wants_parts = self._rule.needs == SUM and outgoing.tolerance is not None
        if self._budget is None and self._rule.needs != PARTS and not wants_parts:
            return Incoming(self._ready_sum(outgoing), refusal)
        chosen = self._chosen(outgoing)
        return Incoming(None if chosen == outgoing.known else chosen, refusal)

    def apply(self, incoming: Incoming) -> SyncReport:
        """Lets the member learn what came back."""
        member = self.member
        outranked = self._outrank(incoming.refusal)
        if incoming.merged is not None:
            member.rest_on(incoming.merged)
        return SyncReport.of(
            member,
            guarded=self._guarded,
            devices=0 if member.merged is None else member.merged.devices,
            updated=incoming.merged is not None,
            refusal=None if incoming.refusal is None else str(incoming.refusal),
            again=outranked,
        )

    def _outrank(self, refusal: ElmgroveError | None) -> bool:
        """Makes this device's next entry newer than the version that the exchange holds.

        Says whether that was why the exchange refused an entry.
        """
        self._departures = ()
        if not isinstance(refusal, Outdated):
            return False
        self.member.outrank(refusal.held_epoch)
        if refusal.shrunk:
            self._departures = (self.member.depart(),)
        return True

    def _ready_sum(self, outgoing: Outgoing) -> Merged | None:
        known = outgoing.known
        if known is not None and known.federation != self.exchange.charter.name:
            known = None  # its number means nothing here
        return self.exchange.merged(outgoing.name, known, self._rule.grouped_by)

    def _chosen(self, outgoing: Outgoing) -> Merged:
        costs = {
            listing.origin: listing.cost
            for listing in self.exchange.listings()
            if not listing.left and listing.origin != outgoing.name
        }
        wanted: Collection[str] = costs if self._budget is None else within(self._budget, costs)
        entries = self.exchange.fetch(wanted)
        others = [entry for entry in entries if isinstance(entry, Contribution)]
        chosen = self._rule.choose(outgoing.own, outgoing.ridge, others)
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


def offered(member: Member, guarded: bool, save: Callable[[Member], None]) -> Contribution | None:
    """Lets a member offer what it may give away, and saves it before anybody can have it."""
    before = member.published
    offer = member.offer(guarded=guarded)
    if member.published is not before:
        save(member)
    return offer


def connect(
    url: str,
    name: str,
    *,
    token: str | None = None,
    key: str | None = None,
    state: str | Path | None = None,
    ca: str | None = None,
    rule: Rule | None = None,
    budget: Cost | None = None,
    guarded: bool = True,
    **settings: Any,
) -> Session:
    """Opens a session with the exchange at ``url``, for the device of this name.

    ``url`` is a server's with the federation's name at its end (``https://host:8470/fans``) or a
    folder's path. The first time, ``token`` joins the federation there; the key it gives is kept
    beside the state (``fan-1.key`` beside ``fan-1.elm``) and used from then on, or comes as
    ``key``. With ``state``, the device goes on from that file and is saved to it before anything
    leaves it and when the session is closed; without, it lives in memory. ``settings`` are the
    detector's, for a new device: layer, scaling and ridge are the federation's.
    """
    path = None if state is None else Path(state)
    exchange = open_exchange(url, name, token=token, key=key, keyfile=keyfile(path), ca=ca)
    try:
        member = _member(path, name, exchange, settings)
        return Session(
            member,
            exchange,
            rule=rule,
            budget=budget,
            guarded=guarded,
            save=(lambda member: None) if path is None else (lambda member: save(path, member)),
        )
    except BaseException:  # interrupted as well: nobody else can close it
        exchange.close()
        raise


def keyfile(state: Path | None) -> Path | None:
    """Names the file in which a device keeps its key, beside its state."""
    if state is None:
        return None
    return state.with_name(f"{state.name if state.suffix == '.key' else state.stem}.key")


def open_exchange(
    url: str,
    name: str,
    *,
    token: str | None = None,
    key: str | None = None,
    keyfile: Path | None = None,
    ca: str | None = None,
) -> Exchange:
    """Opens the exchange behind a URL or a path. It is not spoken to before it is needed."""
    if not url.startswith(("http://", "https://")):
        return FolderExchange(Path(url.removeprefix("folder:")))
    # httpx takes a while to load, and a folder needs none of it.
    from elmgrove.exchange.http import HttpExchange

    return HttpExchange(url, name, key=key, token=token, keyfile=keyfile, ca=ca)


def _member(path: Path | None, name: str, exchange: Exchange, settings: dict[str, Any]) -> Member:
    if path is None or not path.exists():
        return exchange.charter.start(name, **settings)
    member = load(path, Member.from_bytes)
    if member.name != name:
        raise BadInput(f"{path} is the state of {member.name!r}, not of {name!r}")
    return member
