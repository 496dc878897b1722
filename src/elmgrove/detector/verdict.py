"""Which single feature would explain a strange row."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from elmgrove.algebra import OSELM, Array, Basis


class Cause(NamedTuple):
    """One feature's part in a score: its share of the squared error, seen and expected value."""

    feature: str
    share: float
    seen: float
    expected: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Score, threshold and decision for one row.

    ``threshold`` is infinite while the detector is still learning (``state`` says so).
    ``anomalous`` is about this row; ``alarm`` is what the alarm rule made of it and the rows
    before. ``promoted`` counts quarantined rows that this row made part of the model. ``pattern``
    is the number of the normal pattern that explains the row best (negative: one of others).
    """

    score: float
    threshold: float
    anomalous: bool
    learned: bool
    alarm: bool
    state: str
    promoted: int
    pattern: int
    row: Array = field(repr=False, compare=False)
    output: Array = field(repr=False, compare=False)
    basis: Basis = field(repr=False, compare=False)

    def explain(self, k: int = 3) -> list[Cause]:
        """Finds the k features with the largest share of the error; values in the row's own units.

        This is where the reconstruction fails. ``Detector.blame`` looks for the feature that
        made it fail, which costs more and is often another one.
        """
        error = np.square(self.row - self.output, dtype=np.float64)
        return causes(self.basis, error / (error.sum() or 1.0), self.row, self.output, k)


def causes(basis: Basis, share: Array, seen: Array, expected: Array, k: int) -> list[Cause]:
    """Finds the k features with the largest share, named and in their own units."""
    seen, expected = basis.scaling.undone(seen), basis.scaling.undone(expected)
    names = basis.features
    return [
        Cause(
            names[i] if names else f"column {i}",
            float(share[i]),
            float(seen[i]),
            float(expected[i]),
        )
        for i in np.argsort(share)[::-1][:k]
    ]


class Blame:
    """For each feature: how much of the error would go if it alone had another value.

    The error by feature (``Verdict.explain``) says where the reconstruction is wrong. But one
    wrong input passes through the hidden units and spoils many outputs: a fault in one sensor
    can show in its neighbours. Changing input i by δ changes the residual r by δ·mᵢ, with
    mᵢ = eᵢ − ∂y/∂xᵢ, so the best δ takes (r·mᵢ)² / ‖mᵢ‖² off ‖r‖². Exact with the identity as
    activation, to first order with others. It looks for one culprit, not for a conspiracy.
    """

    def __init__(self, model: OSELM) -> None:
        self._basis = model.basis
        self._layer = model.basis.layer
        self._alpha = self._layer.alpha
        #: The output weights that this speaks of.
        self.beta = model.beta
        self._M = self._responses(np.ones(self._layer.units))

    def causes(self, x: Array, y: Array, k: int) -> list[Cause]:
        """Finds the k features whose change helps most, with the value each should have had."""
        M = self._M if self._layer.activation == "identity" else self._responses(self._slopes(x))
        r = np.asarray(x - y, np.float64)
        along, size = M @ r, np.maximum(np.einsum("ij,ij->i", M, M), np.finfo(np.float64).tiny)
        relief = along**2 / size
        return causes(self._basis, relief / ((r @ r) or 1.0), x, x - along / size, k)

    def _responses(self, slopes: Array) -> Array:
        """Row i is mᵢ = eᵢ − αᵢ G' β."""
        return np.eye(self._layer.inputs) - (self._alpha * slopes) @ self.beta

    def _slopes(self, x: Array) -> Array:
        """G' at the row, from G itself where it can be."""
        h = self._layer(x)
        return {"sigmoid": h * (1.0 - h), "tanh": 1.0 - h * h, "relu": h > 0.0}[
            self._layer.activation
        ]
