"""A self-test: how large an error of each sensor a detector would notice, given the others."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from elmgrove.algebra.moments import Moments
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN, Levels
from elmgrove.detector.decision import LEARNING
from elmgrove.detector.detector import Detector

#: Sensors that are named in words, at most.
_MOST = 12


class SmallestError(NamedTuple):
    """The smallest error of a sensor that would be noticed, in the data's units; None if none.

    ``usual`` is how far the sensor moves by itself: its deviation, 0 where it never moved.
    """

    feature: str
    size: float | None
    usual: float

    @property
    def hardly(self) -> bool:
        """Whether an error must leave the sensor's own range first: more than three deviations."""
        return self.size is None or 0.0 < 3.0 * self.usual < self.size


def smallest_errors(detector: Detector) -> list[SmallestError]:
    """Finds how large an error of each sensor must be, given the others, to be noticed.

    That is tried on the last rows learned: an error, up or down, that lasts as long as a window is
    noticed where nine of ten such rows, of either kind, are above the threshold. Errors up to 32
    deviations of the sensor are tried, each about a tenth larger than the one before; of very many
    sensors some, evenly chosen. Nothing while there is no threshold, nor where rows are samples: a
    sensor is many columns there.
    """
    rows = detector.gate.recent.rows
    if detector.state == LEARNING or detector.basis.spectrum is not None or not len(rows):
        return []
    rows = rows[np.linspace(0, len(rows) - 1, min(128, len(rows))).astype(int)]
    levels = _levels(detector)
    found, names = [], detector.basis.names
    # Each takes its time.
    tried = min(256, (1 << 17) // detector.basis.inputs, len(names))
    for column in np.linspace(0, len(names) - 1, tried).astype(int).tolist():
        size = _smallest(detector, rows, column, float(levels.unit[column]))
        _, scale = detector.basis.scaling.units(column)
        size = None if size is None else size * scale
        usual = float(levels.deviation[column] * scale)
        found.append(SmallestError(names[column], size, usual))
    return found


def errors_in_words(noticed: Sequence[SmallestError]) -> str:
    """The result of a self-test in words, of many sensors the best and the worst; or ''.

    >>> print(errors_in_words([SmallestError("temp", 1.84, 7.0)]))
    Smallest errors it notices (in 9 of 10 rows): temp ± 1.8.
    >>> found = [SmallestError("temp", 1.84, 7.0), SmallestError("volt", 4.7, 1.0)]
    >>> print(errors_in_words(found)[46:])
    temp ± 1.8; only large ones, as no other sensor tells: volt ± 4.7.
    """
    ranked = sorted(noticed, key=_reach)
    seen = [_in_words(one) for one in ranked if not one.hardly]
    alone = [_in_words(one) for one in reversed(ranked) if one.hardly]
    room = _MOST - min(len(alone), _MOST // 2)
    said = [_listed(seen, room)] if seen else []
    if alone:
        few = _listed(alone, _MOST - min(len(seen), room))
        said.append(f"only large ones, as no other sensor tells: {few}")
    return f"Smallest errors it notices (in 9 of 10 rows): {'; '.join(said)}." if said else ""


def _in_words(one: SmallestError) -> str:
    return f"{one.feature} {'not at all' if one.size is None else f'± {_rounded(one.size)}'}"


def _smallest(detector: Detector, rows: Array, column: int, unit: float) -> float | None:
    """The smallest error that is noticed, as the model's inputs are scaled; None if none is."""
    block = column + detector.basis.layer.inputs * np.arange(detector.basis.window)
    limit = detector.threshold

    def is_noticed(size: float) -> bool:
        faulty = np.concatenate([rows, rows])
        faulty[: len(rows), block] += size
        faulty[len(rows) :, block] -= size
        # Written so that a score that is no number would be anomalous.
        flagged = ~(detector.model.scores(faulty) <= limit)
        up, down = flagged[: len(rows)], flagged[len(rows) :]
        # More than the 9 of 10 that are promised, since rows to come are others.
        return bool(min(up.mean(), down.mean()) >= 0.95)

    sizes = unit * 32.0 * 2.0 ** (-np.arange(128) / 8.0)
    # The first ones are noticed, the rest are not.
    known, unknown = -1, len(sizes)
    while unknown - known > 1:
        middle = (known + unknown) // 2
        known, unknown = (middle, unknown) if is_noticed(sizes[middle]) else (known, middle)
    return None if known < 0 else float(sizes[known])


def _levels(detector: Detector) -> Levels:
    """Where the columns lie and how far they move, as the model's inputs are scaled."""
    evidence, scaling = detector.evidence, detector.basis.scaling
    if not isinstance(evidence, Moments):
        return Levels.of_rows(detector.gate.recent.rows.reshape(-1, detector.basis.layer.inputs))
    levels = evidence.levels
    if scaling.kind in ("none", OWN):
        return levels
    scale = np.array(scaling.scale)
    return Levels(levels.count, (levels.mean - scaling.shift) / scale, levels.variance / scale**2)


def _reach(one: SmallestError) -> float:
    """How many of its own deviations an error must have; a sensor that never moved needs none."""
    if one.size is None:
        return math.inf
    return one.size / one.usual if one.usual else 0.0


def _rounded(size: float | None) -> str:
    if not size:
        return "0"
    return f"{round(size, 1 - math.floor(math.log10(size))):g}"


def _listed(names: Sequence[str], most: int) -> str:
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return ", ".join(names)
