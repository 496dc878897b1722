"""What a device gets of all others: sums by group, whose size does not grow with them."""

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from hashlib import sha256
from itertools import islice

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import lent_together
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, numbers_in, zero_evidence
from elmgrove.detector.model import MOST_PARTS
from elmgrove.errors import BadInput, SingularSystem
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import EVIDENCE, Grouping, LocalPattern
from elmgrove.federation.merged import GroupLabel, Merged
from elmgrove.federation.similarity import Profile, profile_of, unlike_all
from elmgrove.federation.standing import StandingGroups
from elmgrove.federation.sums import RunningSum
from elmgrove.federation.terms import UNBOUNDED, Terms, tellable

#: Groups that a device is told of at the most.
MOST_GROUPS = 500
# As many times more are kept: what only few know may be what many know soon.
_KEPT = 2
#: The bytes that a device is told of others, at the most.
MOST_BYTES = 8_000_000
# Bytes of a group beside its sums: names, and what a file says of each array.
_AROUND = 1500
#: What devices lend is added up in so many sums, each of some devices: of one sum nobody could tell
#: that a lender made its numbers up.
SHARES = 8
# Devices that are few: by their names, two of three would often be in the same of these sums, and
# nobody could tell which of them is the odd one.
_FEW = 2 * SHARES
# The number of no group.
_NOWHERE = -1
# Names that a label tells.
_NAMES = 3


