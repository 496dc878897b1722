"""Groups: which patterns of which devices one model explains as well (MLMG, multi-global)."""

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from itertools import count as numbers_from
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import numbers_in
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import Step, apart, fit, join, kind_tolerance
from elmgrove.errors import BadInput, require_whole
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.policy import UNBOUNDED, Terms, tellable
from elmgrove.federation.sums import BoundedSum


class LocalPattern(NamedTuple):
    """A local model: the pattern of a device, by its place in the contribution."""

    origin: str
    pattern: int
    evidence: Evidence

    @property
    def name(self) -> tuple[str, int]:
        """What tells it from all others."""
        return self.origin, self.pattern


@dataclass(frozen=True)
class Grouping:
    """The group of each local model, and why.

    ``labels`` has the group of each of ``models``; new groups are numbered in the order of their
    first member. ``steps`` are the joins (by places in ``models``) with the loss of each, and
    ``refused`` is the next one, which was not made any more. Standing groups have no reasons.
    """

    models: tuple[LocalPattern, ...] = ()
    labels: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()
    refused: Step | None = None

    @property
    def numbers(self) -> list[int]:
        """The groups that there are; of standing ones, some numbers may be unused."""
        return sorted(set(self.labels))

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.numbers)

    def members(self, group: int) -> tuple[LocalPattern, ...]:
        """Lists the local models of a group."""
        pairs = zip(self.models, self.labels, strict=True)
        return tuple(model for model, label in pairs if label == group)


def local_models(contributions: Iterable[Contribution]) -> list[LocalPattern]:
    """Lists all patterns with rows, in the order of the devices' names."""
    ordered = sorted(contributions, key=lambda contribution: contribution.origin)
    models = [
        LocalPattern(held.origin, pattern, evidence)
        for held in ordered
        for pattern, evidence in enumerate(held.parts)
        if evidence.count > 0
    ]
    for model in models[1:]:
        models[0].evidence.basis.require(model.evidence.basis)
    return models


def group(
    contributions: Iterable[Contribution],
    ridge: float,
    count: int | None = None,
    *,
    tolerance: float | None = None,
) -> Grouping:
    """Groups of what one model explains as well as several, up to ``tolerance`` for each join.

    With a ``count``, joins until so many are left, whatever is lost. By loss it says what belongs
    together where patterns have several times more rows than hidden units; with few rows they stay
    apart. By distance ``tolerance`` is beyond what chance explains of so many rows, and is on the
    mean over all inputs: a column that is moved by three of its own deviations makes 1 of 4, and
    0.1 of 38. A column that never moved on one device and does on the other sets them far apart.
    """
    models = local_models(contributions)
    if tolerance is None:
        tolerance = kind_tolerance(models[0].evidence.basis) if models else 0.0
    limit, least = (tolerance, 1)
    if count is not None:
        require_whole("groups", count, 1)
        if count > len(models):
            raise BadInput(f"{len(models)} patterns with rows can't make {count} groups")
        limit, least = np.inf, count
    found = join([fit(model.evidence, ridge) for model in models], limit, least)
    labels = np.empty(len(models), np.intp)
    for label, members in enumerate(found.groups):
        labels[members] = label
    return Grouping(tuple(models), in_order(labels), tuple(found.steps), found.refused)


def in_order(labels: Array) -> tuple[int, ...]:
    """Numbers groups in the order in which they first occur."""
    names: dict[int, int] = {}
    return tuple(names.setdefault(int(label), len(names)) for label in labels)


def returned(grouping: Grouping) -> dict[str, tuple[int | None, ...]]:
    """Says which group's model replaces each model of each client (back matching).

    A client with at least as many local models as there are groups gets all of them, the k-th in
    the place of its k-th model, and keeps what it has beyond that (None). Another gets, for
    each of its models, the one that this model belongs to. Where the rows of a device are of few
    groups only, the first case replaces what it knew by what others know: that is the paper's.
    """
    own: dict[str, list[int]] = {}
    for model, label in zip(grouping.models, grouping.labels, strict=True):
        own.setdefault(model.origin, []).append(label)
    return {origin: coming_back(labels, grouping.numbers) for origin, labels in own.items()}


def coming_back(groups: Sequence[int], numbers: Sequence[int]) -> tuple[int | None, ...]:
    """Says which of all groups' models replace those of a client whose models are in ``groups``."""
    if len(groups) >= len(numbers):
        return (*numbers, *[None] * (len(groups) - len(numbers)))
    return tuple(groups)


