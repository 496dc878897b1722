"""What a device needs by (n, Ñ): operations and memory, counted by formula and measured.

The paper has times at two sizes (Table 4), and says that merging grows by the inverse of Ñ × Ñ.
Here are all three ways to do the same: its equations as printed, our OS-ELM, whose state are U and
V, and our distance. n is the number of features, Ñ that of hidden units; rows are random, since
neither count nor time depends on their values. One thread, float64.

A multiplication stands for itself and the addition that comes with it in a product of matrices;
(8) itself has Ñ² + nÑ additions alone. What grows with n or Ñ alone is mostly left out. To give is
to compute what is sent, (15); to merge ends with a model that can score, (8) and (6).
"""

import tracemalloc
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from elmgrove.algebra import (
    OSELM,
    WAITING,
    Array,
    Basis,
    Distance,
    HiddenLayer,
    MomentSums,
    Scaling,
)
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.settings import HAR

LEARNING, SCORING, GIVING, MERGING = "learning", "scoring", "giving", "merging"
STEPS = (LEARNING, SCORING, GIVING, MERGING)
PRINTED, LOSS, DISTANCE = "as printed", "by loss", "by distance"
#: Sizes (n, Ñ): small ones, HAR's 265 features, the paper's, and a large one.
GRID = ((32, 16), (128, 32), (265, 128), (561, 64), (561, 128), (784, 64), (784, 256))
RIDGE = 1e-3
#: Measured so often, in processor time; the fastest counts: only the machine's other work differs.
TURNS = 5
_NUMBER = 8
# Rows of OS-ELM that wait for their addition to V.
_FEW_WAITING = 16


