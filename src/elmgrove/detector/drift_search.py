"""Drift in rows that are all there: the stretch in which rows are rarer, for good."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.rows import Array
from elmgrove.detector.drift import CHANGE, BlockMean, Drift, Since, described
from elmgrove.detector.drift_detector import (
    ALLOWED,
    HEIGHT,
    LEAST_ANOMALOUS,
    SHARE,
    SUDDEN,
    lasting,
    neighbours_of,
    rarities,
)

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector

# The blocks in which rows are looked at, and rows before a change that are compared with it.
_BLOCKS, _BEFORE = 48, 4096
# Rows that are prepared at once.
_AT_ONCE = 4096


def drift_in(
    detector: "Detector",
    scores: Array,
    anomalous: NDArray[np.bool_],
    rows: Callable[[int, int], Array],
    times: Array | None = None,
    place: Callable[[int], str] = lambda row: "",
) -> Drift | None:
    """Finds the largest lasting change in rows that were scored one after another; None if none.

    ``rows`` gives those from one up to another, prepared as the model takes them; ``place`` says in
    words where one is. It is what a ``DriftDetector`` would have told of it at its end. Where rows
    are others from the first one on, only what was learned says what is different.
    """
    recent, window = detector.gate.recent, detector.window
    if not len(recent) or not anomalous.any():
        return None
    rare = rarities(scores, recent)
    length = neighbours_of(detector.gate, detector.model).length
    begin, end, height = _highest((rare - ALLOWED) / length)
    few = end - begin < lasting(window) or height < HEIGHT
    if few or anomalous[begin:end].mean() < LEAST_ANOMALOUS:
        return None
    first, last, sudden = _highest((rare[begin:end] - SUDDEN) / length)
    if sudden >= SHARE * height:
        begin, end = begin + first, begin + last
    found = _told(detector, anomalous, rows, times, begin, end)
    whole = begin <= window and found.kind == CHANGE
    return replace(found, whole=whole, place=place(end - found.rows))


def _highest(steps: Array) -> tuple[int, int, float]:
    """Where Page-Hinkley's sum rises most above its minimum: from which step on, up to which."""
    m = np.concatenate([[0.0], np.cumsum(steps)])
    heights = m - np.minimum.accumulate(m)
    end = int(heights.argmax())
    begin = int(m[: end + 1].argmin()) if end else 0
    return begin, end, float(heights[end])


def _told(
    detector: "Detector",
    anomalous: NDArray[np.bool_],
    rows: Callable[[int, int], Array],
    times: Array | None,
    begin: int,
    end: int,
) -> Drift:
    since = Since(detector.basis.layer.inputs)
    for start in range(begin, end, _AT_ONCE):
        stop = min(start + _AT_ONCE, end)
        time = None if times is None else float(times[start])
        since.add_many(rows(start, stop), int(anomalous[start:stop].sum()), time)
    edges = np.unique(np.linspace(max(begin - _BEFORE, 0), end, _BLOCKS + 1).astype(int))
    blocks = [
        BlockMean(
            int(stop - start),
            float("nan") if times is None else float(np.mean(times[start:stop])),
            np.asarray(rows(start, stop).mean(axis=0), np.float64),
        )
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    now = None if times is None else float(times[end - 1])
    return described(detector.model, detector.gate.recent.rows, since, blocks, False, now)
