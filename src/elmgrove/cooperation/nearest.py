"""Nearest: which standing group a new pattern goes to, by parameters or by evidence."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.similarity import Kind
from elmgrove.cooperation.groups import Local, parameters
from elmgrove.cooperation.running import RunningSum

Array = NDArray[Any]


class Nearest(Protocol):
    """Finds a pattern's group, and is told of all who join and leave one."""

    def group_for(self, model: Local) -> int | None:
        """The group that this belongs to; None if it is of none of those there are."""
        ...

    def joined(self, model: Local, group: int) -> None:
        """A pattern is in this group now."""
        ...

    def left(self, model: Local, group: int) -> None:
        """A pattern is in this group no more."""
        ...


class NearestCentre:
    """MLMG's Algorithm 2, user clustering: the nearest centre (L2 of β), which moves.

    A centre is the mean of its members' parameters, taken afresh, so that nothing is left of who
    is gone. The number of groups stays: a centre whose last member left remains where it was.
    """

    def __init__(self, ridge: float) -> None:
        self._ridge = ridge
        self._members = dict[int, dict[tuple[str, int], Array]]()
        self.centres = dict[int, Array]()

    def group_for(self, model: Local) -> int | None:
        """See ``Nearest``: None only where there are no centres yet."""
        # Lines 13 to 16: the distance to each centre, and the nearest.
        W = parameters(model.evidence, self._ridge)
        distances = {k: float(np.linalg.norm(W - C)) for k, C in self.centres.items()}
        return min(distances, key=lambda k: distances[k], default=None)

    def joined(self, model: Local, group: int) -> None:
        """See ``Nearest``."""
        members = self._members.setdefault(group, {})
        members[model.name] = parameters(model.evidence, self._ridge)
        self._move(group)

    def left(self, model: Local, group: int) -> None:
        """See ``Nearest``."""
        del self._members[group][model.name]
        self._move(group)

    def _move(self, group: int) -> None:
        # Line 17, in the order of the names: equal members give an equal centre to the last bit.
        members = self._members[group]
        if members:
            self.centres[group] = np.mean([members[name] for name in sorted(members)], axis=0)


class NearestKind:
    """The group of which one model explains both as well as two do, within a ``tolerance``.

    Of several the one that loses least. Needs no fixed number of groups: what is of no kind that
    is known is a new one. Takes a solution for each group.
    """

    def __init__(self, sums: Mapping[int, RunningSum], ridge: float, tolerance: float) -> None:
        self._sums = sums
        self._ridge = ridge
        self._tolerance = tolerance
        self._kinds = dict[int, Kind]()

    def group_for(self, model: Local) -> int | None:
        """See ``Nearest``."""
        kind = Kind(model.evidence, self._ridge)
        filled = [group for group, total in self._sums.items() if total.devices]
        losses = {group: self._kind(group).loss_with(kind) for group in filled}
        least = min(losses, key=lambda group: losses[group], default=None)
        return least if least is not None and losses[least] <= self._tolerance else None

    def joined(self, model: Local, group: int) -> None:
        """See ``Nearest``."""
        self._kinds.pop(group, None)

    def left(self, model: Local, group: int) -> None:
        """See ``Nearest``."""
        self._kinds.pop(group, None)

    def _kind(self, group: int) -> Kind:
        if group not in self._kinds:
            self._kinds[group] = Kind(self._sums[group].evidence(), self._ridge)
        return self._kinds[group]
