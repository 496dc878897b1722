"""Which sets of rows one model can explain together, from their evidence alone.

``groups`` and ``join`` take sets of rows (``Fitted``) and join two at a time, those that lose least
by it. ``Screening`` spares most of the work: it tells beforehand which pairs would lose too much.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.rows import Array
from elmgrove.algebra.screening import UNKNOWN, Screening
from elmgrove.errors import BadInput

#: Up to so many, comparing all pairs is faster than screening them.
FEW = 8
_LARGEST = sys.float_info.max
# So many distances are compared with as many others in one product.
_AT_ONCE = 32

# What may be lost on anybody's rows in one join, by the score: how much errors may grow, or how
# much farther than typical rows those of one may lie from the other.
_USUAL = {"loss": 0.02, "distance": 0.1}


@dataclass(frozen=True)
class Fitted:
    """Evidence of a set of rows, with the squared error that the best model of them leaves."""

    evidence: Evidence
    ridge: float
    error: float = field(init=False)

    def __post_init__(self) -> None:
        # Below this, an error is rounding.
        floor = 1e-12 * max(self.evidence.energy, 0.0)
        error = self.evidence.error_of(self.evidence.solve(self.ridge))
        object.__setattr__(self, "error", max(error, floor))

    def __add__(self, other: "Fitted") -> "Fitted":
        return Fitted(self.evidence + other.evidence, self.ridge)

    def loss_with(self, other: "Fitted") -> float:
        """Computes by what share an error grows if one model serves both: that of the worse off."""
        # What overflows is no pair: it becomes the largest loss there is, which is still a number.
        with np.errstate(over="ignore", invalid="ignore"):
            joint = (self.evidence + other.evidence).solve(self.ridge)
            pairs = ((part.evidence.error_of(joint), part.error) for part in (self, other))
            loss = max((after / before - 1.0 if before > 0.0 else 0.0) for after, before in pairs)
        return loss if loss < _LARGEST else _LARGEST


@dataclass(frozen=True)
class FittedDistance:
    """Evidence of a set of rows, with the distance that is made of it."""

    evidence: Evidence
    ridge: float

    @cached_property
    def distance(self) -> Distance:
        """The distance from these rows."""
        if not isinstance(self.evidence, Moments):
            raise BadInput("a distance is computed from moments, and this evidence has none")
        return Distance(self.evidence)

    @property
    def error(self) -> float:
        """The squared distance of all rows from themselves: each is typical."""
        return self.evidence.count * self.evidence.basis.inputs

    def __add__(self, other: "FittedDistance") -> "FittedDistance":
        return FittedDistance(self.evidence + other.evidence, self.ridge)

    def loss_with(self, other: "FittedDistance") -> float:
        """Computes how much farther rows of one lie from the other than from themselves."""
        with np.errstate(over="ignore", invalid="ignore"):
            away = (
                self.distance.mean_score(other.distance),
                other.distance.mean_score(self.distance),
            )
        loss = max(away) - 1.0
        return loss if loss < _LARGEST else _LARGEST


def mean_scores(distances: Sequence[Distance]) -> Array:
    """Computes ``mean_score`` of each (a line) for rows like those of each (a column), all at once.

    With A = K/σ of one and B = Sσ of the other, ‖ABᵀ‖² = ⟨AᵀA, BᵀB⟩: one product for many pairs.
    100 of 380 columns and 64 units take about 1 s on one core, a fifth of what pair by pair takes.
    """
    scores = np.empty((len(distances), len(distances)))
    blocks = [slice(start, start + _AT_ONCE) for start in range(0, len(distances), _AT_ONCE)]
    # What overflows is infinitely far away, rather than nobody knows how far.
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in blocks:
            deviations = np.array([one.deviation for one in distances[rows]])
            alone = deviations**2 * np.array([one.own for one in distances[rows]])
            means = np.array([one.mean for one in distances[rows]])
            seen = [one.seen * one.deviation for one in distances[rows]]
            spread = alone + np.array([np.einsum("ij,ij->j", one, one) for one in seen])
            products = _squares(seen)
            for models in blocks:
                K = [one.K for one in distances[models]]
                rates = np.array([1.0 / one.deviation for one in distances[models]])
                own = np.array([np.einsum("ij,ij->j", one, one) for one in K])
                scores[models, rows] = (rates**2) @ spread.T
                scores[models, rows] -= (own * rates**2) @ alone.T
                taken = _squares(k * rate for k, rate in zip(K, rates, strict=True))
                scores[models, rows] -= taken @ products.T
                for line, model in enumerate(distances[models], models.start):
                    Z = (means - model.mean) / model.deviation
                    away = np.einsum("ij,ij->i", Z, Z) - np.square(Z @ model.K.T).sum(axis=1)
                    scores[line, rows] += np.maximum(away, 0.0)
        for line, model in enumerate(distances):
            scores[line] = model.times_typical(scores[line] / len(model.mean))
    scores[np.isnan(scores)] = np.inf
    return scores


def _squares(factors: Iterable[Array]) -> Array:
    """AᵀA of each, a line for each."""
    return np.array([(A.T @ A).ravel() for A in factors])


def usual_tolerance(basis: Basis) -> float:
    """Says what may be lost in one join unless another tolerance is asked for."""
    return _USUAL[basis.score]


def fit(evidence: Evidence, ridge: float) -> Any:
    """Makes evidence comparable, by the score that its basis has."""
    made = FittedDistance if evidence.basis.score == "distance" else Fitted
    return made(evidence, ridge)


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
    candidates = _Candidates(fits)
    candidates.join_all(tolerance, 1)
    return candidates.groups


def join(fits: Sequence[Any], tolerance: float, least: int = 1) -> Joining:
    """Groups as ``groups`` does, with the reasons, and never into fewer than ``least``.

    Most pairs are never solved: that they lose too much is known from ``Screening``, a bound for
    all at once. 200 of 128 units and 561 columns take 2 s on one core where all stay apart
    (``groups``), 10 s with the reason for it, and 20 s where they become 10, of which most is 3,500
    solutions of 5 ms each; all pairs would take 39,000.
    """
    candidates = _Candidates(fits)
    steps = candidates.join_all(tolerance, least)
    return Joining(candidates.groups, steps, candidates.best())


class _Candidates:
    """All pairs of groups, each with what joining them loses, or at least loses."""

    def __init__(self, fits: Sequence[Any]) -> None:
        self._fits = list(fits)
        self._members: list[tuple[int, ...]] = [(index,) for index in range(len(fits))]
        self._screening = _screening(fits)
        self._losses = np.full((len(fits), len(fits)), np.inf)
        self._known = np.zeros(self._losses.shape, bool)
        pairs = np.triu_indices(len(fits), 1)
        if fits and isinstance(fits[0], FittedDistance):
            away = mean_scores([fit.distance for fit in fits])
            losses = np.maximum(away, away.T) - 1.0
            self._losses[pairs] = np.where(losses < _LARGEST, losses, _LARGEST)[pairs]
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
                return Step(float(self._losses[i, j]), self._members[i], self._members[j])
            self._losses[i, j] = self._fits[i].loss_with(self._fits[j])
            self._known[i, j] = True
        return None

    def _join(self, step: Step) -> None:
        i, j = self._members.index(step.first), self._members.index(step.second)
        self._members[i], self._members[j] = step.first + step.second, ()
        self._fits[i] += self._fits[j]
        self._losses[j] = self._losses[:, j] = np.inf
        bounds = np.full(len(self._fits), UNKNOWN)
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
