"""Standing groups: which patterns belong together while contributions come, change and go."""

from collections import Counter
from collections.abc import Set
from itertools import chain, count
from typing import Any

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import numbers_in
from elmgrove.algebra.similarity import apart, fit, kind_tolerance
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import Grouping, LocalPattern, coming_back, local_models
from elmgrove.federation.sums import BoundedSum
from elmgrove.federation.terms import UNBOUNDED, Terms, tellable


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
            numbers = count() if former is None else chain([former], count())
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
