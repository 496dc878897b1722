"""What changed: rows since a moment against what was learned, as a report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from elmgrove.algebra.distance import Distance
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.rows import Array
from elmgrove.detector.events import normal_at
from elmgrove.detector.model import Model
from elmgrove.detector.thresholds import RISES
from elmgrove.reading.times import json_when

if TYPE_CHECKING:
    from elmgrove.detector.drift_detector import ChangeStatistics

#: Of more columns than this, how they move together is not looked at.
RELATED = 64


class BlockMean(NamedTuple):
    """Rows that followed each other: how many, their mean, and their mean time (or no number)."""

    rows: int
    time: float
    mean: Array


#: A few rows were anomalous, and then rows were normal again.
SPIKE = "spike"
#: Rows are others than before, for good, since one moment.
CHANGE = "change"
#: Rows move away slowly.
SLOW = "drift"
#: Far more rows are anomalous than stated, one by one, and the threshold follows.
SCATTERED = "scattered"


class Shift(NamedTuple):
    """What a sensor did: where it should be by what was learned and by the others, and where it is.

    ``size`` is how far it moved, or how much more it varies, in units of what is usual given the
    others. ``percent`` is None where 0 is no natural zero. ``varied`` and ``varies`` are its
    deviations; ``by_spread`` says that they are what changed. ``per_hour`` (or ``per_row``) is its
    pace, where it moves slowly.
    """

    sensor: str
    before: float
    after: float
    percent: float | None
    size: float
    varied: float
    varies: float
    by_spread: bool = False
    per_hour: float | None = None
    per_row: float | None = None

    def __str__(self) -> str:
        digits = _digits(self.varies - self.varied if self.by_spread else self.after - self.before)
        if self.by_spread:
            told = f"({self.varied:.{digits}f} → {self.varies:.{digits}f})"
            if 2.0 * self.varies < self.varied:
                return f"{self.sensor} hardly varies {told}"
            if self.varies < 1.5 * self.varied:
                far = f"{self.size:.1f} times as far as usual"
                return f"{self.sensor} is {far} from what the others say"
            return f"{self.sensor} varies {self.varies / self.varied:.1f} times as much {told}"
        off, told = (
            self.after - self.before,
            f"({self.before:.{digits}f} → {self.after:.{digits}f})",
        )
        size = f"{abs(off):.{digits}f}" if self.percent is None else f"{abs(self.percent):.0f} %"
        return f"{self.sensor} is {size} {'higher' if off > 0.0 else 'lower'} {told}"

    @property
    def moving(self) -> str:
        """What a sensor does that moves slowly, without since when."""
        return f"{self.sensor} has been {'rising' if self._pace > 0.0 else 'falling'}"

    @property
    def pace(self) -> str:
        if self.per_hour is not None:
            return f"{_signed(self.per_hour)} an hour"
        return f"{_signed(1000.0 * self._pace)} in 1,000 rows"

    @property
    def _pace(self) -> float:
        return self.per_row or 0.0


class Relation(NamedTuple):
    """A sensor that followed another one, and does no longer."""

    sensor: str
    other: str

    def __str__(self) -> str:
        return f"{self.sensor} no longer follows {self.other}"


@dataclass(frozen=True)
class Drift:
    """What a watch found: its ``kind``, since when, what changed, and the share of anomalous rows.

    ``since`` and ``until`` are times (seconds since 1970, UTC), or None where none was told;
    ``rows`` counts the rows since then, and ``place`` says in words where that is in a file.
    ``whole`` says that these are all rows that were looked at. ``raised`` has the threshold before
    and after it followed scattered rows. ``known`` names others at whom most
    rows of the event would have been normal.

    >>> flow = Shift("flow", 31.2, 25.0, -19.9, 8.0, 0.5, 0.5)
    >>> print(Drift("change", 51600.0, 52800.0, 120, 0.96, (flow,), (Relation("temp", "load"),)))
    since 14:20 flow is 20 % lower (31.2 → 25.0); temp no longer follows load; 96 % of rows are \
