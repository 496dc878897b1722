"""Elmgrove's calls on the papers' model to time, and the bare work that is in them.

Detectors here score by loss, as the papers' do; ``verdicts`` has the default, the distance.
"""

from dataclasses import replace
from functools import partial
from itertools import cycle, islice

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.blas import dgemm

from benchmarks.clock import Case
from benchmarks.literal import LiteralOSELM
from benchmarks.rows import INPUTS, SEED, Matrix, rows, stream
from elmgrove import OSELM, Detector, Evidence, HiddenLayer

Cases = dict[str, Case]

BULK_ROWS = 4096
CONTRIBUTIONS = (2, 100, 1000)
GEMM_SIZE = 1024
# Beyond this many bytes contributions repeat: no cache holds them, and memory stays free.
_DISTINCT = 2**29
_CHUNK = 64


def one_row(units: int) -> Cases:
    """Makes the calls for one row, on detectors in the middle of a stream."""
    layer = HiddenLayer(INPUTS, units, seed=SEED)
    model = OSELM(layer, INPUTS)
    model.learn_many(rows(2048), rows(2048))
    learner, scorer, still, observer, member = (_experienced(layer) for _ in range(5))
    member.set_prior([still.evidence])
    source = stream()

    def after_learning() -> Matrix:
        scorer.learn_one(next(source))
        return next(source)

    return {
        "OSELM.learn_one": Case(source.__next__, lambda x: model.learn_one(x, x)),
        "Detector.learn_one": Case(source.__next__, learner.learn_one),
        "Detector.score_one": Case(after_learning, scorer.score_one),
        "Detector.score_one again": Case(source.__next__, still.score_one),
        "Detector.observe": Case(source.__next__, observer.observe),
        "Detector.observe after merging": Case(source.__next__, member.observe),
    }


def bulk(units: int) -> Cases:
    """Makes the calls for many rows at once, and the product of matrices they are compared with."""
    layer = HiddenLayer(INPUTS, units, seed=SEED)
    X = rows(BULK_ROWS)
    model, detector = OSELM(layer, INPUTS), Detector(layer, score="loss")
    written = LiteralOSELM(layer, rows(2 * units))
    A, B, C = (np.ones((GEMM_SIZE, GEMM_SIZE), order="F") for _ in range(3))

    def in_chunks(X: Matrix) -> None:
        for start in range(0, len(X), _CHUNK):
            written.learn(X[start : start + _CHUNK])

    return {
        "OSELM.learn_many": Case(lambda: X, lambda X: model.learn_many(X, X)),
        "Detector.learn_many": Case(lambda: X, detector.learn_many),
        "GEMM": Case(lambda: C, lambda C: dgemm(1.0, A, B, c=C, overwrite_c=1)),
        # Last: NumPy has a BLAS of its own, and threads of one disturb the other for a while.
        "literal chunks": Case(lambda: X[: 8 * _CHUNK], in_chunks),
    }


def merging(units: int) -> Cases:
    """Makes the calls that add contributions and solve, and those that add bare arrays.

    A detector's scores also follow such a change, which takes as long for one as for a thousand.
    """
    layer = HiddenLayer(INPUTS, units, seed=SEED)
    model = OSELM(layer, INPUTS)
    model.learn_many(rows(2048), rows(2048))
    size = (units + INPUTS) * units * np.dtype(np.float64).itemsize
    # Equal in value, each with arrays of its own.
    one = model.evidence
    distinct = [replace(one) for _ in range(min(max(CONTRIBUTIONS), _DISTINCT // size))]
    parts = list(islice(cycle(distinct), max(CONTRIBUTIONS)))

    def merged(chosen: list[Evidence]) -> Matrix:
        model.prior = Evidence.sum(chosen)
        return model.beta

    def added(chosen: list[Evidence]) -> Matrix:
        # In the layout in which they are, or each addition would be a transposition as well.
        U, V = chosen[0].U.copy(order="K"), chosen[0].V.copy(order="K")
        for part in chosen[1:]:
            U += part.U
            V += part.V
        U[np.diag_indices_from(U)] += model.ridge
        return cholesky(U, overwrite_a=True, check_finite=False)

    return {
        f"{name} {count}": Case(partial(parts.__getitem__, slice(count)), call)
        for count in CONTRIBUTIONS
        for name, call in (("merge", merged), ("add", added))
    }


def _experienced(layer: HiddenLayer) -> Detector:
    detector = Detector(layer, score="loss")
    detector.learn_many(rows(2048))
    detector.observe(rows(2048)[0])
    return detector
