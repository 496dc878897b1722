"""Bases and moments for tests: rows of any shape, and the sums over them written out."""

from typing import Any

import numpy as np

from elmgrove import Basis, Evidence, HiddenLayer, Scaling
from elmgrove.algebra.moment_sums import MomentSums
from elmgrove.algebra.moments import Moments


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
    """What is learned of these rows, in bulk; in float32 as a small device adds it up."""
    if dtype == np.float32:
        return _in_single(basis, np.asarray(X, np.float32), forgetting)
    sums = MomentSums(basis, forgetting)
    sums.add_many(np.asarray(X, np.float64))
    return sums.evidence


def _in_single(basis: Basis, X: np.ndarray, forgetting: float) -> Moments:
    """C added up in float32, row by row, and all else in float64."""
    inputs, units = basis.inputs, basis.layer.units
    A = np.eye(inputs) if units >= inputs else basis.hidden.alpha
    own = basis.scaling.kind == "none" and len(X) > 0
    centre = X[0].astype(np.float64) if own else np.zeros(inputs)
    C, s, e, count = np.zeros((A.shape[1], inputs), np.float32), np.zeros(inputs), 0.0 * centre, 0.0
    phi, mix = np.float32(forgetting), A.astype(np.float32)
    for x in X:
        y = (x - centre).astype(np.float32)
        C = phi * C + np.outer(y @ mix, y)
        s, e = forgetting * s + y, forgetting * e + y.astype(np.float64) ** 2
        count = forgetting * count + 1.0
    if units >= inputs:
        C[np.diag_indices_from(C)] = e
    return Moments(basis, C, s, e, count, centre)


def evidence_in_single(basis: Basis, X: np.ndarray, T: np.ndarray, forgetting: float) -> Evidence:
    """Sums as a small device adds them up: in float32, row by row."""
    U = np.zeros((basis.layer.units,) * 2, np.float32)
    V, energy, count = np.zeros((basis.layer.units, basis.outputs), np.float32), 0.0, 0.0
    phi = np.float32(forgetting)
    for h, t in zip(basis.layer(X).astype(np.float32), T.astype(np.float32), strict=True):
        U, V = phi * U + np.outer(h, h), phi * V + np.outer(h, t)
        energy, count = forgetting * energy + float(t @ t), forgetting * count + 1.0
    return Evidence(basis, U, V, energy, count)


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
