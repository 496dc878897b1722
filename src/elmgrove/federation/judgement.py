"""Judgement: how well each device's model explains the others' rows, without the rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra import Evidence, fit, mean_scores
from elmgrove.federation.entries import Contribution

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """``error[i, j]``: how strange the rows behind j's evidence are to i's model, in the mean.

    By distance that is how many times as far they lie as typical rows of i; by loss the mean
    squared error, and the diagonal is what each model leaves unexplained of its own rows. NaN where
    a device has no rows to be judged on.
    """

    names: tuple[str, ...]
    error: Matrix

    @property
    def strangeness(self) -> Matrix:
        """How many times worse each model explains the others than they do themselves.

        The median over the others, so that a single strange device makes only itself strange.
        """
        return _middle(self._beside(self._own))

    @property
    def foreignness(self) -> Matrix:
        """How many times worse the others explain each device's rows than they do their own.

        The median over the others. A model that was made to explain everybody's rows is not
        strange; what it has learned beside them is foreign all the same.
        """
        return _middle(self._beside(self._own[:, np.newaxis]).T)

    @property
    def _own(self) -> Matrix:
        own: Matrix = np.maximum(self.error.diagonal(), np.finfo(np.float64).tiny)
        return own

    def _beside(self, own: Matrix) -> Matrix:
        # What is beyond range is infinitely worse, and says so in the median.
        with np.errstate(over="ignore", invalid="ignore"):
            ratio: Matrix = self.error / own
        np.fill_diagonal(ratio, np.nan)
        return ratio


def _middle(ratio: Matrix) -> Matrix:
    """The median of each line; 1 where there is nothing to judge by."""
    usable = ~np.isnan(ratio).all(axis=1)
    middle = np.ones(len(ratio))
    middle[usable] = np.nanmedian(ratio[usable], axis=1)
    return middle


def judge(contributions: Sequence[Contribution], ridge: float) -> Judgement:
    """Judges every model on every evidence, without a row."""
    evidences = [contribution.evidence for contribution in contributions]
    for evidence in evidences[1:]:
        evidences[0].basis.require(evidence.basis)
    names = tuple(contribution.origin for contribution in contributions)
    if not evidences:
        return Judgement((), np.zeros((0, 0)))
    if evidences[0].basis.score == "distance":
        return Judgement(names, _distances(evidences))
    return Judgement(names, _errors(evidences, ridge))


def _distances(evidences: Sequence[Evidence]) -> Matrix:
    """How far rows like each one's lie from each other one, from their moments."""
    known = [n for n, evidence in enumerate(evidences) if evidence.count > 0]
    # A model of no rows explains nothing.
    error = np.full((len(evidences), len(evidences)), np.inf)
    error[np.ix_(known, known)] = mean_scores([fit(evidences[n], 0.0).distance for n in known])
    error[:, [n for n, evidence in enumerate(evidences) if not evidence.count > 0]] = np.nan
    return error


def _errors(evidences: Sequence[Evidence], ridge: float) -> Matrix:
    """Mean squared errors: energy − 2 tr(βᵀV) + tr(βᵀUβ), all pairs at once."""
    betas = [np.asarray(evidence.solve(ridge), np.float64) for evidence in evidences]
    # tr(βᵀUβ) = ⟨ββᵀ, U⟩ makes one matrix product of all pairs.
    energy = np.array([evidence.energy for evidence in evidences])
    values = np.array([evidence.count * evidence.basis.outputs for evidence in evidences])
    # Evidence that overflows here is a stranger's doing; its error is made infinite below.
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = _rows(betas) @ _rows([evidence.V for evidence in evidences]).T
        size = _rows([b @ b.T for b in betas]) @ _rows([evidence.U for evidence in evidences]).T
        squared = np.maximum(energy - 2.0 * fitted + size, 0.0)
    # A model beyond the range of numbers explains nothing, rather than nobody knows what.
    squared[np.isnan(squared)] = np.inf
    unknown = np.full_like(squared, np.nan)
    error: Matrix = np.divide(squared, values, out=unknown, where=values > 0)
    return error


def _rows(matrices: Sequence[Matrix]) -> Matrix:
    return np.stack([np.asarray(matrix, np.float64).ravel() for matrix in matrices])
