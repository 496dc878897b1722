"""What a device gets of all others: sums over those a rule chooses, or by group."""

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Any

from elmgrove.algebra.distance import lent_together
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, numbers_in, zero_evidence
from elmgrove.algebra.similarity import fit, groups, usual_tolerance
from elmgrove.detector.model import MOST_PARTS
from elmgrove.errors import BadInput, Refused, SingularSystem
from elmgrove.federation.charter import Charter
from elmgrove.federation.comparison import Profile, profile_of, unlike_all
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import LocalPattern, StandingGroups, group, local_models
from elmgrove.federation.merged import MOST_NAMES, GroupLabel, Merged
from elmgrove.federation.policy import tellable
from elmgrove.federation.selection import (
    EVERYONE,
    Choice,
    Judgement,
    Quality,
    Rule,
    SameGroup,
    in_groups,
    judge,
)
from elmgrove.federation.sums import RunningSum, weight_in, weighted

#: Patterns, or devices, that are compared with each other at the most.
MOST_PATTERNS = 500


class Pool:
    """Keeps the newest contribution of each device, and adds up those that a rule chooses.

    The groups that come back to devices (MLMG) are made when somebody asks for them, and stand from
    then on while devices come, change and leave. Everything is held in memory.
    """

    def __init__(self, charter: Charter, contributions: Iterable[Contribution] = ()) -> None:
        self._charter = charter
        self.held = {one.origin: one for one in contributions}
        self._returning: StandingGroups | None = None
        self._changes = 0
        self._judged: tuple[int, Judgement] | None = None
        #: Whether a comparison of all devices may be older than what they contributed last.
        self.patient = False

    @property
    def nbytes(self) -> int:
        """What the groups that come back hold at the most."""
        return 0 if self._returning is None else self._returning.nbytes

    def replace(self, origin: str, new: Contribution | None) -> Contribution | None:
        """Puts a contribution in the place of the device's former one, which it gives; or none."""
        self._changes += 1
        former = self.held.pop(origin, None)
        if new is not None:
            self.held[origin] = new
        if self._returning is not None:
            try:
                if new is None:
                    self._returning.leave(origin)
                else:
                    self._returning.take(new)
            except SingularSystem:
                self._returning.leave(origin)
        return former

    def merged(
        self,
        revision: int,
        origin: str,
        rule: Rule = EVERYONE,
        least: int = 1,
        *,
        patterns: bool = False,
    ) -> Merged:
        """Adds up those that the rule chooses; by group where it says so, or for ``patterns``."""
        choice = self.choose(origin, rule, least)
        chosen = [self.held[name] for name in sorted(choice.names)]
        if isinstance(rule, SameGroup):
            parts = self._returned.returned(origin, least) if chosen else ()
            return self.answer(revision, rule, choice, parts)
        if patterns:
            groups = _distinguished(self._charter, chosen)
            sizes = {place: names for place, (names, _) in enumerate(groups)}
            told = tellable(sizes, sizes, least) if least > 1 else list(sizes)
            return self.answer(revision, rule, choice, tuple(groups[place][1] for place in told))
        counted = [weighted(self._charter.terms, one.evidence) for one in chosen]
        total = (Evidence.sum(counted),) if counted else ()
        return self.answer(revision, rule, choice, total, apart=False)

    def choose(self, origin: str, rule: Rule, least: int = 1) -> Choice:
        """Chooses whom a device learns from: at least so many, and as many are left out, or none.

        What a few are left out with would be the sum over all without that over the others.
        """
        held = [self.held[name] for name in sorted(self.held)]
        if isinstance(rule, SameGroup):
            choice = in_groups(origin, self._returned, held, least)
        elif isinstance(rule, Quality):
            choice = rule.choose_by(origin, self._judgement(held))
            # A table of before may have some that left.
            choice = replace(choice, names=choice.names & self.held.keys())
        else:
            choice = rule.choose(origin, held, self._charter.ridge)
        rest = self.held.keys() - choice.names - {origin}
        if len(choice.names) < least or 0 < len(rest) < least:
            few = dict.fromkeys(sorted(choice.names), f"sums are of {least} devices or more here")
            return Choice(frozenset(), choice.left_out | few)
        return choice

    def answer(
        self,
        revision: int,
        rule: Rule,
        choice: Choice,
        parts: tuple[Evidence, ...],
        *,
        apart: bool = True,
        **more: Any,
    ) -> Merged:
        """Makes the answer of what was found of those that were chosen."""
        return Merged(
            self._charter.name,
            revision,
            len(choice.names),
            parts or (zero_evidence(self._charter.basis),),
            str(rule),
            apart and bool(parts),
            used=tuple(sorted(choice.names)[:MOST_NAMES]),
            left_out=tuple(sorted(choice.left_out.items())[:MOST_NAMES]),
            **more,
        )

    @property
    def _returned(self) -> StandingGroups:
        """The groups that come back to devices (MLMG), of all patterns there are."""
        if self._returning is None:
            charter, held = self._charter, list(self.held.values())
            if sum(len(one.parts) for one in held) > MOST_PATTERNS:
                raise Refused(f"more than {MOST_PATTERNS} patterns are not grouped here")
            grouping = group(held, charter.ridge)
            self._returning = StandingGroups(
                charter.basis, charter.ridge, grouping, terms=charter.terms
            )
        return self._returning

    def _judgement(self, held: Sequence[Contribution]) -> Judgement:
        """All models on all evidence; to who is patient, maybe as of some changes before."""
        if self._judged is None or not (self._judged[0] == self._changes or self.patient):
            if len(held) > MOST_PATTERNS:
                raise Refused(f"more than {MOST_PATTERNS} devices are not compared here")
            self._judged = self._changes, judge(held, self._charter.ridge)
        return self._judged[1]


def _distinguished(
    charter: Charter, contributions: Sequence[Contribution]
) -> list[tuple[set[str], Evidence]]:
    """Adds up by group: what one model explains as well as several is one group."""
    models = local_models(contributions)
    if len(models) > MOST_PATTERNS:
        raise Refused(f"more than {MOST_PATTERNS} patterns are not told apart here")
    fits = [fit(model.evidence, charter.ridge) for model in models]
    found = groups(fits, usual_tolerance(charter.basis)) if models else []
    told = list[tuple[set[str], Evidence]]()
    for members in found:
        parts = dict[str, list[Evidence]]()
        for place in members:
            parts.setdefault(models[place].origin, []).append(models[place].evidence)
        counted = list[Evidence]()
        for some in parts.values():
            weight = weight_in(charter.terms, Evidence.sum(some) if len(some) > 1 else some[0])
            counted += some if weight == 1.0 else [one.weighted(weight) for one in some]
        # What is alone stays what it is, with all that is known of it already.
        total = counted[0] if len(counted) == 1 else Evidence.sum(counted)
        told.append((set(parts), total))
    return told


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
        for number in self._tellable(choice.names, least):
            members = [one for one in self._groups.members(number) if one.origin in choice.names]
            if members:
                names = {one.origin for one in members}
                told.append((self._label(members), self._groups.sum_of(number, names)))
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
    for number in sorted(devices):
        names = devices[number]
        earlier = max((before[name] for name in names), default=0) if len(names) == 1 else 0
        before.update(names if len(names) == 1 else ())
        places[number] = -len(names), earlier, number
    return sorted(places, key=lambda number: places[number])


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
