"""Rows since a change against what was learned: which sensors changed, how, and since when."""

from typing import Any, NamedTuple, cast

import numpy as np

from elmgrove.algebra import Array, Distance, Moments
from elmgrove.detector.model import Model
from elmgrove.detector.since import RELATED, Passage

# Sensors that are named at most.
_NAMED = 3
# Sensors explain a change where, without them, the squared distance of the others is no more than
# so much, which is usual, or a small share of all; from so much on, the others changed as well.
_USUAL, _SMALL, _CHANGED = 4.0, 0.2, 12.0
# A sensor with so small a share of its variance is stuck.
_STUCK = 1e-3
# A sensor follows another that tells so much of it, and does no longer when what is left of it
# has so many times the variance.
_FOLLOWS, _NO_LONGER = 0.6, 4.0
# What a ramp may leave, as a share of what a step leaves: it must fit better where rows were others
# all at once, and else a step must.
_SUDDEN, _SLOW = 0.7, 1.2
# A ramp leads at least such a share of the way to where the rows are at last.
_WAY = 0.4


class Learned(NamedTuple):
    """What rows were like: their mean, and how they vary (of many columns, the variances alone)."""

    mean: Array
    covariance: Array

    @property
    def deviation(self) -> Array:
        """How far each column usually is from its mean."""
        flat = self.covariance.ndim == 1
        found: Array = np.sqrt(self.covariance if flat else np.diag(self.covariance))
        return found


class Displacement(NamedTuple):
    """What one column did: where it should have been and is, or how it varied and varies now.

    ``weights`` make of a row how far the column is from where it should be.
    """

    column: int
    before: float
    after: float
    varied: float
    varies: float
    size: float
    weights: Array
    by_spread: bool = False


def learned_of(model: Model, recent: Array) -> Learned:
    """Finds what the model knows of one row; where there are patterns, of all of them together.

    A model by reconstruction has no moments of rows; the last rows that were learned have.
    """
    columns, several = model.basis.layer.inputs, len(model.models) > 1
    if model.basis.score == "distance":
        whole = Distance(cast(Moments, model.evidence)) if several else _distance(model)
        view = whole.last(columns)
        variance = view.deviation**2 * (1.0 + np.einsum("ij,ij->j", view.L, view.L))
        if columns > RELATED:
            return Learned(view.mean, variance)
        D = view.deviation
        return Learned(view.mean, D[:, np.newaxis] * (view.L.T @ view.L + np.eye(columns)) * D)
    rows = np.asarray(recent[:, -columns:], np.float64)
    # One more row, a unit away: a column that never moved has no variance else.
    noise = 1.0 / (len(rows) + 1.0)
    if columns > RELATED:
        return Learned(rows.mean(axis=0), rows.var(axis=0) + noise)
    products = np.cov(rows, rowvar=False, bias=True).reshape(columns, columns)
    return Learned(rows.mean(axis=0), products + noise * np.eye(columns))


def _distance(model: Model) -> Distance:
    found: Distance = model.explainer(np.zeros(model.basis.inputs, model.dtype))[1]
    return found


def changes(learned: Learned, mean: Array, covariance: Array) -> list[Displacement]:
    """Finds the few columns that explain how these rows differ, those that explain most first.

    The mean squared distance of rows is dᵀΩd + tr(ΩS): by where they lie, and by how they vary.
    Whichever grew more is explained: by columns without which the rest is as it was.
    """
    d = mean - learned.mean
    if learned.covariance.ndim == 1:
        return _each_by_itself(learned, d, covariance)
    omega = np.linalg.pinv(learned.covariance, hermitian=True)
    away, wider = float(d @ omega @ d), float(np.sum(omega * covariance)) - len(d)
    if away >= wider:
        return _by_level(learned, omega, d, covariance)
    return _by_spread(learned, omega, d, covariance)


def _each_by_itself(learned: Learned, d: Array, variance: Array) -> list[Displacement]:
    off = np.abs(d) / learned.deviation
    ratio = np.sqrt(variance) / learned.deviation
    by_spread = float(np.mean(variance / learned.covariance)) - 1.0 > float(np.mean(off**2))
    order = np.argsort(ratio if by_spread else off)[::-1][:_NAMED]
    unit = np.eye(1, len(d))[0]
    return [
        Displacement(
            column,
            float(learned.mean[column]),
            float(learned.mean[column] + d[column]),
            float(learned.deviation[column]),
            float(np.sqrt(variance[column])),
            float(ratio[column] if by_spread else off[column]),
            np.roll(unit, column),
            by_spread,
        )
        for column in map(int, order)
        if by_spread or 2.0 * off[column] >= off[order[0]]
    ]


