"""Centres of groups that move while contributions come, change and go."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.groups import Grouping, Local, local_models, parameters
from elmgrove.errors import BadInput

Array = NDArray[Any]


class Centres:
    """MLMG's Algorithm 2: a new local model goes to the nearest centre (L2 of β), which moves.

    A centre is the mean of its members' parameters. What a device contributed before leaves its
    place to what it contributes now, so the same twice is once. The number of groups stays: a
    centre whose last member left remains where it was. The order in which devices come matters,
    as it does in the paper; group anew when much has changed.
    """

    def __init__(self, grouping: Grouping, ridge: float) -> None:
        if not grouping.count:
            raise BadInput("there are no groups yet; group at least one pattern with rows first")
        self._ridge = ridge
        self._models = dict[tuple[str, int], tuple[Local, int]]()
        self._last: list[Array] = []
        for group in range(grouping.count):
            members = grouping.members(group)
            for model in members:
                self._models[model.origin, model.pattern] = model, group
            self._last.append(self._mean(group))

    @property
    def centres(self) -> Array:
        """One row for each group."""
        return np.array(self._last)

    @property
    def grouping(self) -> Grouping:
        """Who is where now. Groups that are empty now are not counted."""
        known = [self._models[name] for name in sorted(self._models)]
        used = sorted({group for _, group in known})
        labels = tuple(used.index(group) for _, group in known)
        return Grouping("parameters", tuple(model for model, _ in known), labels)

    def take(self, contribution: Contribution) -> tuple[int, ...]:
        """Gives each pattern with rows its group; says which."""
        models = local_models([contribution])
        if self._models and models:
            held, _ = next(iter(self._models.values()))
            held.evidence.basis.require(models[0].evidence.basis)
        self.leave(contribution.origin)
        return tuple(self._assign(model) for model in models)

    def leave(self, origin: str) -> None:
        """Takes a device's models out; does nothing if there are none."""
        for name in [name for name in self._models if name[0] == origin]:
            _, group = self._models.pop(name)
            self._last[group] = self._mean(group)

    def _assign(self, model: Local) -> int:
        # Lines 13 to 17: the distance to each centre, the nearest, and its update.
        W = parameters(model.evidence, self._ridge)
        nearest = int(np.linalg.norm(self.centres - W, axis=1).argmin())
        self._models[model.origin, model.pattern] = model, nearest
        self._last[nearest] = self._mean(nearest)
        return nearest

    def _mean(self, group: int) -> Array:
        """Taken afresh, so that nothing is left of who is gone; its last place if nobody is."""
        members = [model for model, its in self._models.values() if its == group]
        if not members:
            return self._last[group]
        betas = [parameters(model.evidence, self._ridge) for model in members]
        mean: Array = np.mean(betas, axis=0)
        return mean
