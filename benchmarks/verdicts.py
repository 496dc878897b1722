"""What a verdict costs by the number of inputs: now, in the way of release 0.1, and by trees.

``observe`` checks a row, scores it, decides, learns it and gives a verdict. The default now is a
distance; 0.1's way was the papers' loss, on rows that the caller had set side by side. Its code is
still there (``score="loss"``), and stands for it. Beside 0.1 itself (commit 3df712d; one thread,
medians of runs in turn) it observes in 0.82 to 0.84 of the time at 8 and 19 inputs and in 0.95 to
0.97 at more, so ``observe`` is held to more than 0.1 here. It scores many rows in 1.07 to 1.10 of
the time at 8 and 19 inputs, which flatters ``score_many``; at more, noise hides any difference.
"""

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm

from benchmarks.clock import Case
from benchmarks.rows import SEED, Matrix, rows
from elmgrove import Detector, HiddenLayer, Scaling
from elmgrove.algebra.layer import suggested_units

Cases = dict[str, Case]

#: Rows that are scored in one call, and rows that come together where several are observed.
MANY, TOGETHER = 4096, 32
_ROWS = 2 * MANY


class Shape(NamedTuple):
    """Columns of a row, rows that are one input, and hidden units if they are not the default."""

    columns: int
    window: int = 1
    units: int | None = None


#: What is measured, by the number of inputs.
SHAPES = {
    8: Shape(8),
    19: Shape(19),
    190: Shape(19, 10),
    380: Shape(38, 10),
    561: Shape(561, 1, 128),
}


def observing(inputs: int) -> Cases:
    """Makes the calls for one row, or for some that come together, in the middle of a stream."""
    R, S = _rows(inputs)
    now, together, before = _by_distance(inputs), _by_distance(inputs), _by_loss(inputs)
    starts = cycle(range(0, len(R) - TOGETHER, TOGETHER))

    def some() -> Matrix:
        start = next(starts)
        return R[start : start + TOGETHER].copy()

    return {
        "observe": Case(_one_of(R), now.observe),
        "observe, as 0.1": Case(_one_of(S), before.observe),
        "observe_many": Case(some, together.observe_many),
    }


def scoring(inputs: int) -> Cases:
    """Makes the calls that score many rows."""
    R, S = _rows(inputs)
    now, before = _by_distance(inputs), _by_loss(inputs)
    return {
        "score_many": Case(lambda: R[:MANY], now.score_many),
        "score_many, as 0.1": Case(lambda: S[:MANY], before.score_many),
        "its products alone": Case(lambda: S[:MANY], _products_of(now)),
    }


def trees(inputs: int) -> Cases:
    """Makes River's HalfSpaceTrees with its defaults, from ready dicts of all inputs."""
    from river.anomaly import HalfSpaceTrees

    model: Any = HalfSpaceTrees(seed=SEED)
    names = [f"column {i}" for i in range(inputs)]
    source = _one_of(_rows(inputs)[1])

    def ready() -> dict[str, float]:
        return dict(zip(names, source().tolist(), strict=True))

    def both(x: dict[str, float]) -> float:
        model.learn_one(x)
        return float(model.score_one(x))

    for _ in range(2 * model.window_size):
        model.learn_one(ready())
    return {"HalfSpaceTrees": Case(ready, both)}


def _products_of(detector: Detector) -> Callable[[Matrix], object]:
    """Makes the bare products that a score can't do without, in float64 and nothing else.

    Ωz where all products are at hand, else w = Kz, and Kᵀw for the columns of the last row.
    """
    K = np.asfortranarray(detector.model.explainer(np.zeros(detector.basis.inputs)).K)
    if len(K) == K.shape[1]:
        return lambda X: dgemm(1.0, K, X.T)
    K_last = np.asfortranarray(K[:, -detector.basis.layer.inputs :])
    return lambda X: dgemm(1.0, K_last, dgemm(1.0, K, X.T), trans_a=1)


def _rows(inputs: int) -> tuple[Matrix, Matrix]:
    """Rows as they come, and those of each window side by side."""
    shape = SHAPES[inputs]
    R = np.ascontiguousarray(rows(_ROWS)[:, : shape.columns])
    if shape.window == 1:
        return R, R
    view = np.lib.stride_tricks.sliding_window_view(R, shape.window, axis=0)
    return R, np.ascontiguousarray(view.transpose(0, 2, 1)).reshape(-1, inputs)


def _by_distance(inputs: int) -> Detector:
    shape, R = SHAPES[inputs], _rows(inputs)[0]
    detector = Detector.for_data(R, window=shape.window, units=shape.units, seed=SEED)
    return _experienced(detector, R)


def _by_loss(inputs: int) -> Detector:
    S = _rows(inputs)[1]
    units = SHAPES[inputs].units or suggested_units(inputs, "loss")
    layer = HiddenLayer(inputs, units, seed=SEED)
    return _experienced(Detector(layer, scaling=Scaling.fitted("standard", S), score="loss"), S)


def _experienced(detector: Detector, R: Matrix) -> Detector:
    # So many that what is computed again from time to time is as seldom as it will ever be.
    detector.learn_many(R)
    for row in R[:16]:
        detector.observe(row)
    return detector


def _one_of(R: Matrix) -> Callable[[], Matrix]:
    """Gives one row after another without end, each a new copy: in the cache, as if just read."""
    source: Iterator[Matrix] = cycle(R)
    return lambda: next(source).copy()
