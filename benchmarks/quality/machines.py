"""Simulated machines whose normal rows follow a known law, with faults of a known size.

A row is offset + unit · (factors · loadings + noise). The size of a fault is stated in the residual
standard deviation of its sensor: what is left when all other sensors are known, 1/√(Σ⁻¹)_jj of the
true covariance Σ. So the same number of σ is as hard to see on every machine of one width.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import chi2, ncx2

from benchmarks.quality.windows import Labels, Matrix

Order = NDArray[np.intp]

KINDS = ("shared load", "warm-up", "independent columns", "constant columns", "slow drift")
SENSORS = (1, 2, 4, 8, 16)
TRAINING_ROWS = 2000
#: Normal rows before the first fault.
LEAD = 500
BLOCK, GAP = 60, 60
SINGLES, APART = 20, 10
#: The size of every fault, in residual σ.
SIZE = 6.0
#: Sensors of a machine that fail, one after the other; where it has fewer, they fail again.
FAULTY = 4
#: A constant column has no σ: this part of its unit stands for it.
RESOLUTION = 0.1
_MEMORY = 0.95
_CYCLE, _WARM = 400, 60.0
_NOISE = 0.3
#: How much warm-up and drift weigh beside the load: so little that a fault of 6 σ stands out even
#: where one sensor is all there is; drift leads at last about one residual σ away from the mean.
_SECOND = {"warm-up": 0.5, "slow drift": 0.07}


class Fault(NamedTuple):
    """One sensor is off by so many residual σ in these test rows: a block, or single rows."""

    sensor: int
    size: float
    shape: str
    rows: tuple[int, ...]
    constant: bool = False


@dataclass(frozen=True)
class Machine:
    """A machine's normal rows to learn, its later rows with faults, and the law behind them."""

    kind: str
    train: Matrix
    test: Matrix
    faults: tuple[Fault, ...]
    mean: Matrix
    covariance: Matrix

    @property
    def residual(self) -> Matrix:
        """The standard deviation of each sensor given all others."""
        return np.asarray(1.0 / np.sqrt(np.diag(np.linalg.inv(self.covariance))))

    def ordered(self, order: Order) -> "Machine":
        """Makes the same machine with its columns in another order."""
        place = np.argsort(order)
        return replace(
            self,
            train=self.train[:, order],
            test=self.test[:, order],
            faults=tuple(one._replace(sensor=int(place[one.sensor])) for one in self.faults),
            mean=self.mean[order],
            covariance=self.covariance[np.ix_(order, order)],
        )


def orders(sensors: int, seed: int) -> list[Order]:
    """Lists up to three orders of columns: as made, reversed, shuffled."""
    made = np.arange(sensors)
    shuffled = np.random.default_rng((seed, sensors)).permutation(sensors)
    found = {tuple(order.tolist()): order for order in (made, made[::-1], shuffled)}
    return list(found.values())


def machine(kind: str, sensors: int, seed: int, size: float = SIZE) -> Machine:
    """Makes a machine of a kind, with so many sensors."""
    rng = np.random.default_rng((seed, sensors, KINDS.index(kind)))
    places = _places(FAULTY)
    rows = TRAINING_ROWS + _length(places)
    factors = _factors(kind, rows, rng)
    loadings = _loadings(kind, factors.shape[1], sensors, rng)
    constant = _constant(kind, sensors)
    loadings[:, constant] = 0.0
    noise = np.where(constant, 0.0, _NOISE if len(loadings) else 1.0)
    unit = np.where(constant, 1.0, 10.0 ** rng.uniform(-2, 2, sensors))
    offset = unit * rng.uniform(10, 100, sensors)
    X = offset + unit * (factors @ loadings + noise * rng.normal(size=(rows, sensors)))
    spread = np.where(constant, RESOLUTION, noise)
    covariance = unit[:, None] * (loadings.T @ loadings + np.diag(spread**2)) * unit
    whole = Machine(kind, X[:TRAINING_ROWS], X[TRAINING_ROWS:], (), offset, covariance)
    faulty = np.resize(rng.permutation(sensors), FAULTY)
    return _broken(whole, faulty, places, constant, size)


