"""Standing groups: who is of one kind with whom while contributions come, change and go."""

import copy
from itertools import chain, count

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.groups import TOLERANCE, Grouping, Local, local_models
from elmgrove.cooperation.matching import returned
from elmgrove.cooperation.merged import Merged
from elmgrove.cooperation.nearest import Nearest, NearestCentre, NearestKind
from elmgrove.cooperation.running import RunningSum


class StandingGroups:
    """Groups that devices join, change and leave one by one, and the sum of each.

    Begins with a grouping (MLMG's Algorithm 1). Then each pattern of a contribution is assigned in
    turn (Algorithm 2): by ``parameters`` to the nearest centre, by ``evidence`` to the group with
    which it loses least, or to a new one. What a device contributed before leaves its place to
    what it contributes now; the same twice is once. Groups keep their numbers; that of a group
    which nobody is in any more may be given to a new one.

    The order in which devices come matters, as it does in the paper: group anew when much has
    changed. Sums are ``RunningSum``, so who leaves leaves no trace. Everything is held in memory.
    """

    def __init__(
        self, basis: Basis, ridge: float, grouping: Grouping, tolerance: float = TOLERANCE
    ) -> None:
        self._basis = basis
        self._distance = grouping.distance
        self._places = dict[tuple[str, int], tuple[Local, int]]()
        self._sums = dict[int, RunningSum]()
        self._nearest: Nearest = (
            NearestCentre(ridge)
            if grouping.distance == "parameters"
            else NearestKind(self._sums, ridge, tolerance)
        )
        for model, group in zip(grouping.models, grouping.labels, strict=True):
            self._join(model, group)

    @property
    def grouping(self) -> Grouping:
        """Who is where now, without reasons."""
        places = [self._places[name] for name in sorted(self._places)]
        models, labels = (tuple(side) for side in zip(*places, strict=True)) if places else ((), ())
        return Grouping(self._distance, models, labels)

    @property
    def nbytes(self) -> int:
        """What it holds at the most: patterns with their parameters, and sums in two parts."""
        units, outputs = self._basis.layer.units, self._basis.outputs
        return 16 * units * (units + outputs) * (len(self._places) + len(self._sums))

    def take(self, contribution: Contribution) -> tuple[int, ...]:
        """Gives each pattern with rows its group; says which."""
        self._basis.require(contribution.evidence.basis)
        models, held = local_models([contribution]), self._held(contribution.origin)
        if [model for model, _ in held] == models:
            return tuple(group for _, group in held)
        self.leave(contribution.origin)
        former = {model.pattern: group for model, group in held}
        return tuple(self._assign(model, former.get(model.pattern)) for model in models)

    def leave(self, origin: str) -> None:
        """Takes a device's patterns out; does nothing if there are none."""
        for model, group in self._held(origin):
            del self._places[model.name]
            self._sums[group].remove(model.evidence)
            self._changed(group)
            self._nearest.left(model, group)

    def returned(self, origin: str) -> tuple[Evidence, ...]:
        """What comes back to a device (Algorithm 3): the sum of each such group.

        All groups if it has as many patterns, else those that its patterns belong to; each without
        the device's own part, and those that nobody else is in left out. Nothing for a
        device that is in no group.
        """
        sums = list[Evidence]()
        for group in self._coming_back(origin):
            others = copy.copy(self._sums[group])
            for model, its in self._held(origin):
                if its == group:
                    others.remove(model.evidence)
            if others.devices:
                sums.append(others.evidence())
        return tuple(sums)

    def partners(self, origin: str) -> frozenset[str]:
        """The other devices that have a part in what comes back to this one."""
        back = self._coming_back(origin)
        found = {model.origin for model, group in self._places.values() if group in back}
        return frozenset(found - {origin})

    def merged(self, federation: str, revision: int, origin: str) -> Merged:
        """What comes back to a device, as an exchange hands it out."""
        groups = self.returned(origin)
        evidence = Evidence.sum(groups) if groups else Evidence.zero(self._basis)
        devices = len(self.partners(origin))
        return Merged(federation, revision, devices, evidence, groups, self._distance)

    def _coming_back(self, origin: str) -> list[int]:
        groups = returned(self.grouping).get(origin, ())
        return [group for group in dict.fromkeys(groups) if group is not None]

    def _held(self, origin: str) -> list[tuple[Local, int]]:
        names = sorted(name for name in self._places if name[0] == origin)
        return [self._places[name] for name in names]

    def _assign(self, model: Local, former: int | None) -> int:
        group = self._nearest.group_for(model)
        if group is None:
            used = {its for _, its in self._places.values()}
            numbers = count() if former is None else chain([former], count())
            group = next(number for number in numbers if number not in used)
        self._join(model, group)
        return group

    def _join(self, model: Local, group: int) -> None:
        self._places[model.name] = model, group
        self._sums.setdefault(group, RunningSum(self._basis)).add(model.evidence)
        self._changed(group)
        self._nearest.joined(model, group)

    def _changed(self, group: int) -> None:
        places = (self._places[name] for name in sorted(self._places))
        self._sums[group].freshen(model.evidence for model, its in places if its == group)
