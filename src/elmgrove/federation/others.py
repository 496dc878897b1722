"""Others at once: what a device is told of all others, whose size does not grow with them."""

import statistics
from hashlib import sha256
from itertools import islice

from elmgrove.algebra import Basis, Evidence, Moments, numbers_in, zero_evidence
from elmgrove.errors import SingularSystem
from elmgrove.federation.entries import Contribution
from elmgrove.federation.groups import EVIDENCE, Grouping, LocalPattern
from elmgrove.federation.merged import GroupLabel, Merged
from elmgrove.federation.running_sum import RunningSum
from elmgrove.federation.standing import StandingGroups

#: Groups that are kept at the most, and bytes that a device is told. A pattern like none of them
#: then belongs nowhere: nobody could be told of it.
MOST_GROUPS, MOST_BYTES = 500, 8_000_000
# Bytes of a group beside its sums: names, and what a file says of each array.
_AROUND = 1500
#: What devices lend is added up in so many sums, each of some devices: of one sum nobody could tell
#: that a lender made its numbers up.
SHARES = 8
# Names that a label tells.
_NAMES = 3


class StandingOthers:
    """Keeps ready what each device is told of all others: groups that know, and what they lend.

    A contribution that comes, changes or leaves costs a comparison with each group, and two
    additions to what is lent, however many devices there are (``RunningSum``: exact, and a device
    that left leaves no trace). What a device is told costs as much as there are groups.

    Where all devices are unlike each other there would be as many groups as patterns: then those
    that came first, as many as ``MOST_GROUPS`` and ``MOST_BYTES`` allow, are all that is told of.
    A pattern that can't be solved for is left out as well. Everything is held in memory.
    """

    def __init__(self, basis: Basis, ridge: float) -> None:
        self._basis = basis
        most = min(MOST_BYTES // (8 * numbers_in(basis) + _AROUND), MOST_GROUPS)
        self._groups = StandingGroups(
            basis, ridge, Grouping(EVIDENCE, (), ()), most_groups=max(most, 1)
        )
        self._held = dict[str, Contribution]()
        self._lent = [RunningSum(basis) for _ in range(SHARES)]
        # Those of them that were asked for and are still what they were.
        self._loan = dict[int, Evidence]()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """What it holds at the most."""
        inputs = self._basis.inputs
        # Of a contribution its sums and what it lends; of a group its sum in two parts, and what is
        # made of it for comparisons.
        matrices = 3 * self._patterns + 12 * (len(self._groups.numbers) + SHARES)
        return 8 * inputs * (min(self._basis.layer.units, inputs) + 3) * matrices

    @property
    def _patterns(self) -> int:
        return sum(len(held.parts) for held in self._held.values())

    def take(self, contribution: Contribution) -> None:
        """Puts a contribution in the place of the device's former one."""
        try:
            self._groups.take(contribution)
        except SingularSystem:
            self._groups.leave(contribution.origin)
        self._lend(contribution.origin, contribution)

    def leave(self, origin: str) -> None:
        """Takes a device out; does nothing if it is not there."""
        self._groups.leave(origin)
        self._lend(origin, None)

    def merged(self, federation: str, revision: int, origin: str) -> Merged:
        """Gives what a device is told of all others, without its own part in it."""
        told = list[tuple[GroupLabel, Evidence]]()
        for group in self._groups.numbers:
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
            len(self._held.keys() - {origin}),
            parts or (zero_evidence(self._basis),),
            apart=bool(parts),
            labels=labels,
            loans=self._loans(origin),
        )

    def _label(self, members: list[LocalPattern]) -> GroupLabel:
        first = dict[str, LocalPattern]()
        for member in members:
            first.setdefault(member.origin, member)
        stated = [held for one in first if (held := self._held[one].threshold) is not None]
        names = map(self._name, islice(first.values(), _NAMES))
        # One that was stated: that between two may be beyond range.
        threshold = statistics.median_low(stated) if stated else None
        return GroupLabel(tuple(names), len(first), threshold)

    def _name(self, member: LocalPattern) -> str:
        several = len(self._held[member.origin].parts) > 1
        return f"{member.origin} (pattern {member.pattern + 1})" if several else member.origin

    def _loans(self, origin: str) -> tuple[Moments, ...]:
        held = self._held.get(origin)
        own = None if held is None else held.lent
        for share, total in enumerate(self._lent):
            if share not in self._loan:
                self._loan[share] = total.evidence()
        sums = dict(self._loan)
        if own is not None:
            sums[_share_of(origin)] = self._lent[_share_of(origin)].evidence(own)
        found = (sums[share] for share in range(SHARES))
        return tuple(loan for loan in found if isinstance(loan, Moments) and loan.count > 0.0)

    def _lend(self, origin: str, new: Contribution | None) -> None:
        held = self._held.pop(origin, None)
        if new is not None:
            self._held[origin] = new
        share = _share_of(origin)
        self._loan.pop(share, None)
        before, now = (None if one is None else one.lent for one in (held, new))
        self._lent[share].change(before, now)
        if self._lent[share].worn:
            same = (one for name, one in sorted(self._held.items()) if _share_of(name) == share)
            self._lent[share].freshen(one.lent for one in same if one.lent is not None)


def _share_of(origin: str) -> int:
    """The sum in which a device lends: always the same one, and spread evenly over names."""
    return sha256(origin.encode()).digest()[0] % SHARES