def sibling(known: Machine, seed: int, memory: float, level: float) -> Machine:
    """Makes another machine of the same law, with the same sensors failing.

    A row remembers so much of the last one; each sensor's level is off by some share of its
    residual σ, about so large.
    """
    rng = np.random.default_rng((seed, len(known.mean)))
    mean = known.mean + level * known.residual * rng.normal(size=len(known.mean))
    places = _places(FAULTY)
    steps = rng.normal(size=(TRAINING_ROWS + _length(places), len(mean)))
    states = lfilter([np.sqrt(1 - memory**2)], [1, -memory], steps, axis=0)
    X = mean + states @ np.linalg.cholesky(known.covariance).T
    train, test = X[:TRAINING_ROWS], X[TRAINING_ROWS:]
    whole = replace(known, train=train, test=test, faults=(), mean=mean)
    faulty = np.array([one.sensor for one in known.faults if one.shape == "block"])
    return _broken(whole, faulty, places, np.zeros(len(mean), bool), SIZE)


def ideal(sensors: int, size: float = SIZE, rate: float = 0.01) -> float:
    """Computes the share of faulty rows that the true Mahalanobis distance flags at this rate.

    >>> [round(ideal(sensors), 3) for sensors in (1, 4, 16)]
    [1.0, 0.996, 0.949]
    """
    limit = chi2.ppf(1 - rate, sensors)
    return float(ncx2.sf(limit, sensors, size**2))


def _factors(kind: str, rows: int, rng: np.random.Generator) -> Matrix:
    """Makes what sensors have in common: columns of mean 0 and variance 1 over the rows learned."""
    time = np.arange(rows)
    load = _load(rows, rng)
    if kind == "independent columns":
        return np.empty((rows, 0))
    if kind == "warm-up":
        warm = np.exp(-(time % _CYCLE) / _WARM)
        return np.column_stack([load, (warm - warm[:_CYCLE].mean()) / warm[:_CYCLE].std()])
    if kind == "slow drift":
        ramp = (time - TRAINING_ROWS / 2) / (TRAINING_ROWS / np.sqrt(12))
        return np.column_stack([load, ramp])
    return load[:, None]


def _load(rows: int, rng: np.random.Generator) -> Matrix:
    """Makes a load that remembers its last value."""
    steps = rng.normal(size=rows)
    load = np.empty(rows)
    load[0] = steps[0]
    for i in range(1, rows):
        load[i] = _MEMORY * load[i - 1] + np.sqrt(1 - _MEMORY**2) * steps[i]
    return load


def _loadings(kind: str, factors: int, sensors: int, rng: np.random.Generator) -> Matrix:
    signs = rng.choice([-1.0, 1.0], size=(factors, sensors))
    loadings = np.asarray(signs * rng.uniform(0.6, 1.2, size=(factors, sensors)))
    loadings[1:] *= _SECOND.get(kind, 1.0)
    return loadings


def _constant(kind: str, sensors: int) -> Labels:
    """Marks the constant columns: every second one."""
    return np.arange(sensors) % 2 == 0 if kind == "constant columns" else np.zeros(sensors, bool)


def _places(faults: int) -> list[tuple[range, range]]:
    """Lays out the rows of each sensor's block and of its single rows."""
    length = BLOCK + GAP + SINGLES * APART + GAP
    starts = [LEAD + number * length for number in range(faults)]
    return [(range(s, s + BLOCK), range(s + BLOCK + GAP, s + length - GAP, APART)) for s in starts]


def _length(places: list[tuple[range, range]]) -> int:
    return places[-1][1].stop + GAP


def _broken(
    whole: Machine, faulty: Order, places: list[tuple[range, range]], constant: Labels, size: float
) -> Machine:
    """Puts the faults in: of every second sensor downwards."""
    test, faults = whole.test.copy(), []
    for number, (sensor, shapes) in enumerate(zip(faulty.tolist(), places, strict=True)):
        signed = size * (-1) ** number
        for shape, rows in zip(("block", "single"), shapes, strict=True):
            test[list(rows), sensor] += signed * whole.residual[sensor]
            faults.append(Fault(sensor, signed, shape, tuple(rows), bool(constant[sensor])))
    return replace(whole, test=test, faults=tuple(faults))
