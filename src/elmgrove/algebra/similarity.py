"""Which sets of rows one model can explain together, from their evidence alone.

``groups`` and ``join`` take sets of rows (``Fitted``) and join two at a time, those that lose least
by it. ``Screening`` spares most of the work: it tells beforehand which pairs would lose too much.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.linalg import mirrored
from elmgrove.algebra.moments import Moments, mixed
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput

_LARGEST = sys.float_info.max
# So many distances are compared with as many others in one product.
_AT_ONCE = 32
#: How much farther than chance explains rows of one device may lie from another of its kind.
ONE_KIND = 0.3


@dataclass(frozen=True)
class Fitted:
    """Evidence of a set of rows, with the squared error that the best model of them leaves."""

    evidence: Evidence
    ridge: float

    @cached_property
    def error(self) -> float:
        """The squared error, not below what is rounding."""
        floor = 1e-12 * max(self.evidence.energy, 0.0)
        return max(self.evidence.error_of(self.evidence.solve(self.ridge)), floor)

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

    def chance_with(self, other: "Fitted") -> float:
        """Allows for no chance: what is lost is all that is said (``groups`` says why)."""
        return 0.0


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
        here, there = self.distance, other.distance
        loss = max(here.mean_score(there), there.mean_score(here)) - 1.0
        return loss if loss < _LARGEST else _LARGEST

    def chance_with(self, other: "FittedDistance") -> float:
        """Computes what the two would lose by chance if their rows followed one law."""
        evidence = self.evidence
        return float(_chance(evidence.basis, evidence.count, other.evidence.count))


def _chance(basis: Basis, one: Any, other: Any) -> Any:
    """What two sets of so many rows of one law lose by chance, nine times of ten; at most 1.

    A model of N rows knows r mixtures of its inputs to about r/N, and rows that it has not seen lie
    so much farther from it; mean squares of n inputs differ by √(2/n (1/N₁ + 1/N₂)). Rows that
    windows are made of depend on each other: as many as a window holds count for one. Measured with
    4 to 380 inputs and 100 to 3,000 rows. Rows that depend on each other without a window lose
    more; so do fewer rows than mixtures, and such devices stay apart.
    """
    N_1, N_2 = (np.maximum(count / basis.window, 1.0) for count in (one, other))
    known = mixed(basis) / np.minimum(N_1, N_2)
    return np.minimum(known + 2.0 * np.sqrt(2.0 / basis.inputs * (1.0 / N_1 + 1.0 / N_2)), 1.0)


def apart(one: Any, other: Any) -> float:
    """Computes what joining two sets of rows loses beyond what chance explains."""
    return float(one.loss_with(other) - one.chance_with(other))


def all_losses(fits: Sequence[FittedDistance]) -> Array:
    """Computes ``loss_with`` of all pairs at once."""
    away = mean_scores([fit.distance for fit in fits])
    losses = np.maximum(away, away.T) - 1.0
    return np.where(losses < _LARGEST, losses, _LARGEST)


def all_chances(fits: Sequence[FittedDistance]) -> Array:
    """Computes ``chance_with`` of all pairs at once."""
    counts = np.array([fit.evidence.count for fit in fits])
    chances: Array = _chance(fits[0].evidence.basis, counts[:, np.newaxis], counts)
    return chances


def all_apart(fits: Sequence[FittedDistance]) -> Array:
    """Computes ``apart`` of all pairs at once."""
    return all_losses(fits) - all_chances(fits)


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
    """Says what may be lost on anybody's rows in one join of patterns.

    By loss that is how much errors may grow, by distance how much farther than typical rows those
    of one may lie from the other.
    """
    return 0.1 if basis.score == "distance" else 0.02


def kind_tolerance(basis: Basis) -> float:
    """Says how far beyond chance devices of one kind may be apart, unless something is asked for.

    By distance 0.3 is a level that differs by half a residual deviation in every column, or
    deviations that differ by a seventh. It was chosen on simulated machines with 1,000 rows: those
    of one kind, with levels a quarter of a residual deviation apart, were at most 0.36 apart (a
    median of 0.1), one with a fault in a tenth of its rows 0.4 to 0.7, other kinds 5 and more.
    """
    return ONE_KIND if basis.score == "distance" else usual_tolerance(basis)


def fit(evidence: Evidence, ridge: float) -> Any:
    """Makes evidence comparable, by the score that its basis has."""
    made = FittedDistance if evidence.basis.score == "distance" else Fitted
    return made(evidence, ridge)


#: Up to so many, comparing all pairs is faster than screening them.
FEW = 8
# Losses that are not known are taken for less than any loss can be: all of the error gone.
_UNKNOWN = -1.0
# Differences of large numbers are known to this share of them only.
_ROUNDING = 1e-11


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
    cross-validation), patterns that are merely alike joined as well, and anomalous rows were
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


class Screening:
    """Lower bounds of ``Fitted.loss_with``, each for a small part of its cost.

    With A = U + λI, an error is that of the best model β plus ‖β' − β‖² in the norm of A. So two
    errors, each divided by its own (w = 1 / error), grow together by at least the least that

        w₁ ‖β' − β₁‖²_A₁ + w₂ ‖β' − β₂‖²_A₂

    can be for any β'. That is Dᵀ(P₁/w₁ + P₂/w₂)⁻¹D with D = β₁ − β₂ and P = A⁻¹, and at least
    ⟨Z, D⟩² / ⟨Z, (P₁/w₁ + P₂/w₂) Z⟩ for whatever Z. With Z = M D and one M for all pairs, this
    takes a few matrix products over all of them. M is the harmonic mean of all wA: the bound is
    tight where rows vary in like ways, and low where they do not. What the ridge may hide,
    λ‖β'‖², is taken off, with twice the larger ‖β‖² in the place of ‖β'‖².

    Holds twice the evidence's size in memory.
    """

    def __init__(
        self, evidences: Sequence[Evidence], errors: Sequence[float], ridge: float
    ) -> None:
        self._ridge = ridge
        with np.errstate(all="ignore"):  # beyond range, a bound says nothing, never wrong things
            self._M = _harmonic_mean(
                [_inverse(*pair, ridge) for pair in zip(evidences, errors, strict=True)]
            )
        units, outputs = evidences[0].V.shape
        self._shape = units, outputs
        self._betas, self._Q_betas = np.empty((2, len(evidences), units * outputs))
        # Q = M P/w M, and ββᵀ: ⟨βᵢ, Qⱼβᵢ⟩ = ⟨Qⱼ, βᵢβᵢᵀ⟩.
        self._Q, self._squares = np.empty((2, len(evidences), units * units))
        self._in_M, self._in_Q, self._size, self._hidden = np.empty((4, len(evidences)))
        for index, (evidence, error) in enumerate(zip(evidences, errors, strict=True)):
            self.replace(index, evidence, error)

    def replace(self, index: int, evidence: Evidence, error: float) -> None:
        """Puts other evidence, with the error of its own model, in the place of one."""
        factor = evidence.factor(self._ridge)
        beta = np.asarray(factor.solve(evidence.V), np.float64)
        with np.errstate(all="ignore"):  # as in __init__: such a bound says nothing
            Q = self._M @ _inverse(evidence, error, self._ridge) @ self._M
            Q_beta = Q @ beta
            self._betas[index], self._Q_betas[index] = beta.ravel(), Q_beta.ravel()
            self._Q[index], self._squares[index] = Q.ravel(), (beta @ beta.T).ravel()
            self._in_M[index] = np.vdot(beta, self._M @ beta)
            self._in_Q[index] = np.vdot(beta, Q_beta)
            self._size[index] = np.vdot(beta, beta)
            # Where there is no error at all, nothing can be said of what is lost.
            self._hidden[index] = factor.ridge / error if error > 0.0 else np.inf

    def bounds(self) -> Array:
        """Computes the bounds for all pairs, as a square table."""
        count = len(self._betas)
        blocks = [slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE)]
        return np.vstack([self.bounds_of(block) for block in blocks])

    def bounds_of(self, some: slice) -> Array:
        """Computes the bounds for pairs of some with all, a line for each of the some."""
        with np.errstate(all="ignore"):  # as in __init__: such a bound says nothing
            bounds = 0.5 * (self._growth(some) - self._ridge_share(some))
        # Numbers beyond range say nothing, nor does a bound below 0: a smaller share of the ridge
        # may even make an error less.
        bounds[~(bounds > 0.0)] = _UNKNOWN
        return bounds

    def _growth(self, some: slice) -> Array:
        """⟨MD, D⟩² / ⟨MD, (P₁/w₁ + P₂/w₂) MD⟩, and a little less for rounding."""
        mine = self._betas[some]
        M_mine = (self._M @ mine.reshape(-1, *self._shape)).reshape(mine.shape)
        in_M = _pairs(self._in_M, some)
        distance = in_M - 2.0 * M_mine @ self._betas.T
        in_Q = self._squares[some] @ self._Q.T + self._Q[some] @ self._squares.T
        in_Q += _pairs(self._in_Q, some)
        spread = in_Q - 2.0 * (mine @ self._Q_betas.T + self._Q_betas[some] @ self._betas.T)
        spread = np.maximum(spread, 0.0) + _ROUNDING * in_Q
        growth: Array = np.maximum(distance - _ROUNDING * in_M, 0.0) ** 2 / spread
        return growth

    def _ridge_share(self, some: slice) -> Array:
        largest = 2.0 * np.maximum(self._size[some, np.newaxis], self._size)
        mine = self._hidden[some] * (largest.T - self._size[some])
        share: Array = mine.T + self._hidden * (largest - self._size)
        return share


def _pairs(values: Array, some: slice) -> Array:
    sums: Array = values[some, np.newaxis] + values
    return sums


def _inverse(evidence: Evidence, error: float, ridge: float) -> Array:
    """P / w."""
    return (error if error > 0.0 else 1.0) * mirrored(evidence.factor(ridge).inverse())


def _harmonic_mean(inverses: Sequence[Array]) -> Array:
    mean = np.mean(inverses, axis=0)
    try:
        M = np.linalg.inv(mean)
    except np.linalg.LinAlgError:
        return np.eye(len(mean))  # any will do
    return (M + M.T) / 2.0


class _Candidates:
    """All pairs of groups, each with what joining them loses, or at least loses.

    ``by_chance``: without what chance explains of it.
    """

    def __init__(self, fits: Sequence[Any], by_chance: bool) -> None:
        self._fits = list(fits)
        self._by_chance = by_chance
        self._members: list[tuple[int, ...]] = [(index,) for index in range(len(fits))]
        self._screening: Screening | None = None
        self._losses = np.full((len(fits), len(fits)), np.inf)
        self._known = np.zeros(self._losses.shape, bool)
        pairs = np.triu_indices(len(fits), 1)
        if fits and isinstance(fits[0], FittedDistance):
            chances = all_chances(fits) if by_chance else 0.0
            self._losses[pairs] = (all_losses(fits) - chances)[pairs]
            self._known[pairs] = True
            return
        self._losses[pairs] = _UNKNOWN
        if len(fits) > FEW:
            errors = [fit.error for fit in fits]
            self._screening = Screening([fit.evidence for fit in fits], errors, fits[0].ridge)
            self._losses[pairs] = self._screening.bounds()[pairs]

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
