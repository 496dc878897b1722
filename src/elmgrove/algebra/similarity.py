"""Which sets of rows one model can explain together, from their evidence alone.

``groups`` and ``join`` take sets of rows (``Fitted``) and join two at a time, those that lose least
by it. ``Screening`` spares most of the work: it tells beforehand which pairs would lose too much.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.fitted import FittedDistance, all_chances, all_losses
from elmgrove.algebra.screening import UNKNOWN, Screening

#: Up to so many, comparing all pairs is faster than screening them.
FEW = 8


class Step(NamedTuple):
    """A join of two groups, by the numbers of their members, and the loss it brings."""

    loss: float
    first: tuple[int, ...]
    second: tuple[int, ...]


class Joining(NamedTuple):
    """The groups found, the steps that led to them, and the first step that was refused."""

    groups: list[list[int]]
    steps: list[Step]
    refused: Step | None


def groups(fits: Sequence[Any], tolerance: float) -> list[list[int]]:
    """Groups what one model explains: joins the two that lose least, while within ``tolerance``.

    A tolerance of 0.05 lets the squared error on each set of rows grow by a twentieth in each step.
    Exact, and without a row (``error_of``). Few rows are explained too well by their own model and
    join late rather than early: two sets of n rows of one pattern seem to lose Ñ / (2n − 2Ñ) with
    Ñ units, so 0.02 takes 26 times as many rows as units. With a correction for that (by
    cross-validation), patterns that are merely alike joined as well, and strange rows were
    explained better: detectors lost up to 0.25 ROC-AUC on MNIST with 400 rows a digit. The order
    does not matter but for exact ties.
    """
    candidates = _Candidates(fits, by_chance=False)
    candidates.join_all(tolerance, 1)
    return candidates.groups


def join(fits: Sequence[Any], tolerance: float, least: int = 1) -> Joining:
    """Groups what is not more than ``tolerance`` apart beyond chance, never into under ``least``.

    As ``groups`` does, but for the chance, and with the reasons: a step's loss is all that it
    loses, whatever the cause.

    Most pairs are never solved: that they lose too much is known from ``Screening``, a bound for
    all at once. 200 of 128 units and 561 columns take 2 s on one core where all stay apart
    (``groups``), 10 s with the reason for it, and 20 s where they become 10, of which most is 3,500
    solutions of 5 ms each; all pairs would take 39,000.
    """
    candidates = _Candidates(fits, by_chance=True)
    steps = candidates.join_all(tolerance, least)
    return Joining(candidates.groups, steps, candidates.best())


class _Candidates:
    """All pairs of groups, each with what joining them loses, or at least loses.

    ``by_chance``: without what chance explains of it.
    """

    def __init__(self, fits: Sequence[Any], by_chance: bool) -> None:
        self._fits = list(fits)
        self._by_chance = by_chance
        self._members: list[tuple[int, ...]] = [(index,) for index in range(len(fits))]
        self._screening = _screening(fits)
        self._losses = np.full((len(fits), len(fits)), np.inf)
        self._known = np.zeros(self._losses.shape, bool)
        pairs = np.triu_indices(len(fits), 1)
        if fits and isinstance(fits[0], FittedDistance):
            chances = all_chances(fits) if by_chance else 0.0
            self._losses[pairs] = (all_losses(fits) - chances)[pairs]
            self._known[pairs] = True
            return
        screening = self._screening
        self._losses[pairs] = UNKNOWN if screening is None else screening.bounds()[pairs]

    @property
    def groups(self) -> list[list[int]]:
        return [sorted(members) for members in self._members if members]

    @property
    def count(self) -> int:
        return sum(1 for members in self._members if members)

    def join_all(self, tolerance: float, least: int) -> list[Step]:
        steps = list[Step]()
        while self.count > least and (step := self.best(tolerance)) is not None:
            self._join(step)
            steps.append(step)
        return steps

    def best(self, limit: float = np.inf) -> Step | None:
        """Finds the two that lose least; None if no two lose at most ``limit``."""
        while self.count > 1:
            i, j = map(int, np.unravel_index(self._losses.argmin(), self._losses.shape))
            if self._losses[i, j] > limit:
                return None
            if self._known[i, j]:
                loss = float(self._losses[i, j]) + self._chance(i, j)
                return Step(loss, self._members[i], self._members[j])
            self._losses[i, j] = self._fits[i].loss_with(self._fits[j]) - self._chance(i, j)
            self._known[i, j] = True
        return None

    def _chance(self, i: int, j: int) -> float:
        return float(self._fits[i].chance_with(self._fits[j])) if self._by_chance else 0.0

    def _join(self, step: Step) -> None:
        i, j = self._members.index(step.first), self._members.index(step.second)
        self._members[i], self._members[j] = step.first + step.second, ()
        self._fits[i] += self._fits[j]
        self._losses[j] = self._losses[:, j] = np.inf
        bounds = np.full(len(self._fits), -np.inf)
        if self._screening is not None:
            self._screening.replace(i, self._fits[i].evidence, self._fits[i].error)
            bounds = self._screening.bounds_of(slice(i, i + 1))[0]
        for k in (k for k, members in enumerate(self._members) if members and k != i):
            pair = min(i, k), max(i, k)
            self._losses[pair], self._known[pair] = bounds[k], False


def _screening(fits: Sequence[Any]) -> Screening | None:
    if len(fits) <= FEW or isinstance(fits[0], FittedDistance):
        return None
    evidences, errors = [fit.evidence for fit in fits], [fit.error for fit in fits]
    return Screening(evidences, errors, fits[0].ridge)
