"""Bases and moments for tests: rows of any shape, and the sums over them written out."""

from typing import Any

import numpy as np

from elmgrove import Basis, HiddenLayer, Scaling
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.summing import MomentSums


def distance_basis(
    columns: int, units: int | None = None, scaling: str = "none", window: int = 1, **layer: Any
) -> Basis:
    """The basis of a distance; scaled rows are taken to be scaled already."""
    inputs = columns * window
    fixed = Scaling() if scaling == "none" else Scaling.standard([0.0] * columns, [1.0] * columns)
    made = HiddenLayer(columns, units or inputs, **layer)
    return Basis(made, inputs, None, fixed, window, "distance")


def moments_of(
    basis: Basis, X: np.ndarray, dtype: Any = np.float64, forgetting: float = 1.0
) -> Moments:
    """What is learned of these rows, in bulk."""
    sums = MomentSums(basis, forgetting, np.dtype(dtype))
    sums.add_many(np.asarray(X, dtype))
    return sums.evidence


def literal_moments(
    basis: Basis, X: np.ndarray, centre: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """C = Σ w (yA)ᵀy, s = Σ w y, e = Σ w y² and Σ w, row by row, with y = x − c."""
    inputs, units = basis.inputs, basis.layer.units
    A = np.eye(inputs) if units >= inputs else basis.hidden.alpha
    C, s, e, count = np.zeros((A.shape[1], inputs)), np.zeros(inputs), np.zeros(inputs), 0.0
    for x, w in zip(X, np.ones(len(X)) if weights is None else weights, strict=True):
        y = x - centre
        C += w * np.outer(y @ A, y)
        s += w * y
        e += w * y**2
        count += w
    return C, s, e, count


def distance_between(one: Moments, other: Moments) -> float:
    """How far two sums are apart, as a share of the sizes that rows of these squares allow."""
    other = one.aligned(other)
    A = np.eye(one.basis.inputs)
    if one.basis.layer.units < one.basis.inputs:
        A = one.basis.hidden.alpha
    tiny = np.finfo(float).tiny
    root = np.sqrt(np.maximum(np.maximum(one.e, other.e), tiny))
    mixed = np.maximum(root @ np.abs(A), tiny)
    count = max(one.count, other.count, tiny)
    return max(
        float((np.abs(one.C - other.C) / mixed[:, np.newaxis] / root).max()),
        float((np.abs(one.s - other.s) / root / np.sqrt(count)).max()),
        float((np.abs(one.e - other.e) / root**2).max()),
        abs(one.count - other.count) / count,
    )
