"""A session: one device and its exchange, in step with each other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from elmgrove.algebra.basis import Basis
from elmgrove.detector.detector import Detector
from elmgrove.errors import (
    BadInput,
    ElmgroveError,
    Mismatch,
    Outdated,
    Refused,
    Unauthorized,
    Unreachable,
)
from elmgrove.exchange.base import TLS, EntriesExchange, Exchange, SyncReport, Tls
from elmgrove.exchange.broker_address import is_at_broker
from elmgrove.exchange.folder import FolderExchange
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import Contribution, Entry, Version, shrinks
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged, Own
from elmgrove.federation.report import Report
from elmgrove.federation.selection import EVERYONE, Rule
from elmgrove.storage.disk import load, save

if TYPE_CHECKING:
    from elmgrove.exchange.http import HttpExchange


@dataclass(frozen=True)
class Outgoing:
    """What a device hands over for a sync; nothing in it changes any more.

    ``patterns`` says that it has several, ``one_model`` that others and this device are to become
    one. ``asks`` says that the device wants to know what is held of itself: a state that was lost
    or restored may not know. ``report`` says how the device is doing; None where it does not tell.
    """

    name: str
    entries: tuple[Entry, ...]
    basis: Basis
    known: Merged | None
    patterns: bool
    one_model: bool
    asks: bool
    report: Report | None = None


@dataclass(frozen=True)
class Incoming:
    """What came back: the others' sums, and why an entry was not taken.

    ``merged`` is None where it is what was known before. ``own`` is what is held of the device
    itself, if it ``asked``. ``commands`` are asked of it; None where the report was not taken, and
    is to be told again.
    """

    merged: Merged | None
    refusal: ElmgroveError | None
    asked: bool = False
    own: Own | None = None
    commands: tuple[Command, ...] | None = None


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
        self, refusal: ElmgroveError | None = None, own: Own | None = None, *, asked: bool
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
        self._waits, self.held_back = self.asks and self._member.has_unsent, None
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


class Session:
    """Keeps a member in step with an exchange.

    ``rule`` chooses the devices to use (all unless stated): the exchange does so, which has what
    each contributed, and answers with sums over them.
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
        self._rule = rule or EVERYONE
        self._guarded = guarded
        self._save = save
        self._upload = PendingUpload(member, guarded, save)

    @property
    def detector(self) -> Detector:
        """The member's detector: ``observe`` rows with it."""
        return self.member.detector

    def leave(self) -> None:
        """Takes this device's part out of everybody's next model. A later sync joins again."""
        if self._upload.asks:
            self._upload.answered(own=self._own(), asked=True)
        departure = self.member.depart()
        self._save(self.member)
        try:
            self.exchange.publish(departure)
        except Outdated as outdated:
            self.member.outrank(outdated.held_epoch)
            self.exchange.publish(self.member.depart())
        self._save(self.member)

    def sync(self) -> SyncReport:
        """Publishes what the guard lets, and takes in what the others learned."""
        report = self.apply(self.transfer(self.prepare()))
        # It was outdated, asks, and has to leave first.
        for _ in range(3):
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
        for _ in range(3):
            if report.again:
                after = self.apply(await asyncio.to_thread(self.transfer, self.prepare()))
                report = report.then(after)
        return report

    # The steps of a sync, for programs that transfer in a thread of its own

    def prepare(self) -> Outgoing:
        """Gathers what to send now; called in the device's own thread."""
        entries = self._upload.entries()
        return Outgoing(
            self.member.name,
            entries,
            self.detector.basis,
            self.member.merged,
            self.detector.patterns is not None,
            self.member.merges,
            self._upload.outdated,
        )

    def transfer(self, outgoing: Outgoing) -> Incoming:
        """Speaks with the exchange, and touches nothing of the member: may run in any thread."""
        try:
            self.exchange.charter.basis.require(outgoing.basis)
        except Mismatch:
            # It may have been somebody else's.
            self.exchange.close()
            raise
        refusal, merged = None, None
        try:
            for entry in outgoing.entries:
                self.exchange.publish(entry)
        except (Unreachable, Unauthorized):
            raise
        except ElmgroveError as error:
            refusal = error
        try:
            merged = self._answer(outgoing)
        except Refused as error:
            refusal = refusal or error
        own = None
        if outgoing.asks:
            own = self._own() if merged is None else merged.own
        if merged is not None:
            same = outgoing.known is not None and merged.answers_as(outgoing.known)
            merged = None if same else replace(merged, own=None)
        return Incoming(merged, refusal, outgoing.asks, own)

    def apply(self, incoming: Incoming) -> SyncReport:
        """Lets the member learn what came back."""
        member = self.member
        again = self._upload.answered(incoming.refusal, incoming.own, asked=incoming.asked)
        if incoming.merged is not None:
            member.set_prior(incoming.merged)
        told = (self._upload.held_back, incoming.refusal)
        missing = member.rows_missing(guarded=self._guarded)
        return SyncReport(
            sent=None if member.published is None else member.published.learned,
            missing=missing,
            devices=len(member.ledger) if member.merged is None else member.merged.devices,
            updated=incoming.merged is not None,
            refusal="; ".join(str(one) for one in told if one is not None) or None,
            again=again,
            blocked_reason=member.blocked_reason(guarded=self._guarded) if missing else None,
            others="" if member.merged is None else str(member.merged),
        )

    def _answer(self, outgoing: Outgoing) -> Merged | None:
        known = outgoing.known
        # The number of another federation, or of another question, means nothing here.
        asked = self.exchange.charter.name, str(self._rule)
        if outgoing.asks or known is None or (known.federation, known.rule) != asked:
            known = None
        if outgoing.one_model:
            patterns = outgoing.patterns
            return self.exchange.merged(outgoing.name, self._rule, known, patterns=patterns)
        return self.exchange.others(outgoing.name, self._rule, known)

    def _own(self) -> Own | None:
        """What the exchange holds of this device, if anything."""
        found = self.exchange.merged(self.member.name, EVERYONE)
        return None if found is None else found.own

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