def _by_level(learned: Learned, omega: Array, d: Array, covariance: Array) -> list[Displacement]:
    """Those columns that, with any values, leave the others where they were; else the farthest."""
    sigma, total = learned.covariance, float(d @ omega @ d)
    free, left = list[int](), total
    while len(free) < min(_NAMED, len(d)) and (not free or left > max(_SMALL * total, _USUAL)):
        rest = {j: _left_without(sigma, d, [*free, j]) for j in range(len(d)) if j not in free}
        best = min(rest, key=rest.__getitem__)
        free, left = [*free, best], rest[best]
    expected = np.zeros(len(d))
    if left <= _CHANGED:
        kept = np.setdiff1d(np.arange(len(d)), free)
        # What the others say: Σ_FR Σ_RR⁻¹ d_R
        told = np.linalg.pinv(sigma[np.ix_(kept, kept)], hermitian=True) @ d[kept]
        expected = sigma[:, kept] @ told
    else:
        off = np.abs(d) / learned.deviation
        free = [int(j) for j in np.argsort(off)[::-1][:_NAMED] if 3.0 * off[j] >= off.max()]
    return [
        Displacement(
            j,
            float(learned.mean[j] + expected[j]),
            float(learned.mean[j] + d[j]),
            float(learned.deviation[j]),
            float(np.sqrt(max(covariance[j, j], 0.0))),
            float(abs(d[j] - expected[j]) * np.sqrt(omega[j, j])),
            omega[j] / omega[j, j],
            bool(covariance[j, j] < _STUCK * sigma[j, j]),
        )
        for j in free
    ]


def _left_without(sigma: Array, d: Array, free: list[int]) -> float:
    """The squared distance that is left where some columns may have any value."""
    kept = np.setdiff1d(np.arange(len(d)), free)
    if not len(kept):
        return 0.0
    inverse = np.linalg.pinv(sigma[np.ix_(kept, kept)], hermitian=True)
    return float(d[kept] @ inverse @ d[kept])


def _by_spread(learned: Learned, omega: Array, d: Array, covariance: Array) -> list[Displacement]:
    """The column whose distance from what the others say varies most beyond the usual."""
    grown = np.einsum("ij,jk,ik->i", omega, covariance, omega) / np.diag(omega)
    j = int(grown.argmax())
    return [
        Displacement(
            j,
            float(learned.mean[j]),
            float(learned.mean[j] + d[j]),
            float(learned.deviation[j]),
            float(np.sqrt(max(covariance[j, j], 0.0))),
            float(np.sqrt(grown[j])),
            omega[j] / omega[j, j],
            True,
        )
    ]


def no_longer_followed(learned: Learned, covariance: Array, column: int) -> int | None:
    """Finds the column that this one followed most, if it does no longer; None if it still does.

    By what the other one leaves of it, with the slope that was learned: that is no larger where
    the other one hardly moves for a while.
    """
    if learned.covariance.ndim == 1 or len(covariance) < 2:
        return None
    sigma = learned.covariance
    r = sigma[column] / (learned.deviation * learned.deviation[column])
    r[column] = 0.0
    other = int(np.abs(r).argmax())
    if abs(r[other]) < _FOLLOWS:
        return None
    slope = sigma[column, other] / sigma[other, other]
    before = sigma[column, column] * (1.0 - r[other] ** 2)
    now = covariance[column, column] - 2.0 * slope * covariance[column, other]
    now += slope**2 * covariance[other, other]
    return other if now > _NO_LONGER * before else None


class Ramp(NamedTuple):
    """A level that moved slowly: the rows since it began, its time if known, and the slope."""

    rows: int
    time: float | None
    per_row: float
    per_hour: float | None


def ramp_of(blocks: list[Passage], values: Array, sudden: bool) -> Ramp | None:
    """Finds since when a value moved slowly; None where a step explains the blocks better.

    ``sudden`` says that rows were others all at once, by how strange they were.
    """
    rows = np.array([block.rows for block in blocks], np.float64)
    end = np.cumsum(rows)
    middle = end - rows / 2.0
    if len(blocks) < 4:
        return None
    # A step within a block shows as a part of itself there.
    steps = (np.clip((end - at) / rows, 0.0, 1.0) for at in _places(end, rows))
    step = min(_misfit(rows, values, shape) for shape in steps)
    knees = [0.0, *end[:-2]]
    bends = [_misfit(rows, values, np.maximum(middle - knee, 0.0)) for knee in knees]
    best = int(np.argmin(bends))
    if bends[best] > (_SUDDEN if sudden else _SLOW) * step:
        return None
    rising = np.maximum(middle - knees[best], 0.0)
    per_row = _slope(rows, values, rising)
    first = float(np.average(values - per_row * rising, weights=rows))
    rise = per_row * float(rising[-1])
    if abs(rise) < _WAY * abs(first + rise):
        return None
    times = np.array([block.time for block in blocks])
    if not np.isfinite(times).all() or times[-1] <= times[best]:
        return Ramp(int(end[-1] - knees[best]), None, per_row, None)
    # Times of the middles; the knee lies where a block begins.
    time = float(np.interp(knees[best], middle, times))
    pace = (times[-1] - times[best]) / (middle[-1] - middle[best])
    return Ramp(int(end[-1] - knees[best]), time, per_row, float(per_row / pace * 3600.0))


def _places(end: Array, rows: Array) -> Array:
    """Where a step may lie: the bounds of blocks, and three places within each."""
    return np.concatenate([end - share * rows for share in (0.25, 0.5, 0.75, 1.0)])


def _slope(weights: Array, y: Array, x: Array) -> float:
    x = x - np.average(x, weights=weights)
    square: Any = weights @ (x * x)
    return float(weights @ (x * y) / square) if square > 0.0 else 0.0


def _misfit(weights: Array, y: Array, x: Array) -> float:
    """What a line in x leaves of y: Σ w (y − a − b x)²."""
    centred = y - np.average(y, weights=weights)
    x = x - np.average(x, weights=weights)
    left = centred - _slope(weights, y, x) * x
    return float(weights @ (left * left))