anomalous: a new normal or a fault? accept or reject
    """

    kind: str
    since: float | None
    until: float | None
    rows: int
    anomalous: float
    sensors: tuple[Shift, ...] = ()
    relations: tuple[Relation, ...] = ()
    place: str = ""
    whole: bool = False
    raised: tuple[float, float] | None = None
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind == SPIKE:
            many = round(self.anomalous * self.rows)
            at = "" if self.since is None else f" at {clock(self.since, self.until)}"
            return f"a spike{at}: {many} rows were anomalous, then normal again"
        if self.raised is not None:
            before, after = self.raised
            share = f"{100.0 * self.anomalous:.1f} % of rows are anomalous, one by one"
            what = "far above the threshold, which stays"
            if after > RISES * before:
                what = (
                    f"the threshold follows, {before:.3g} → {after:.3g}; if it was a fault, reject"
                )
            return f"{self._since} {share}: {what}"
        what = "; ".join([self._moved, *map(str, self.relations)])
        known = f" ({normal_at(self.known)})" if self.known else ""
        asked = f"a new normal or a fault?{known} accept or reject"
        if self.whole:
            asked = f"if it is no fault, relearn, or accept it as a new normal{known}"
        return f"{what}; {100.0 * self.anomalous:.0f} % of rows are anomalous: {asked}"

    @property
    def _moved(self) -> str:
        """What the sensors did, and since when."""
        since = self._since
        if self.kind == SLOW and self.sensors:
            first, *others = self.sensors
            also = "".join(f"; {one.moving}: {one.pace}" for one in others)
            return f"{first.moving} {since}: {first.pace}{also}"
        told = ", ".join(map(str, self.sensors))
        if not self.sensors:
            told = "no sensor alone is different, but how they move together"
        if self.whole:
            return f"a fault, or another regime, from the first row on: {told}"
        return f"{since} {told}"

    @property
    def _since(self) -> str:
        if self.since is not None:
            return f"since {clock(self.since, self.until)}"
        return self.place or f"for {self.rows:,} rows"

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "since": None if self.since is None else json_when(self.since),
            "until": None if self.until is None else json_when(self.until),
            "rows": self.rows,
            "anomalous": self.anomalous,
            "known": list(self.known),
            "sensors": [shift._asdict() for shift in self.sensors],
            "relations": [relation._asdict() for relation in self.relations],
        }


def percent_of(before: float, after: float, deviation: float) -> float | None:
    """Computes a change in per cent; None where the value is too near to 0 for that."""
    if not abs(before) > 3.0 * deviation:
        return None
    return 100.0 * (after - before) / abs(before)


def clock(time: float, now: float | None) -> str:
    """Says when it was (UTC): the time of the day, with the day where that is another one.

    >>> clock(1714573200.0, 1714580000.0), clock(1714573200.0, None)
    ('14:20', '2024-05-01 14:20')
    """
    told = str(json_when(float(time)))
    today = now is not None and str(json_when(float(now)))[:10] == told[:10]
    # A time that no calendar has is told as it is.
    return told if "T" not in told else told[11:16] if today else told[:16].replace("T", " ")


def _digits(change: float) -> int:
    """The digits after the point that show a change to two figures."""
    if not 0.0 < abs(change) < math.inf:
        return 1
    return min(max(1 - math.floor(math.log10(abs(change))), 0), 9)


def _signed(value: float) -> str:
    return f"{value:+.{_digits(value)}f}"


# Sensors that are named at most.
_NAMED = 3


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
    """A column that changed by so much: it is elsewhere, or it varies otherwise (``by_spread``).

    ``weights`` make of a row how far the column is from where it should be, which the others say is
    ``expected`` from the mean.
    """

    column: int
    size: float
    weights: Array
    expected: float = 0.0
    by_spread: bool = False


def learned_of(model: Model, recent: Array) -> Learned:
    """Finds what the model knows of one row; where there are patterns, of all of them together.

    A model by reconstruction has no moments of rows; the last rows that were learned have.
    """
    columns = model.basis.layer.inputs
    if model.basis.score == "distance":
        several = len(model.models) > 1
        whole: Distance = (
            Distance(cast(Moments, model.evidence))
            if several
            else model.explainer(np.zeros(model.basis.inputs))
        )
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
    # The column whose distance from what the others say varies most beyond the usual.
    grown = np.einsum("ij,jk,ik->i", omega, covariance, omega) / np.diag(omega)
    j = int(grown.argmax())
    return [Displacement(j, float(np.sqrt(grown[j])), omega[j] / omega[j, j], by_spread=True)]


def _each_by_itself(learned: Learned, d: Array, variance: Array) -> list[Displacement]:
    off = np.abs(d) / learned.deviation
    ratio = np.sqrt(variance) / learned.deviation
    by_spread = float(np.mean(variance / learned.covariance)) - 1.0 > float(np.mean(off**2))
    sizes = ratio if by_spread else off
    order = np.argsort(sizes)[::-1][:_NAMED]
    unit = np.eye(1, len(d))[0]
    return [
        Displacement(j, float(sizes[j]), np.roll(unit, j), by_spread=by_spread)
        for j in map(int, order)
        if by_spread or 2.0 * off[j] >= off[order[0]]
    ]


def _by_level(learned: Learned, omega: Array, d: Array, covariance: Array) -> list[Displacement]:
    """Those columns that, with any values, leave the others where they were; else the farthest."""
    sigma, total = learned.covariance, float(d @ omega @ d)
    free, left = list[int](), total
    # What is left is usual, or a small share of all.
    while len(free) < min(_NAMED, len(d)) and (not free or left > max(0.2 * total, 4.0)):
        rest = {j: _left_without(sigma, d, [*free, j]) for j in range(len(d)) if j not in free}
        best = min(rest, key=rest.__getitem__)
        free, left = [*free, best], rest[best]
    expected = np.zeros(len(d))
    # Else the others changed as well.
    if left <= 12.0:
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
            float(abs(d[j] - expected[j]) * np.sqrt(omega[j, j])),
            omega[j] / omega[j, j],
            float(expected[j]),
            # A sensor with so small a share of its variance is stuck.
            bool(covariance[j, j] < 1e-3 * sigma[j, j]),
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
    if abs(r[other]) < 0.6:
        return None
    slope = sigma[column, other] / sigma[other, other]
    before = sigma[column, column] * (1.0 - r[other] ** 2)
    now = covariance[column, column] - 2.0 * slope * covariance[column, other]
    now += slope**2 * covariance[other, other]
    return other if now > 4.0 * before else None


class Ramp(NamedTuple):
    """A level that moved slowly: the rows since it began, its time if known, and the slope."""

    rows: int
    time: float | None
    per_row: float
    per_hour: float | None


def ramp_of(blocks: Sequence[BlockMean], values: Array, sudden: bool) -> Ramp | None:
    """Finds since when a value moved slowly; None where a step explains the blocks better.

    ``sudden`` says that rows were others all at once, by how anomalous they were.
    """
    rows = np.array([block.rows for block in blocks], np.float64)
    end = np.cumsum(rows)
    middle = end - rows / 2.0
    if len(blocks) < 4:
        return None
    # A step may lie at the bounds of blocks, or within one, and shows as a part of itself there.
    places = np.concatenate([end - share * rows for share in (0.25, 0.5, 0.75, 1.0)])
    steps = (np.clip((end - at) / rows, 0.0, 1.0) for at in places)
    step = min(_misfit(rows, values, shape) for shape in steps)
    knees = [0.0, *end[:-2]]
    bends = [_misfit(rows, values, np.maximum(middle - knee, 0.0)) for knee in knees]
    best = int(np.argmin(bends))
    # It must fit better where rows were others all at once, and else a step must.
    if bends[best] > (0.7 if sudden else 1.2) * step:
        return None
    rising = np.maximum(middle - knees[best], 0.0)
    per_row = _slope(rows, values, rising)
    first = float(np.average(values - per_row * rising, weights=rows))
    rise = per_row * float(rising[-1])
    # It leads at least such a share of the way to where the rows are at last.
    if abs(rise) < 0.4 * abs(first + rise):
        return None
    times = np.array([block.time for block in blocks])
    if not np.isfinite(times).all() or times[-1] <= times[best]:
        return Ramp(int(end[-1] - knees[best]), None, per_row, None)
    # Times of the middles; the knee lies where a block begins.
    time = float(np.interp(knees[best], middle, times))
    pace = (times[-1] - times[best]) / (middle[-1] - middle[best])
    return Ramp(int(end[-1] - knees[best]), time, per_row, float(per_row / pace * 3600.0))


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


def described(
    model: Model,
    recent: Array,
    since: "ChangeStatistics",
    blocks: Sequence[BlockMean],
    sudden: bool,
    now: float | None,
) -> Drift:
    """Tells what changed in the rows of ``since``; ``blocks`` are means up to the last of them.

    ``sudden`` says that rows were others all at once, by how anomalous they were.
    """
    mean, covariance = since.mean, since.covariance
    learned, names = learned_of(model, recent), model.basis.names
    found = changes(learned, mean, covariance)
    # How far each column was from where it should be.
    offs = [np.array([(b.mean - learned.mean) @ one.weights for b in blocks]) for one in found]
    ramps = [
        None if one.by_spread else ramp_of(blocks, off, sudden)
        for one, off in zip(found, offs, strict=True)
    ]
    # The first explains most: whether it moved slowly is whether the rows did.
    moved = ramps[0] if ramps else None
    variance = covariance if covariance.ndim == 1 else np.diag(covariance)
    followed = [(one.column, no_longer_followed(learned, covariance, one.column)) for one in found]
    return Drift(
        CHANGE if moved is None else SLOW,
        since.time if moved is None else moved.time,
        now,
        since.rows if moved is None else moved.rows,
        since.anomalous / since.rows,
        tuple(
            _shift(model, one, learned, mean[one.column], variance[one.column], moved and ramp)
            for one, ramp in zip(found, ramps, strict=True)
            if moved is None or ramp
        ),
        tuple(Relation(names[one], names[other]) for one, other in followed if other is not None),
    )


def _shift(
    model: Model,
    change: Displacement,
    learned: Learned,
    mean: float,
    variance: float,
    moved: Ramp | None,
) -> Shift:
    """A change in the data's own units."""
    column = change.column
    shift, scale = model.basis.scaling.units(column)
    before = float(learned.mean[column] + change.expected) * scale + shift
    after = float(mean) * scale + shift
    varied = float(learned.deviation[column]) * scale
    return Shift(
        model.basis.names[column],
        before,
        after,
        percent_of(before, after, varied),
        change.size,
        varied,
        float(np.sqrt(max(variance, 0.0))) * scale,
        change.by_spread,
        None if moved is None or moved.per_hour is None else moved.per_hour * scale,
        None if moved is None else moved.per_row * scale,
    )
