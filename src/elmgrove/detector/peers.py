"""Peers: what is normal for other devices, and whether a row would have been normal there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.rows import Array
from elmgrove.detector.gaussian import SingleModel, single_model, typical_score
from elmgrove.errors import BadInput

#: Another's threshold counts at most as this many times one's own: a device that states a large one
#: would be named with everything.
TRUSTED = 3.0


@dataclass(frozen=True)
class Other:
    """What is normal for another device: its sums, by pattern.

    ``threshold`` is where anomalous begins there, as it says itself.
    """

    name: str
    parts: tuple[Evidence, ...]
    threshold: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < math.inf:
            raise BadInput(f"the threshold of {self.name!r} can't be {self.threshold!r}")


class Peers:
    """Tells where else a row would have been normal, by what others know.

    Each of them, a device or a group of devices that are alike, is asked by models of its own sums
    and by its own threshold: what all know together would cover what lies between them as well. It
    costs nothing before a row is anomalous; the first such row makes the models, and each costs one
    score by each of them.
    """

    def __init__(self, basis: Basis, others: Sequence[Other], **settings: Any) -> None:
        for other in others:
            for part in other.parts:
                basis.require(part.basis)
                part.require_admissible(f"the evidence of {other.name!r}")
        self.others = tuple(other for other in others if any(p.count > 0.0 for p in other.parts))
        self._basis = basis
        self._settings = settings
        self._made: list[tuple[list[SingleModel], Array]] | None = None

    def __len__(self) -> int:
        return len(self.others)

    def known(self, x: Array, limit: float) -> tuple[str, ...]:
        """Names those for whom an input would have been normal; ``limit`` is one's own threshold.

        A device with several patterns is named with that of the input.
        """
        if self._made is None:
            self._made = [self._models(other) for other in self.others]
        names = list[str]()
        for other, (models, weights) in zip(self.others, self._made, strict=True):
            scores = weights * [model.scores(x[np.newaxis])[0] for model in models]
            best = int(scores.argmin())
            if scores[best] <= min(other.threshold, TRUSTED * limit):
                several = len(models) > 1
                names.append(f"{other.name} (pattern {best + 1})" if several else other.name)
        return tuple(names)

    def _models(self, other: Other) -> tuple[list[SingleModel], Array]:
        """The models of another, and how much their scores count: beside what is typical."""
        models = [single_model(self._basis, **self._settings) for _ in other.parts]
        for model, part in zip(models, other.parts, strict=True):
            model.use_prior(part)
        typical = np.array([typical_score(part, models[0].ridge) for part in other.parts])
        usable = np.isfinite(typical) & (typical > 0.0)
        typical[~usable] = typical[usable].max(initial=0.0) or 1.0
        return models, typical.mean() / typical