class Printed:
    """OS-ELM with the equations as they are in the paper: its state are P and β."""

    def __init__(self, alpha: Array, b: Array, X: Array) -> None:
        self.alpha, self.b = alpha, b
        H = X @ alpha + b
        self.P: Array = np.linalg.inv(H.T @ H + RIDGE * np.eye(len(b)))
        self.beta: Array = self.P @ H.T @ X

    def learn(self, x: Array) -> None:
        """Learns one row, by (12) with a batch of one."""
        h = x @ self.alpha + self.b
        Ph = self.P @ h
        # P_i = P − P hᵀ (1 + h P hᵀ)⁻¹ h P
        self.P = self.P - np.outer(Ph, Ph / (1.0 + h @ Ph))
        # β_i = β + P_i hᵀ (t − h β)
        self.beta = self.beta + np.outer(self.P @ h, x - h @ self.beta)

    def score(self, x: Array) -> float:
        """Computes the loss of one row, by (1)."""
        r = x - (x @ self.alpha + self.b) @ self.beta
        return float(r @ r)

    def give(self) -> tuple[Array, Array]:
        """Computes U and V from P and β, by (15)."""
        U = np.linalg.inv(self.P)
        return U, U @ self.beta

    def merge(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Adds the other's to its own, by (8), and computes P and β of the sum, by (6)."""
        own_U, own_V = self.give()
        P = np.linalg.inv(own_U + U)
        return P, P @ (own_V + V)


def counted(n: int, units: int) -> dict[str, dict[str, int]]:
    """Counts the multiplications of each step."""
    N = units
    return {
        # h, hβ and the update of β; Ph, P_i h and the update of P; an inverse takes Ñ³
        PRINTED: {
            LEARNING: 3 * n * N + 3 * N**2 + N,
            SCORING: 2 * n * N + n,
            GIVING: N**3 + n * N**2,
            MERGING: 2 * (N**3 + n * N**2),
        },
        # h and V; w = Ph and its residual, a triangle of U and one of P; U and V, times a weight
        LOSS: {
            LEARNING: 2 * n * N + 3 * N**2,
            SCORING: 2 * n * N + 2 * N**2 + n,
            GIVING: n * N + N**2,
            # a check that solves for β; the factor of the sum and P from it; a row's score
            MERGING: 2 * N**3 // 3 + n * N**2 + 4 * n * N + 3 * N**2,
        },
        # yA and its products with y; Kz; C, s and e are there, and are copied
        DISTANCE: {
            LEARNING: 2 * n * N + n,
            SCORING: n * N + 4 * n,
            GIVING: 0,
            # products in units, I + LLᵀ, L and K by triangular systems, and two factors
            MERGING: (5 * n * N**2) // 2 + N**3 // 3,
        },
    }


def counted_bytes(n: int, units: int) -> dict[str, int]:
    """Counts the bytes that a device holds between two rows."""
    N = units
    numbers = {
        # α, b, P, β
        PRINTED: (2 * n + N + 1) * N,
        # α, b, U, P, V, and rows that wait
        LOSS: (2 * n + 2 * N + 1) * N + _FEW_WAITING * (n + N),
        # α, b, C, and L, K and what of K is for single values; rows that wait; twelve vectors
        DISTANCE: (5 * n + 1) * N + (WAITING + 12) * n,
    }
    return {way: _NUMBER * count for way, count in numbers.items()}


class Case(NamedTuple):
    """One way to do it: a call for each step, and what a device holds."""

    calls: Mapping[str, Callable[[Array], Any]]
    state: tuple[Any, ...]


def hardware(run: Run) -> Numbers:
    """Counts and measures all sizes; quick: four of them, a tenth of the calls. Reads no data."""
    found: Numbers = {"multiplications": {}, "microseconds": {}, "bytes held": {}, "bytes more": {}}
    sizes = GRID[1:5] if run.quick else GRID
    for n, units in run.track(sizes, "Sizes"):
        expected, size = counted(n, units), counted_bytes(n, units)
        with threadpool_limits(1, "blas"):
            for way, case in cases(n, units).items():
                name = f"n = {n}, Ñ = {units}, {way}"
                X = _rows(WAITING, n)
                found["multiplications"][name] = expected[way]
                found["bytes held"][name] = {
                    "counted": size[way],
                    "measured": held(*case.state),
                }
                found["microseconds"][name] = {
                    step: 1e6 * _seconds(case.calls[step], X, run.at_most(1, 10)) for step in STEPS
                }
                found["bytes more"][name] = {step: _peak(case.calls[step], X[0]) for step in STEPS}
    return found


def cases(n: int, units: int) -> dict[str, Case]:
    """Makes a device of each way that has learned some rows, and what another one has to give."""
    layer = HiddenLayer(n, units, HAR.activation, "uniform", seed=SEED)
    # So many that none still wait for the upload guard to look at their values.
    many = max(2 * n, WAITING)
    own, other = _rows(many, n), _rows(many, n, SEED + 1)
    return {
        PRINTED: _printed(layer, own, other),
        LOSS: _by_loss(layer, own, other),
        DISTANCE: _by_distance(layer, own, other),
    }


def _printed(layer: HiddenLayer, own: Array, other: Array) -> Case:
    device = Printed(layer.alpha, layer.b, own)
    sums = Printed(layer.alpha, layer.b, other).give()
    calls = {
        LEARNING: device.learn,
        SCORING: device.score,
        GIVING: lambda x: device.give(),
        MERGING: lambda x: device.merge(*sums),
    }
    return Case(calls, (device,))


def _by_loss(layer: HiddenLayer, own: Array, other: Array) -> Case:
    device, sender = (OSELM(layer, layer.inputs, ridge=RIDGE) for _ in range(2))
    device.learn_many(own, own)
    sender.learn_many(other, other)
    device.predict_one(own[0])
    sums = sender.evidence

    def merge(x: Array) -> None:
        device.prior = sums
        # The model is solved for when it is needed: that is part of it.
        device.predict_one(x)
        device.use_prior(None)

    calls = {
        LEARNING: lambda x: device.learn_one(x, x),
        SCORING: device.predict_one,
        GIVING: lambda x: device.evidence,
        MERGING: merge,
    }
    return Case(calls, (device,))


def _by_distance(layer: HiddenLayer, own: Array, other: Array) -> Case:
    basis = Basis(layer, layer.inputs, scaling=Scaling.fitted("standard", own), score="distance")
    device, sender = (MomentSums(basis, 1.0) for _ in range(2))
    device.add_many(own)
    sender.add_many(other)
    sums, distance = sender.evidence, Distance(device.evidence)
    calls = {
        LEARNING: device.add,
        SCORING: distance.score_one,
        GIVING: lambda x: device.settled,
        MERGING: lambda x: Distance(device.settled + sums),
    }
    return Case(calls, (device, distance))


def _rows(count: int, n: int, seed: int = SEED) -> Array:
    return np.random.default_rng(seed).normal(size=(count, n))


def _seconds(call: Callable[[Array], Any], X: Array, fewer: int) -> float:
    """The mean of a call in the fastest of some turns; a turn is short where calls are long."""
    started = process_time()
    call(X[0])
    once = process_time() - started
    # What waits for others is done once in so many rows, and so is part of a turn.
    rows = X if once < 1e-3 else X[: max(1, 20 // fewer)]
    turns = []
    for _ in range(max(1, TURNS // fewer)):
        started = process_time()
        for x in rows:
            call(x)
        turns.append((process_time() - started) / len(rows))
    return min(turns)


def _peak(call: Callable[[Array], Any], x: Array) -> int:
    """Bytes that a call holds at most, beyond what was held before it."""
    call(x)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    call(x)
    most = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return most


def held(*things: Any) -> int:
    """Adds up the bytes of all arrays that things hold, each once."""
    seen, waiting, total = set[int](), list(things), 0
    while waiting:
        thing = waiting.pop()
        while isinstance(thing, np.ndarray) and thing.base is not None:
            thing = thing.base
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            total += thing.nbytes
        elif isinstance(thing, (dict, list, tuple)):
            waiting += thing.values() if isinstance(thing, dict) else thing
        else:
            waiting += getattr(thing, "__dict__", {}).values()
    return total
