"""What is measured: how well scores tell rows apart, and what a threshold makes of them."""

from collections.abc import Sequence
from importlib import import_module
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.quality import adapter
from benchmarks.quality.methods import Method
from benchmarks.quality.sets import Device
from benchmarks.quality.windows import Labels, Matrix

#: Rows by which a device's scaling and window are chosen before its stream begins: a day of SMD.
FIRST_ROWS = 1440


class Quality(NamedTuple):
    """ROC-AUC, average precision; recall and false alarms at the threshold; seconds."""

    auc: float
    ap: float
    recall: float
    false_alarms: float
    fit_seconds: float
    score_seconds: float


class Stream(NamedTuple):
    """What a device says that observes all its rows from the first on.

    ``watching_from`` is the first row at which it watches (None: never). Shares are of rows while
    it watches: ``false_alarms`` of the normal test rows, ``flagged_in_training`` of the training
    rows, ``recall`` of the anomalous rows. ``watched`` is the share of test rows at which it does.
    """

    watching_from: int | None
    watched: float
    false_alarms: float | None
    flagged_in_training: float | None
    recall: float | None
    states: dict[str, int]
    seconds: float


def measured(method: Method, train: Matrix, test: Matrix, labels: Labels) -> Quality:
    """Fits a method, scores the test rows, and compares with the labels."""
    begun = perf_counter()
    method.fit(train)
    threshold = method.threshold
    fitted = perf_counter()
    scores = method.score(test)
    done = perf_counter()
    flagged = ~(scores <= threshold)
    return Quality(
        auc=auc(labels, scores),
        ap=average_precision(labels, scores),
        recall=float(flagged[labels].mean()),
        false_alarms=float(flagged[~labels].mean()),
        fit_seconds=fitted - begun,
        score_seconds=done - fitted,
    )


def auc(labels: Labels, scores: Matrix) -> float:
    """Computes the ROC-AUC: the share of pairs in which the anomaly has the higher score."""
    metrics: Any = import_module("sklearn.metrics")
    return float(metrics.roc_auc_score(labels, scores))


def average_precision(labels: Labels, scores: Matrix) -> float:
    """Computes the average precision over all thresholds."""
    metrics: Any = import_module("sklearn.metrics")
    return float(metrics.average_precision_score(labels, scores))


def streamed(device: Device, seed: int) -> Stream:
    """Lets a default detector observe a device's training rows and then its test rows."""
    watcher = adapter.made(device.train[:FIRST_ROWS], None, None, seed)
    begun = perf_counter()
    seen = watcher.observe(np.vstack([device.train, device.test]))
    seconds = perf_counter() - begun
    return judged(seen.state, seen.anomalous, len(device.train), device.labels, seconds)


def judged(
    states: Sequence[str], flagged: Labels, trained: int, labels: Labels, seconds: float = 0.0
) -> Stream:
    """Counts what was flagged while watching, of which rows."""
    state = np.array(states)
    watching = state == adapter.WATCHING
    test = np.arange(len(state)) >= trained
    anomalous = np.concatenate([np.zeros(trained, bool), labels])
    names, counts = np.unique(state, return_counts=True)
    return Stream(
        watching_from=int(watching.argmax()) if watching.any() else None,
        watched=float(watching[test].mean()),
        false_alarms=_share(flagged, watching & test & ~anomalous),
        flagged_in_training=_share(flagged, watching & ~test),
        recall=_share(flagged, watching & anomalous),
        states=dict(zip(names.tolist(), counts.tolist(), strict=True)),
        seconds=seconds,
    )


def _share(flagged: Labels, of: Labels) -> float | None:
    return float(flagged[of].mean()) if of.any() else None