class StandingGroups:
    """Groups that devices join, change and leave one by one, and the sum of each.

    Begins with a grouping (MLMG's Algorithm 1). Then each pattern of a contribution goes to the
    group with which it loses least, or to a new one (Algorithm 2). What a device contributed before
    leaves its place to what it contributes now; the same twice is once. Groups keep their numbers;
    that of a group which nobody is in any more may be given to a new one.

    The order in which devices come matters, as it does in the paper. Sums are ``BoundedSum``, so a
    device that left leaves no trace, and none weighs more in a group than the ``terms`` allow. All
    is held in memory.
    With ``most_groups`` no more are made. A pattern that is like none of them then takes the place
    of a group that one device is alone in, if that device is alone in more groups than this one;
    else it belongs nowhere. So no device fills the groups, and what several know is never lost.
    """

    def __init__(
        self,
        basis: Basis,
        ridge: float,
        grouping: Grouping | None = None,
        most_groups: int | None = None,
        terms: Terms = UNBOUNDED,
        tolerance: float | None = None,
    ) -> None:
        self._basis = basis
        self._ridge = ridge
        self._tolerance = kind_tolerance(basis) if tolerance is None else tolerance
        self._most_groups = most_groups
        self._terms = terms
        # By device, then by the pattern's place in its contribution.
        self._places = dict[str, dict[int, tuple[LocalPattern, int]]]()
        # The patterns of each group.
        self._members = dict[int, dict[tuple[str, int], LocalPattern]]()
        self._sums = dict[int, BoundedSum]()
        # What is made of them when it is asked for, as long as they are what they were.
        self._evidence = dict[int, Evidence]()
        self._fits = dict[int, Any]()
        begun = Grouping() if grouping is None else grouping
        for model, group in zip(begun.models, begun.labels, strict=True):
            self._join(model, group)

    @property
    def grouping(self) -> Grouping:
        """The group of each pattern now, without reasons."""
        places = [place for origin in sorted(self._places) for place in self._held(origin)]
        models, labels = (tuple(side) for side in zip(*places, strict=True)) if places else ((), ())
        return Grouping(models, labels)

    @property
    def numbers(self) -> list[int]:
        """The groups that somebody is in."""
        return sorted(group for group, members in self._members.items() if members)

    def groups_of(self, origin: str) -> list[int]:
        """Lists the groups that a device's patterns are in; it may be asked while others join."""
        return sorted({group for _, group in list(self._places.get(origin, {}).values())})

    def members(self, group: int) -> list[LocalPattern]:
        """Lists the patterns of a group, in the order of the names."""
        members = self._members[group]
        return [members[name] for name in sorted(members)]

    @property
    def nbytes(self) -> int:
        """What it holds at the most: patterns with their parameters, and sums."""
        # At most one more of each input: where the centre lies.
        numbers = 2 * numbers_in(self._basis) + self._basis.inputs
        patterns = sum(map(len, self._places.values()))
        return 16 * numbers * patterns + 2 * sum(total.nbytes for total in self._sums.values())

    def take(self, contribution: Contribution) -> tuple[int, ...]:
        """Gives each pattern with rows its group; says which, but of those that belong nowhere."""
        self._basis.require(contribution.basis)
        models, held = local_models([contribution]), self._held(contribution.origin)
        if [model for model, _ in held] == models:
            return tuple(group for _, group in held)
        self.leave(contribution.origin)
        former = {model.pattern: group for model, group in held}
        groups = [self._assign(model, former.get(model.pattern)) for model in models]
        return tuple(group for group in groups if group is not None)

    def leave(self, origin: str) -> None:
        """Takes a device's patterns out; does nothing if there are none."""
        for model, group in self._held(origin):
            self._drop(model, group)

    def devices(self, without: str) -> dict[int, set[str]]:
        """Names the devices of each group, but for one."""
        return {
            group: {name for name, _ in self._members[group]} - {without} for group in self.numbers
        }

    def returned(self, origin: str, least: int = 1) -> tuple[Evidence, ...]:
        """Gives what comes back to a device (Algorithm 3): the sum of each such group.

        All groups if it has as many patterns, else those that its patterns belong to; each without
        the device's own part, and those left out that fewer than ``least`` others are in. Nothing
        for a device that is in no group.
        """
        devices = self.devices(origin)
        return tuple(
            self.sum_of(group, devices[group])
            for group in self._coming_back(origin, least)
            if devices[group]
        )

    def partners(self, origin: str, least: int = 1) -> frozenset[str]:
        """Names the other devices that have a part in what comes back to this one."""
        back, devices = self._coming_back(origin, least), self.devices(origin)
        return frozenset(name for group in back for name in devices[group])

    def sum_of(self, group: int, names: Set[str]) -> Evidence:
        """Adds up what some devices, of which there is one at least, have in a group."""
        total = self._sums[group]
        left_out = [name for name in total.names if name not in names]
        if len(left_out) > len(names):
            some = BoundedSum(self._basis, self._terms)
            for name in sorted(names):
                some.change(name, None, self._part_in(name, group))
            return some.evidence()
        if left_out:
            parts = (self._part_in(name, group) for name in left_out)
            return total.evidence(*(part for part in parts if part is not None))
        if group not in self._evidence:
            self._evidence[group] = total.evidence()
        return self._evidence[group]

    def _coming_back(self, origin: str, least: int) -> list[int]:
        groups = coming_back([group for _, group in self._held(origin)], self.numbers)
        back = [group for group in dict.fromkeys(groups) if group is not None]
        return back if least == 1 else tellable(self.devices(origin), back, least)

    def _held(self, origin: str) -> list[tuple[LocalPattern, int]]:
        places = self._places.get(origin, {})
        return [places[pattern] for pattern in sorted(places)]

    def _assign(self, model: LocalPattern, former: int | None) -> int | None:
        group = self._nearest(model)
        if group is None:
            full = self._most_groups is not None and len(self.numbers) >= self._most_groups
            if full and not self._make_room(model.origin):
                return None
            used = set(self.numbers)
            numbers = numbers_from() if former is None else chain([former], numbers_from())
            group = next(number for number in numbers if number not in used)
            # The groups stay in the order in which they were made.
            self._members.pop(group, None)
        self._join(model, group)
        return group

    def _nearest(self, model: LocalPattern) -> int | None:
        """Finds the group that loses least by taking a pattern in; None if all lose too much.

        By distance: whose rows lie about as near to it, and its rows to them, as they do to
        themselves, but for chance.
        """
        fitted, losses = fit(model.evidence, self._ridge), dict[int, float]()
        for group, total in self._sums.items():
            if not total.devices:
                continue
            if group not in self._fits:
                self._fits[group] = fit(total.evidence(), self._ridge)
            losses[group] = apart(self._fits[group], fitted)
        least = min(losses, key=lambda group: losses[group], default=None)
        alike = least is not None and losses[least] <= self._tolerance
        return least if alike else None

    def _make_room(self, origin: str) -> bool:
        """Takes out the oldest group of the device that is alone in most; says whether one went.

        None goes for a device that is alone in as many groups itself.
        """
        devices = {group: {name for name, _ in found} for group, found in self._members.items()}
        alone = {group: next(iter(names)) for group, names in devices.items() if len(names) == 1}
        counts = Counter(alone.values())
        most = max(counts, key=lambda name: counts[name], default=origin)
        if counts[most] <= counts[origin]:
            return False
        oldest = next(group for group, name in alone.items() if name == most)
        for model in self.members(oldest):
            self._drop(model, oldest)
        return True

    def _join(self, model: LocalPattern, group: int) -> None:
        before = self._part_in(model.origin, group)
        self._places.setdefault(model.origin, {})[model.pattern] = model, group
        self._members.setdefault(group, {})[model.name] = model
        self._change(model.origin, group, before)

    def _drop(self, model: LocalPattern, group: int) -> None:
        before = self._part_in(model.origin, group)
        del self._members[group][model.name]
        self._change(model.origin, group, before)
        places = self._places[model.origin]
        del places[model.pattern]
        if not places:
            del self._places[model.origin]

    def _part_in(self, origin: str, group: int) -> Evidence | None:
        """A device's patterns in a group, as one: however many they are, it is one device."""
        members = self._members.get(group, {})
        parts = [model.evidence for model, _ in self._held(origin) if model.name in members]
        return Evidence.sum(parts) if len(parts) > 1 else next(iter(parts), None)

    def _change(self, origin: str, group: int, before: Evidence | None) -> None:
        total = self._sums.setdefault(group, BoundedSum(self._basis, self._terms))
        total.change(origin, before, self._part_in(origin, group))
        self._evidence.pop(group, None)
        self._fits.pop(group, None)
