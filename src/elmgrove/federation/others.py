"""What a device gets of all others: sums by group, whose size does not grow with them."""

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from hashlib import sha256
from itertools import islice

from elmgrove.algebra.distance import lent_together
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, numbers_in
from elmgrove.detector.model import MOST_PARTS
from elmgrove.errors import BadInput, SingularSystem
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import LocalPattern, StandingGroups
from elmgrove.federation.merged import GroupLabel, Merged
from elmgrove.federation.pool import Pool
from elmgrove.federation.selection import EVERYONE, Rule
from elmgrove.federation.similarity import Profile, profile_of, unlike_all
from elmgrove.federation.sums import RunningSum
from elmgrove.federation.terms import tellable

#: Groups that a device is told of at the most.
MOST_GROUPS = 500
#: The bytes that a device is told of others, at the most.
MOST_BYTES = 8_000_000
#: What devices lend is added up in so many sums, each of some devices: of one sum nobody could tell
#: that a lender made its numbers up.
SHARES = 8


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

    def __init__(self, charter: Charter) -> None:
        basis = self._basis = charter.basis
        # Beside its sums a group has names, and what a file says of each array.
        size = 8 * numbers_in(basis) + 1500
        self._most = max(1, min(MOST_BYTES // size, MOST_GROUPS))
        # As many times more are kept: what only few know may be what many know soon.
        self._groups = StandingGroups(
            basis, charter.ridge, most_groups=2 * self._most, terms=charter.terms
        )
        self.pool = Pool(charter)
        self._lent = [RunningSum(basis) for _ in range(SHARES)]
        # Those of them that were asked for and are still what they were.
        self._loan = dict[int, Evidence]()
        # What the sums of each device with one pattern tell of its sensors, and who is unlike all.
        self._profiles = dict[str, Profile]()
        self._unlike: dict[str, str] | None = None
        self._changes = 0

    def __len__(self) -> int:
        return len(self.pool.held)

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
        patterns = sum(len(held.parts) for held in self.pool.held.values())
        matrices = 3 * patterns + 12 * (len(self._groups.numbers) + SHARES)
        each = 8 * inputs * (min(self._basis.layer.units, inputs) + 3)
        return each * matrices + self.pool.nbytes

    def take(self, contribution: Contribution) -> None:
        """Puts a contribution in the place of the device's former one."""
        origin = contribution.origin
        try:
            if contribution.threshold is None:
                self._groups.leave(origin)
            else:
                self._groups.take(contribution)
        except SingularSystem:
            self._groups.leave(origin)
        self._replace(origin, contribution)

    def leave(self, origin: str) -> None:
        """Takes a device out; does nothing if it is not there."""
        self._groups.leave(origin)
        self._replace(origin, None)

    def others(self, revision: int, origin: str, rule: Rule = EVERYONE, least: int = 1) -> Merged:
        """Gives what a device is told of those that the rule chooses, without its own part in it.

        Sums are of at least so many of them (``least``): of fewer, nothing is told.
        """
        choice = self.pool.choose(origin, rule, least)
        told = list[tuple[GroupLabel, Evidence]]()
        for group in self._tellable(choice.names, least):
            members = [one for one in self._groups.members(group) if one.origin in choice.names]
            if members:
                names = {one.origin for one in members}
                told.append((self._label(members), self._groups.sum_of(group, names)))
        # However the groups came about, in the same order.
        told.sort(key=lambda one: one[0].names)
        labels, parts = (tuple(side) for side in zip(*told, strict=True)) if told else ((), ())
        loans = self._loans(choice.names, least)
        return self.pool.answer(revision, rule, choice, parts, labels=labels, loans=loans)

    def _tellable(self, names: Set[str], least: int) -> list[int]:
        devices = {group: found & names for group, found in self._groups.devices("").items()}
        wanted = _most_first(devices)[: self._most]
        if least == 1:
            return wanted
        placed = Counter(model.origin for model in self._groups.grouping.models)
        # Who belongs nowhere is left out as well: by the number of no group.
        missing = {name for name in names if placed[name] < _filled(self.pool.held[name])}
        return tellable(devices | {-1: missing}, wanted, least)

    def _label(self, members: list[LocalPattern]) -> GroupLabel:
        first = dict[str, LocalPattern]()
        for member in members:
            first.setdefault(member.origin, member)
        stated = [held for one in first if (held := self.pool.held[one].threshold) is not None]
        names = map(self._name, islice(first.values(), 3))
        # One that was stated: that between two may be beyond range.
        return GroupLabel(tuple(names), len(first), statistics.median_low(stated))

    def _name(self, member: LocalPattern) -> str:
        several = len(self.pool.held[member.origin].parts) > 1
        return f"{member.origin} (pattern {member.pattern + 1})" if several else member.origin

    def _loans(self, names: Set[str], least: int) -> tuple[Moments, ...]:
        # Of few devices, two of three would often be in the same of these sums by their names, and
        # nobody could tell which of them is the odd one.
        if len(names) < 2 * SHARES:
            return _dealt([self.pool.held[name] for name in names], least)
        left_out = dict[int, list[Moments]]()
        for name in self.pool.held.keys() - names:
            if (lent := self.pool.held[name].lent) is not None:
                left_out.setdefault(_share_of(name), []).append(lent)
        sums, counts = dict[int, Evidence](), list[int]()
        for share, total in enumerate(self._lent):
            if share not in self._loan:
                self._loan[share] = total.evidence()
            less = left_out.get(share)
            sums[share] = total.evidence(*less) if less else self._loan[share]
            counts.append(total.devices - len(less or ()))
        found = (Evidence.sum(sums[share] for share in some) for some in _joined(counts, least))
        return tuple(loan for loan in found if isinstance(loan, Moments) and loan.count > 0.0)

    def _replace(self, origin: str, new: Contribution | None) -> None:
        held = self.pool.replace(origin, new)
        share = _share_of(origin)
        self._loan.pop(share, None)
        before, now = (None if one is None else one.lent for one in (held, new))
        self._lent[share].change(before, now)
        self._profiles.pop(origin, None)
        if new is not None and len(new.parts) == 1:
            found = profile_of(new.parts[0])
            if found is not None:
                self._profiles[origin] = found
        self._changes += 1
        self._unlike = None


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
    # 5,000 units at 5,000 inputs.
    if size > (most := 200_000_000):
        raise BadInput(f"its layer would have {size:,} bytes, more than {most:,}")
