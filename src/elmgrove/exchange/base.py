"""What every exchange offers: a place where devices leave entries and find those of others."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol

from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import zero_evidence
from elmgrove.algebra.similarity import fit, groups
from elmgrove.federation.charter import Charter
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import Contribution, Entry, entry_from_bytes
from elmgrove.federation.groups import LocalPattern, group, local_models
from elmgrove.federation.ledger import Ledger, Version
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from elmgrove.federation.others import StandingOthers
from elmgrove.federation.report import Report
from elmgrove.federation.standing import StandingGroups
from elmgrove.federation.sums import bounded

#: A line that is slower than so many bytes a second is as good as none.
SLOWEST = 10_000


@dataclass(frozen=True)
class Tls:
    """Files for TLS (PEM): whom to trust, and what to present to a server that asks for it.

    ``ca`` is the certificate that signed the server's, if that is nobody this machine trusts
    anyway; ``certificate`` and ``private_key`` are the device's own, maybe in one file.
    """

    ca: str | None = None
    certificate: str | None = None
    private_key: str | None = None


#: Trust those whom this machine trusts, and present nothing.
TLS = Tls()


@dataclass(frozen=True)
class Listing:
    """One entry that an exchange holds, and how many bytes it has."""

    origin: str
    epoch: int
    left: bool
    size: int


class Exchange(Protocol):
    """Moves entries between devices; holds one entry of each, the newest.

    Whatever it does is done or not done: ``publish`` has returned means that the others can find
    it. Errors: ``Refused`` (and its ``Outdated``) for what will not do, ``Unauthorized``, and
    ``Unreachable`` for what may work later.
    """

    #: Whether groups are kept ready, so that telling a device of all others at once costs little.
    standing: bool

    @property
    def somebody_looks(self) -> bool:
        """Whether somebody may look how devices are doing: if not, nobody needs a report."""
        ...

    @property
    def charter(self) -> Charter:
        """What the devices of this federation have in common; asked for once."""
        ...

    def forget_charter(self) -> None:
        """Lets the charter be asked for again: it may have been somebody else's."""
        ...

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one. The same twice is once.

        MUST refuse with ``Outdated`` what ``federation.follows`` does not let follow.
        """
        ...

    def listings(self) -> list[Listing]:
        """Lists what is held of every origin, departures as well, in the order of the names."""
        ...

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """Gives the entries of these origins; those that are not there (any more) are left out."""
        ...

    def merged(
        self, without: str, known: Merged | None, grouped: str | None = None
    ) -> Merged | None:
        """Adds up all devices but one; None if ``known`` is still what it would be.

        ``grouped`` by a distance (of ``federation.DISTANCES``): instead, the sums of the groups
        that come back to this device, without its own part (``StandingGroups.returned``). MUST be
        empty for a device that has published nothing, or left.
        """
        ...

    def others(self, without: str, known: Merged | None) -> Merged | None:
        """Tells a device of all others at once; None if ``known`` is still what it would be.

        What they know, in groups that can be asked, and what they lend (``StandingOthers``),
        without the device's own part. ``Refused`` where there are too many for that.
        """
        ...

    def groups(self) -> dict[str, Any] | None:
        """Gives the groups that the exchange keeps; None if it keeps none.

        The fields are those of ``Grouping.fields``, with ``since``: the revision that made them.
        """
        ...

    def report(self, report: Report) -> tuple[Command, ...]:
        """Tells those who look after the devices how one is doing; gives what they ask of it.

        MUST be empty where nobody looks. A command is given until its outcome was told.
        """
        ...

    def rotate_key(self) -> bool:
        """Changes this device's key for a new one; False where devices have none.

        MUST have put the new key where it is kept before it is used: the old one is valid until
        then, and worthless from then on.
        """
        ...

    def close(self) -> None:
        """Lets go of connections."""
        ...


@dataclass(frozen=True)
class SyncReport:
    """What a sync did, for people and logs.

    ``sent`` is how many rows are in what others may know of this device, None if there is nothing
    yet; ``missing`` how many more it must learn before it sends something new; ``updated`` whether
    what it uses of others changed; ``again`` whether the next sync should follow at once;
    ``blocked_reason`` why nothing new is sent, where learning on may not be enough.
    """

    sent: int | None
    missing: float
    devices: int
    updated: bool
    refusal: str | None
    again: bool = False
    blocked_reason: str | None = None

    @classmethod
    def of(
        cls,
        member: Member,
        *,
        guarded: bool,
        devices: int,
        updated: bool,
        refusal: str | None,
        again: bool = False,
    ) -> "SyncReport":
        """Tells what a member has sent and uses now."""
        sent = None if member.published is None else member.published.learned
        missing = member.rows_missing(guarded=guarded)
        blocked_reason = member.blocked_reason(guarded=guarded) if missing else None
        return cls(sent, missing, devices, updated, refusal, again, blocked_reason)

    def then(self, after: "SyncReport") -> "SyncReport":
        """Tells what this sync and the one that followed it at once did together."""
        return replace(after, updated=self.updated or after.updated)

    def __str__(self) -> str:
        mine = "nothing sent yet" if self.sent is None else f"sums of {self.sent:,} rows sent"
        if self.blocked_reason:
            mine += f" (nothing new: {self.blocked_reason})"
        elif self.sent is None and self.missing:
            mine += f" ({self.missing:,.0f} more row{'s' * (self.missing != 1)} needed)"
        others = f"uses {self.devices:,} other device{'s' * (self.devices != 1)}"
        reason = f"; refused: {self.refusal}" if self.refusal else ""
        return f"{mine}, {others}{' (updated)' * self.updated}{reason}"


def version_of(blob: bytes) -> Version:
    """Reads of an entry what ``follows`` needs to know."""
    entry = entry_from_bytes(blob)
    count = entry.evidence.count if isinstance(entry, Contribution) else None
    return Version(entry.epoch, count, hashlib.sha256(blob).hexdigest())


def listing_of(entry: Entry, size: int) -> Listing:
    """Shows an entry as a listing has it."""
    left = not isinstance(entry, Contribution)
    return Listing(entry.origin, entry.epoch, left, size)


def merged_of(charter: Charter, revision: int, entries: Collection[Entry]) -> Merged:
    """Adds up entries, in the order of their names, each as it counts by the terms."""
    ledger = Ledger(bounded(charter.terms, Ledger(entries)))
    total = ledger.total()
    evidence = zero_evidence(charter.basis) if total is None else total
    return Merged(charter.name, revision, len(ledger), (evidence,))


def returned_of(
    charter: Charter, revision: int, entries: Collection[Entry], origin: str, distance: str
) -> Merged:
    """Groups all entries, and gives what comes back to one device."""
    grouping = group(Ledger(entries), charter.ridge, distance)
    standing = StandingGroups(charter.basis, charter.ridge, grouping, terms=charter.terms)
    return standing.merged(charter.name, revision, origin)


def others_of(charter: Charter, revision: int, entries: Collection[Entry], origin: str) -> Merged:
    """Groups all entries in the order of their names, and tells one device of all others."""
    others = StandingOthers(charter.basis, charter.ridge, charter.terms)
    for contribution in Ledger(entries):
        others.take(contribution)
    return others.merged(charter.name, revision, origin)


def grouped_of(charter: Charter, entries: Collection[Entry], tolerance: float) -> Merged:
    """Adds up entries by group: what one model explains as well as several is one group."""
    ledger = Ledger(entries)
    models = local_models(ledger)
    found = groups([fit(model.evidence, charter.ridge) for model in models], tolerance)
    sums = tuple(_summed(charter, [models[index] for index in one]) for one in found)
    return Merged(
        charter.name,
        0,
        len(ledger),
        sums or (zero_evidence(charter.basis),),
        apart=bool(sums),
    )


def _summed(charter: Charter, models: Collection[LocalPattern]) -> Evidence:
    parts = dict[str, tuple[Evidence, ...]]()
    for model in models:
        parts[model.origin] = (*parts.get(model.origin, ()), model.evidence)
    held = [Contribution(origin, 0, some) for origin, some in parts.items()]
    counted = [part for one in bounded(charter.terms, held) for part in one.parts]
    # What is alone stays what it is, with all that is known of it already.
    return counted[0] if len(counted) == 1 else Evidence.sum(counted)


class BareExchange(ABC):
    """An exchange without a server of its own: sums and groups are made when a device asks.

    Nobody looks on there, and devices have no keys unless it says so.
    """

    #: Groups are made when somebody asks.
    standing = False

    @property
    def somebody_looks(self) -> bool:
        """Says False: there is no page that shows devices."""
        return False

    @property
    @abstractmethod
    def charter(self) -> Charter:
        """The federation's charter."""

    @abstractmethod
    def _revision(self, without: str | None) -> int:
        """Names the state of all entries, or of all but one device's: another one, another name."""

    @abstractmethod
    def _entries_but(self, without: str | None) -> list[Entry]:
        """Gives all entries, or all but one device's, as of the last revision."""

    def merged(
        self, without: str, known: Merged | None, grouped: str | None = None
    ) -> Merged | None:
        """Adds up all entries but one device's; None if ``known`` is still what it would be."""
        # In groups, one's own change matters: it may lead to another group.
        left_out = without if grouped is None else None
        revision = self._revision(left_out)
        if known is not None and (known.revision, known.grouped) == (revision, grouped):
            return None
        entries = self._entries_but(left_out)
        if grouped is not None:
            return returned_of(self.charter, revision, entries, without, grouped)
        return merged_of(self.charter, revision, entries)

    def others(self, without: str, known: Merged | None) -> Merged | None:
        """Tells a device of all others at once; None if ``known`` is still what it would be."""
        revision = self._revision(None)
        if known is not None and known.revision == revision:
            return None
        return others_of(self.charter, revision, self._entries_but(None), without)

    def groups(self) -> dict[str, Any] | None:
        """Gives None: groups are made when a device asks for its sums, and not kept."""
        return None

    def report(self, report: Report) -> tuple[Command, ...]:
        """Gives nothing: nobody looks here."""
        return ()

    def rotate_key(self) -> bool:
        """Says False: nobody needs a key here."""
        return False
