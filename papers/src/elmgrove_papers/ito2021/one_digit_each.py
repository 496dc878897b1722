"""Not in the paper: four devices that know one of scikit-learn's digits each, and one that leaves.

What a device has learned is normal, the digits of no device are anomalies. Each is tested on both
before and after one cooperative update, then on the digit of a device that has left. All rows of
the training part are learned, and one row in five is for tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Array, Basis, HiddenLayer, suggested_units
from elmgrove.detector import Detector
from elmgrove.errors import require_extra
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.measures import auc

#: How many devices there are; the last one leaves.
DEVICES = 4
OWN, PEERS, UNKNOWN, AUC = "own digit", "peers' digits", "unknown digits", "AUC"
BEFORE, AFTER = "before", "after"
ALONE, WITH, LEFT = "alone", "with the last one", "after it left"


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits, 8 × 8 pixels in [0, 1]; one row in five is for tests."""

    train: Array
    train_digit: Array
    test: Array
    test_digit: Array

    @classmethod
    def load(cls, seed: int) -> "Digits":
        """Load the digits, in an order that the seed decides."""
        bunch = require_extra("sklearn.datasets", "sklearn").load_digits()
        order = np.random.default_rng(seed).permutation(len(bunch.data))
        rows, digits = bunch.data[order] / 16.0, bunch.target[order]
        cut = len(rows) // 5
        return cls(rows[cut:], digits[cut:], rows[:cut], digits[:cut])


def digits(run: Run) -> Numbers:
    """Gives losses and ROC-AUC before and after, and how far models are from central training."""
    data, names = Digits.load(SEED), [f"device-{digit}" for digit in range(DEVICES)]
    rows = {name: data.train[data.train_digit == digit] for digit, name in enumerate(names)}
    inputs = data.train.shape[1]
    basis = Basis(HiddenLayer(inputs, suggested_units(inputs, "loss"), seed=SEED), inputs)
    fleet = Fleet(basis, meeting=run.meeting)
    try:
        for name in names:
            fleet.learn(name, rows[name])
        before, alone = _tested(fleet, data, names), _on_last(fleet, data, names)
        fleet.sync()
        after, known = _tested(fleet, data, names), _on_last(fleet, data, names)
        merged = difference(fleet, rows)
        fleet.leave(names[-1])
        fleet.sync()
        rest = names[:-1]
        left = _on_last(fleet, data, rest)
        return {
            "loss and AUC": {
                name: {
                    f"{measure} {when}": found[name][measure]
                    for measure in (OWN, PEERS, UNKNOWN, AUC)
                    for when, found in ((BEFORE, before), (AFTER, after))
                }
                for name in names
            },
            f"loss on {names[-1]}'s digit": {
                name: {ALONE: alone[name], WITH: known[name], LEFT: left[name]} for name in rest
            },
            "β differs from central training by": merged,
            "after it left by": difference(fleet, {name: rows[name] for name in rest}),
        }
    finally:
        fleet.close()


def difference(fleet: Fleet, rows: Mapping[str, Array]) -> float:
    """Compares all models with one that learned all rows in one place: largest difference of β."""
    first = fleet.detector(next(iter(rows)))
    central = Detector.for_basis(first.basis, ridge=first.model.ridge)
    central.learn_many(np.vstack(list(rows.values())))
    wanted = central.evidence.solve(first.model.ridge)
    betas = [_beta(fleet.detector(name)) for name in rows]
    return max(float(np.abs(beta - wanted).max() / np.abs(wanted).max()) for beta in betas)


def _beta(detector: Detector) -> Array:
    """The output weights by all that a device learned and received."""
    own, received = detector.evidence, detector.received
    total = own if received is None else own + received
    return total.solve(detector.model.ridge)


def _tested(fleet: Fleet, data: Digits, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Mean losses of each device by sort of digit, and how well it tells known from unknown."""
    found = dict[str, dict[str, float]]()
    known = data.test_digit < DEVICES
    for digit, name in enumerate(names):
        scores, own = fleet.detector(name).score_many(data.test), data.test_digit == digit
        sorts = {OWN: own, PEERS: known & ~own, UNKNOWN: ~known}
        losses = {sort: float(scores[chosen].mean()) for sort, chosen in sorts.items()}
        found[name] = losses | {AUC: auc(scores[known], scores[~known])}
    return found


def _on_last(fleet: Fleet, data: Digits, names: Sequence[str]) -> dict[str, float]:
    """The mean loss of each device on the digit of the one that leaves."""
    rows = data.test[data.test_digit == DEVICES - 1]
    return {name: float(fleet.detector(name).score_many(rows).mean()) for name in names}
