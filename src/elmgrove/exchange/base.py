"""What every exchange offers: a place where devices leave entries and find those of others."""

import hashlib
import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from elmgrove.federation.aggregation import Pool, StandingOthers
from elmgrove.federation.charter import Charter
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import Contribution, Entry, Version, entry_from_bytes
from elmgrove.federation.merged import Merged, Own
from elmgrove.federation.report import Report
from elmgrove.federation.selection import EVERYONE, Everyone, Rule

#: A line that is slower than so many bytes a second is as good as none.
SLOWEST = 10_000


def is_loopback(host: str) -> bool:
    """Say whether what is sent to a host stays on this machine.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.7")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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


class Exchange(Protocol):
    """Moves entries between devices; holds one entry of each, the newest.

    Whatever it does is done or not done: ``publish`` has returned means that the others can find
    it. Errors: ``Refused`` (and its ``Outdated``) for what will not do, ``Unauthorized``, and
    ``Unreachable`` for what may work later.
    """

    @property
    def charter(self) -> Charter:
        """What the devices of this federation have in common; asked for once."""
        ...

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one. The same twice is once.

        MUST refuse with ``Outdated`` what ``federation.follows`` does not let follow.
        """
        ...

    def others(
        self, device: str, rule: Rule = EVERYONE, known: Merged | None = None
    ) -> Merged | None:
        """Tells a device what those that the rule chooses know, in groups, and what they lend.

        Without the device's own part. None if ``known`` is still what it would be. Without
        ``known`` it says what is held of the device itself, too. ``Refused`` where there are too
        many for that.
        """
        ...

    def merged(
        self,
        device: str,
        rule: Rule = EVERYONE,
        known: Merged | None = None,
        *,
        patterns: bool = False,
    ) -> Merged | None:
        """Adds up those that the rule chooses; else as ``others``.

        By the rule ``group`` these are the sums of the groups that come back to the device; for a
        device with ``patterns`` those of all groups, as far as one model can explain them.
        """
        ...

    def report(self, report: Report) -> tuple[Command, ...]:
        """Tells those who look after the devices how one is doing; gives what they ask of it.

        MUST be empty where nobody looks. A command is given until its result was told.
        """
        ...

    def close(self) -> None:
        """Lets go of connections, and of the charter: the next use begins anew."""
        ...


@dataclass(frozen=True)
class SyncReport:
    """What a sync did, for people and logs.

    ``sent`` is how many rows are in what others may know of this device, None if there is nothing
    yet; ``missing`` how many more it must learn before it sends something new; ``updated`` whether
    what it uses of others changed, and ``others`` says whom; ``again`` whether the next sync should
    follow at once; ``blocked_reason`` why nothing new is sent, where learning on may not be enough.
    """

    sent: int | None
    missing: float
    devices: int
    updated: bool
    refusal: str | None
    again: bool = False
    blocked_reason: str | None = None
    others: str = ""

    def then(self, after: "SyncReport") -> "SyncReport":
        """Tells what this sync and the one that followed it at once did together."""
        return replace(after, updated=self.updated or after.updated)

    def __str__(self) -> str:
        mine = "nothing sent yet" if self.sent is None else f"sums of {self.sent:,} rows sent"
        if self.blocked_reason:
            mine += f" (nothing new: {self.blocked_reason})"
        elif self.sent is None and self.missing:
            mine += f" ({self.missing:,.0f} more row{'s' * (self.missing != 1)} needed)"
        many = f"{self.devices:,} other device{'s' * (self.devices != 1)}"
        others = f"uses {self.others or many}"
        reason = f"; refused: {self.refusal}" if self.refusal else ""
        return f"{mine}, {others}{' (updated)' * self.updated}{reason}"


class Held(NamedTuple):
    """An entry, and what ``follows`` needs to know of it."""

    entry: Entry
    version: Version

    @classmethod
    def of(cls, blob: bytes) -> "Held":
        """Reads an entry's bytes; ``BadFile`` for anything else."""
        entry = entry_from_bytes(blob)
        count = entry.evidence.count if isinstance(entry, Contribution) else None
        return cls(entry, Version(entry.epoch, count, hashlib.sha256(blob).hexdigest()))


class EntriesExchange(ABC):
    """An exchange that shows all entries to each device, which chooses and adds up by itself.

    Nobody looks on there, unless it says so.
    """

    @property
    @abstractmethod
    def charter(self) -> Charter:
        """The federation's charter."""

    @abstractmethod
    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one; see ``Exchange``."""

    @abstractmethod
    def held(self) -> dict[str, Held]:
        """Gives what is held of each device now."""

    def entries(self) -> list[Entry]:
        """Lists what is held of every device, departures as well, in the order of the names."""
        return [held.entry for _, held in sorted(self.held().items())]

    def others(
        self, device: str, rule: Rule = EVERYONE, known: Merged | None = None
    ) -> Merged | None:
        """Tells a device what those that the rule chooses know; see ``Exchange``."""

        def answer(contributions: list[Contribution], revision: int) -> Merged:
            others = StandingOthers(self.charter)
            for one in contributions:
                others.take(one)
            return others.others(revision, device, rule)

        return self._unless_known(device, "others", rule, known, answer)

    def merged(
        self,
        device: str,
        rule: Rule = EVERYONE,
        known: Merged | None = None,
        *,
        patterns: bool = False,
    ) -> Merged | None:
        """Adds up those that the rule chooses; see ``Exchange``."""

        def answer(contributions: list[Contribution], revision: int) -> Merged:
            pool = Pool(self.charter, contributions)
            return pool.merged(revision, device, rule, patterns=patterns)

        return self._unless_known(device, f"merged {patterns}", rule, known, answer)

    def _unless_known(
        self,
        device: str,
        what: str,
        rule: Rule,
        known: Merged | None,
        answer: Callable[[list[Contribution], int], Merged],
    ) -> Merged | None:
        held = self.held()
        own, names = held.get(device), sorted(held)
        # To a sum over all others one's own change is none.
        alone = isinstance(rule, Everyone) and what != "others"
        stamps = [(name, held[name].version) for name in names if name != device or not alone]
        stamp = hashlib.sha256(repr((what, str(rule), stamps)).encode()).digest()
        revision = int.from_bytes(stamp[:7], "big")
        if known is not None and known.revision == revision:
            return None
        entries = (held[name].entry for name in names)
        found = answer([one for one in entries if isinstance(one, Contribution)], revision)
        version = None if own is None else Own(own.version.epoch, own.version.count is None)
        return replace(found, own=version)

    def report(self, report: Report) -> tuple[Command, ...]:
        """Gives nothing: nobody looks here."""
        return ()

    def close(self) -> None:  # noqa: B027
        """Does nothing: there is no connection."""