class StandingOthers:
    """Keeps ready what each device is told of all others: groups that know, and what they lend.

    A contribution that comes, changes or leaves costs a comparison with each group, and two
    additions to what is lent, however many devices there are (``RunningSum``: exact, and a device
    that left leaves no trace). What a device is told costs as much as there are groups.

    Where all devices are unlike each other there would be as many groups as patterns: then those
    with most devices, as many as ``MOST_GROUPS`` and ``MOST_BYTES`` allow, are all that is told of,
    and of the others twice as many are kept, no more of one device than of another
    (``StandingGroups``). A pattern that can't be solved for is left out as well. A device that
    states no threshold lends, and is in no group: it knows nothing for sure yet. Everything is held
    in memory.

    In the sum of a group no device weighs more than the ``terms`` allow; what each lends counts as
    one row's worth, whatever it states.
    """

    def __init__(self, basis: Basis, ridge: float, terms: Terms = UNBOUNDED) -> None:
        self._basis = basis
        self._most = max(1, min(MOST_BYTES // (8 * numbers_in(basis) + _AROUND), MOST_GROUPS))
        self._groups = StandingGroups(
            basis, ridge, Grouping(EVIDENCE, (), ()), most_groups=_KEPT * self._most, terms=terms
        )
        self._held = dict[str, Contribution]()
        self._lent = [RunningSum(basis) for _ in range(SHARES)]
        # Those of them that were asked for and are still what they were.
        self._loan = dict[int, Evidence]()
        # What the sums of each device with one pattern tell of its sensors, and who is unlike all.
        self._profiles = dict[str, Profile]()
        self._unlike: dict[str, str] | None = None
        self._changes = 0

    def __len__(self) -> int:
        return len(self._held)

    def groups_of(self, origin: str) -> list[int]:
        """Lists the groups that a device's patterns are in; it may be asked while others join."""
        return self._groups.groups_of(origin)

    @property
    def grouped(self) -> dict[int, list[str]]:
        """The devices whose patterns are in each group, in the order of the names."""
        return {
            number: sorted({one.origin for one in self._groups.members(number)})
            for number in self._groups.numbers
        }

    @property
    def unlike(self) -> dict[str, str]:
        """The devices that are unlike all others, and by which sensors; asked while others join."""
        found, changes = self._unlike, self._changes
        if found is None:
            found = unlike_all(dict(self._profiles))
            # Who came meanwhile is not in it.
            self._unlike = found if changes == self._changes else None
        return found

    @property
    def nbytes(self) -> int:
        """What it holds at the most."""
        inputs = self._basis.inputs
        # Of a contribution its sums and what it lends; of a group its sum in a few parts, and what
        # is made of it for comparisons.
        matrices = 3 * self._patterns + 12 * (len(self._groups.numbers) + SHARES)
        return 8 * inputs * (min(self._basis.layer.units, inputs) + 3) * matrices

    @property
    def _patterns(self) -> int:
        return sum(len(held.parts) for held in self._held.values())

    def take(self, contribution: Contribution) -> None:
        """Puts a contribution in the place of the device's former one."""
        try:
            if contribution.threshold is None:
                self._groups.leave(contribution.origin)
            else:
                self._groups.take(contribution)
        except SingularSystem:
            self._groups.leave(contribution.origin)
        self._lend(contribution.origin, contribution)
        parts = contribution.parts
        self._profile(contribution.origin, profile_of(parts[0]) if len(parts) == 1 else None)

    def leave(self, origin: str) -> None:
        """Takes a device out; does nothing if it is not there."""
        self._groups.leave(origin)
        self._lend(origin, None)
        self._profile(origin, None)

    def merged(self, federation: str, revision: int, origin: str, least: int = 1) -> Merged:
        """Gives what a device is told of all others, without its own part in it.

        Sums are of at least so many of them (``least``): of fewer, nothing is told.
        """
        others = len(self._held.keys() - {origin})
        if others < least:
            return Merged(federation, revision, 0, (zero_evidence(self._basis),))
        told = list[tuple[GroupLabel, Evidence]]()
        for group in self._tellable(origin, least):
            members = [one for one in self._groups.members(group) if one.origin != origin]
            evidence = self._groups.sum_without(origin, group) if members else None
            if evidence is not None:
                told.append((self._label(members), evidence))
        # However the groups came about, in the same order.
        told.sort(key=lambda one: one[0].names)
        labels, parts = (tuple(side) for side in zip(*told, strict=True)) if told else ((), ())
        return Merged(
            federation,
            revision,
            others,
            parts or (zero_evidence(self._basis),),
            apart=bool(parts),
            labels=labels,
            loans=self._loans(origin, least),
        )

    def _tellable(self, origin: str, least: int) -> list[int]:
        devices = self._groups.devices(origin)
        wanted = _most_first(devices)[: self._most]
        if least == 1:
            return wanted
        placed = Counter(model.origin for model in self._groups.grouping.models)
        # Who belongs nowhere is left out as well.
        missing = {name for name, held in self._held.items() if placed[name] < _filled(held)}
        groups = devices | {_NOWHERE: missing - {origin}}
        return tellable(groups, wanted, least)

    def _label(self, members: list[LocalPattern]) -> GroupLabel:
        first = dict[str, LocalPattern]()
        for member in members:
            first.setdefault(member.origin, member)
        stated = [held for one in first if (held := self._held[one].threshold) is not None]
        names = map(self._name, islice(first.values(), _NAMES))
        # One that was stated: that between two may be beyond range.
        return GroupLabel(tuple(names), len(first), statistics.median_low(stated))

    def _name(self, member: LocalPattern) -> str:
        several = len(self._held[member.origin].parts) > 1
        return f"{member.origin} (pattern {member.pattern + 1})" if several else member.origin

    def _loans(self, origin: str, least: int) -> tuple[Moments, ...]:
        if len(self._held) <= _FEW:
            return _dealt([one for name, one in self._held.items() if name != origin], least)
        held = self._held.get(origin)
        own = None if held is None else held.lent
        for share, total in enumerate(self._lent):
            if share not in self._loan:
                self._loan[share] = total.evidence()
        sums = dict(self._loan)
        if own is not None:
            sums[_share_of(origin)] = self._lent[_share_of(origin)].evidence(own)
        own_share = None if own is None else _share_of(origin)
        counts = [self._lent[share].devices - (share == own_share) for share in range(SHARES)]
        found = (Evidence.sum(sums[share] for share in some) for some in _joined(counts, least))
        return tuple(loan for loan in found if isinstance(loan, Moments) and loan.count > 0.0)

    def _profile(self, origin: str, found: Profile | None) -> None:
        self._profiles.pop(origin, None)
        if found is not None:
            self._profiles[origin] = found
        self._changes += 1
        self._unlike = None

    def _lend(self, origin: str, new: Contribution | None) -> None:
        held = self._held.pop(origin, None)
        if new is not None:
            self._held[origin] = new
        share = _share_of(origin)
        self._loan.pop(share, None)
        before, now = (None if one is None else one.lent for one in (held, new))
        self._lent[share].change(before, now)


def _most_first(devices: Mapping[int, Set[str]]) -> list[int]:
    """Orders groups by how many devices are in them; of those with one, each device's first ones.

    So where there is not room for all, no device takes the room of another.
    """
    before, places = Counter[str](), dict[int, tuple[int, int, int]]()
    for group in sorted(devices):
        names = devices[group]
        earlier = max((before[name] for name in names), default=0) if len(names) == 1 else 0
        before.update(names if len(names) == 1 else ())
        places[group] = -len(names), earlier, group
    return sorted(places, key=lambda group: places[group])


def _filled(held: Contribution) -> int:
    return sum(part.count > 0.0 for part in held.parts)


def _dealt(lenders: list[Contribution], least: int) -> tuple[Moments, ...]:
    """What few devices lend: each by itself, or as many together as a sum has at least."""
    lending = [one.lent for one in sorted(lenders, key=lambda one: one.origin)]
    found = [lent for lent in lending if lent is not None and lent.count > 0.0]
    shares = min(SHARES, len(found) // least)
    sums = (lent_together(found[share::shares]) for share in range(shares))
    return tuple(lent for lent in sums if lent is not None)


def _joined(counts: Sequence[int], least: int) -> list[list[int]]:
    """Puts shares together until each has at least so many devices."""
    joined, some = list[list[int]](), list[int]()
    for share in (share for share, count in enumerate(counts) if count):
        some.append(share)
        if sum(counts[one] for one in some) >= least:
            joined.append(some)
            some = []
    if joined:
        joined[-1] += some
    return joined


def _share_of(origin: str) -> int:
    """The sum in which a device lends: always the same one, and spread evenly over names."""
    return sha256(origin.encode()).digest()[0] % SHARES


# The most bytes of a layer that a device would make for an exchange: 5,000 units at 5,000 inputs.
_LARGEST = 200_000_000


def content_limit(charter: Charter, patterns: int = MOST_PARTS) -> int:
    """Gives the most bytes that an honest contribution has: numbers, basis, and some to spare.

    The sums that come back to a device have no more: there is one of them, or one for each of its
    patterns.
    """
    # Moments may have a centre, of as many numbers as an input.
    centre = charter.basis.inputs if charter.basis.score == "distance" else 0
    numbers = 8 * (numbers_in(charter.basis) + centre)
    # The basis is JSON inside JSON: quotation marks and what is not ASCII take more room there.
    basis = 2 * len(json.dumps(json.dumps(charter.basis.fields)))
    return patterns * (numbers + 512) + basis + 8192


def others_limit(charter: Charter) -> int:
    """Gives the most bytes of what a device is told of all others at once.

    One group is told however large it is, and so is what devices lend.
    """
    # A quarter to spare, for long names and for centres.
    return MOST_BYTES * 5 // 4 + content_limit(charter, 1 + SHARES)


def require_makeable(charter: Charter) -> None:
    """Raises ``BadInput`` for a layer that would take all of a device's memory."""
    basis = charter.basis
    size = max(content_limit(charter, 1), 8 * basis.inputs * basis.layer.units)
    if size > _LARGEST:
        raise BadInput(f"its layer would have {size:,} bytes, more than {_LARGEST:,}")