def connect(
    url: str,
    name: str,
    *,
    token: str | None = None,
    key: str | None = None,
    password: str | None = None,
    state: str | Path | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    private_key: str | None = None,
    rule: Rule | None = None,
    guarded: bool = True,
    **settings: Any,
) -> Session:
    """Opens a session with the exchange at ``url``, for the device of this name.

    ``url`` is a server's with the federation's name at its end (``https://host:8470/fans``), a
    folder's path, or a broker's with the federation's topic (``mqtts://fan-1@host/elmgrove/fans``,
    with the user's ``password``). The first time, ``token`` joins the federation there; the key it
    gives is kept beside the state (``fan-1.key`` beside ``fan-1.elm``) and used from then on, or
    comes as ``key``. With ``state``, the device goes on from that file and is saved to it before
    anything leaves it and when the session is closed; without, it lives in memory. ``ca``,
    ``certificate`` and ``private_key`` are those of ``Tls``. ``settings`` are the detector's, for a
    new device: layer, scaling and ridge are the federation's.
    """
    path = None if state is None else Path(state)
    tls = Tls(ca, certificate, private_key)
    exchange = open_exchange(
        url,
        name,
        token=token,
        key=key,
        keyfile=keyfile(path),
        tls=tls,
        password=password,
    )
    try:
        member = _member(path, name, exchange, settings)
        return Session(
            member,
            exchange,
            rule=rule,
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
    tls: Tls = TLS,
    user: str = "",
    password: str | None = None,
) -> "HttpExchange | EntriesExchange":
    """Opens the exchange behind a URL or a path. It is not spoken to before it is needed.

    ``user`` and ``password`` are those at a broker, where the URL's user comes first.
    """
    if is_at_broker(url):
        # Paho is an extra, which most devices do without.
        from elmgrove.exchange.mqtt import MqttExchange

        return MqttExchange(url, name, user=user, password=password, tls=tls)
    if not url.startswith(("http://", "https://")):
        return FolderExchange(Path(url.removeprefix("folder:")))
    # httpx takes a while to load, and a folder needs none of it.
    from elmgrove.exchange.http import HttpExchange

    return HttpExchange(url, name, token=token, key=key, keyfile=keyfile, tls=tls)


def _member(path: Path | None, name: str, exchange: Exchange, settings: dict[str, Any]) -> Member:
    if path is None or not path.exists():
        return exchange.charter.start(name, **settings)
    member = load(path, Member.from_bytes)
    if member.name != name:
        raise BadInput(f"{path} is the state of {member.name!r}, not of {name!r}")
    return member
