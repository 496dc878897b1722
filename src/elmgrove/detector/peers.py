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

    Each of them, a device or a group of devices that are alike, is asked by a model of its own sums
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
        self._made: list[_Asked] | None = None

    def __len__(self) -> int:
        return len(self.others)

    def known(self, x: Array, limit: float) -> tuple[str, ...]:
        """Names those for whom an input would have been normal; ``limit`` is one's own threshold.

        A device with several patterns is named with that of the input.
        """
        names = list[str]()
        for asked in self._asked:
            scores = asked.scores(x)
            best = int(scores.argmin())
            if scores[best] <= min(asked.threshold, TRUSTED * limit):
                names.append(asked.names[best])
        return tuple(names)

    @property
    def _asked(self) -> list["_Asked"]:
        if self._made is None:
            self._made = [_Asked(self._basis, other, self._settings) for other in self.others]
        return self._made


class _Asked:
    """The models of one other, as it uses them: what counts is a score beside a typical one."""

    def __init__(self, basis: Basis, other: Other, settings: dict[str, Any]) -> None:
        self.threshold = other.threshold
        self.names = (
            [other.name]
            if len(other.parts) == 1
            else [f"{other.name} (pattern {number + 1})" for number in range(len(other.parts))]
        )
        self._models: list[SingleModel] = []
        for part in other.parts:
            model = single_model(basis, **settings)
            model.use_prior(part)
            self._models.append(model)
        typical = np.array([typical_score(part, self._models[0].ridge) for part in other.parts])
        usable = np.isfinite(typical) & (typical > 0.0)
        typical[~usable] = typical[usable].max(initial=0.0) or 1.0
        self._weights = typical.mean() / typical

    def scores(self, x: Array) -> Array:
        """Scores an input by each pattern."""
        scores = np.array([model.scores(x[np.newaxis])[0] for model in self._models])
        return np.asarray(scores * self._weights)
