"""Which sets of rows one model can explain together, from their evidence alone.

``groups`` and ``join`` take sets of rows (``Fitted``) and join two at a time, those that lose least
by it. ``Screening`` spares most of the work: it tells beforehand which pairs would lose too much.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.cholesky import mirrored
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fitted import FittedDistance, all_chances, all_losses
from elmgrove.algebra.rows import Array

#: Up to so many, comparing all pairs is faster than screening them.
FEW = 8
#: Losses that are not known are taken for less than any loss can be: all of the error gone.
UNKNOWN = -1.0
# Differences of large numbers are known to this share of them only.
_ROUNDING = 1e-11
# So many are compared with all others in one product.
_AT_ONCE = 32


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
        bounds[~(bounds > 0.0)] = UNKNOWN
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
        self._losses[pairs] = UNKNOWN
        self._recall()
        # What most pairs lose may be known from another time, and the few others are soon compared.
        if len(fits) > FEW and 2 * self._known.sum() < len(pairs[0]):
            errors = [fit.error for fit in fits]
            self._screening = Screening([fit.evidence for fit in fits], errors, fits[0].ridge)
            unknown = np.isfinite(self._losses) & ~self._known
            self._losses[unknown] = self._screening.bounds()[unknown]

    def _recall(self) -> None:
        for i, j in combinations(range(len(self._fits)), 2):
            loss = self._fits[i].known_loss_with(self._fits[j])
            if loss is not None:
                self._losses[i, j], self._known[i, j] = loss - self._chance(i, j), True

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
