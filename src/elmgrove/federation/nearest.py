"""The group that a pattern belongs to: the nearest by parameters, or the one that loses least."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from elmgrove.algebra import Array, apart, fit
from elmgrove.federation.bounded_sum import BoundedSum
from elmgrove.federation.groups import LocalPattern, parameters


class Nearest(Protocol):
    """Finds a pattern's group, and is told of every pattern that joins or leaves one."""

    def group_for(self, model: LocalPattern) -> int | None:
        """Finds the group that a pattern belongs to; None if it belongs to none of them."""
        ...

    def joined(self, model: LocalPattern, group: int) -> None:
        """Takes note that a pattern is in this group now."""
        ...

    def left(self, model: LocalPattern, group: int) -> None:
        """Takes note that a pattern is in this group no more."""
        ...


class NearestCentre:
    """MLMG's Algorithm 2, user clustering: the nearest centre (L2 of β), which moves.

    A centre is the mean of its members' parameters, computed each time, so that nothing is left of
    a member that is gone. The number of groups stays: a centre whose last member left remains
    where it was.
    """

    def __init__(self, ridge: float) -> None:
        self._ridge = ridge
        self._members = dict[int, dict[tuple[str, int], Array]]()
        self.centres = dict[int, Array]()

    def group_for(self, model: LocalPattern) -> int | None:
        """Finds the group with the nearest centre; None only where there are no centres yet."""
        # Lines 13 to 16: the distance to each centre, and the nearest.
        W = parameters(model.evidence, self._ridge)
        distances = {k: float(np.linalg.norm(W - C)) for k, C in self.centres.items()}
        return min(distances, key=lambda k: distances[k], default=None)

    def joined(self, model: LocalPattern, group: int) -> None:
        """Moves a group's centre to include a pattern."""
        members = self._members.setdefault(group, {})
        members[model.name] = parameters(model.evidence, self._ridge)
        self._move(group)

    def left(self, model: LocalPattern, group: int) -> None:
        """Moves a group's centre to exclude a pattern."""
        del self._members[group][model.name]
        self._move(group)

    def _move(self, group: int) -> None:
        # Line 17, in the order of the names: equal members give an equal centre to the last bit.
        members = self._members[group]
        if members:
            self.centres[group] = np.mean([members[name] for name in sorted(members)], axis=0)


class NearestFit:
    """The group of which one model explains both as well as two do, within a ``tolerance``.

    By distance: whose rows lie about as near to it, and its rows to them, as they do to themselves,
    but for chance. Of several the one that loses least. Needs no fixed number of groups: what is
    like none of them is a new one. Takes a solution for each group.
    """

    def __init__(self, sums: Mapping[int, BoundedSum], ridge: float, tolerance: float) -> None:
        self._sums = sums
        self._ridge = ridge
        self._tolerance = tolerance
        self._fits = dict[int, Any]()

    def group_for(self, model: LocalPattern) -> int | None:
        """Finds the group that loses least by taking a pattern in; None if all lose too much."""
        fitted = fit(model.evidence, self._ridge)
        filled = [group for group, total in self._sums.items() if total.devices]
        losses = {group: apart(self._fit(group), fitted) for group in filled}
        least = min(losses, key=lambda group: losses[group], default=None)
        return least if least is not None and losses[least] <= self._tolerance else None

    def joined(self, model: LocalPattern, group: int) -> None:
        """Forgets the group's model: its sum is another one now."""
        self._fits.pop(group, None)

    def left(self, model: LocalPattern, group: int) -> None:
        """Forgets the group's model: its sum is another one now."""
        self._fits.pop(group, None)

    def _fit(self, group: int) -> Any:
        if group not in self._fits:
            self._fits[group] = fit(self._sums[group].evidence(), self._ridge)
        return self._fits[group]
