"""The battery: what share of each simulated fault's rows is flagged, and what beside it."""

from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import solve

from benchmarks.quality.machines import Fault, Machine, machine, orders
from benchmarks.quality.measure import auc
from benchmarks.quality.methods import DEFAULT, OTHERS, OWN, WINDOW, Method, Own
from benchmarks.quality.windows import Labels, Matrix

ORACLE = "the true law"


@dataclass(frozen=True)
class Case:
    """A simulated machine, and how much is tried on it."""

    kind: str
    sensors: int
    seed: int
    orders: int
    peers: bool
    windows: bool


@dataclass(frozen=True)
class Flagged:
    """What one method made of one machine's faults."""

    kind: str
    sensors: int
    seed: int
    order: int
    method: str
    faults: list[dict[str, Any]]
    false_alarms: float
    auc: float
    seconds: float

    def share(self, shape: str) -> float:
        """Gives the share of flagged rows over all faults of a shape."""
        return float(np.mean([one["flagged"] for one in self.faults if one["shape"] == shape]))


class Oracle:
    """Knows the true mean and covariance: what can be reached by a distance of one row."""

    def __init__(self, known: Machine) -> None:
        self._known = known

    def fit(self, train: Matrix) -> None:
        """Takes its threshold from the rows learned."""
        self.threshold = float(np.quantile(self.score(train), 0.99))

    def score(self, test: Matrix) -> Matrix:
        """Gives the squared Mahalanobis distance."""
        apart = (test - self._known.mean).T
        return np.asarray(
            (apart * solve(self._known.covariance, apart, assume_a="pos")).sum(axis=0)
        )


def tried(case: Case) -> list[Flagged]:
    """Tries every method on a machine: ours in several orders of columns, peers in the first."""
    made = machine(case.kind, case.sensors, case.seed)
    found = [_flagged(case, 0, made, ORACLE, Oracle(made))]
    for number, order in enumerate(orders(case.sensors, case.seed)[: case.orders]):
        turned = made.ordered(order)
        found += [
            _flagged(case, number, turned, entry.name, entry.make(case.seed))
            for entry in OWN
            if case.windows or not entry.windows or entry.name == DEFAULT
        ]
    for entry in OTHERS if case.peers else []:
        if case.windows or not entry.windows:
            found.append(_flagged(case, 0, made, entry.name, entry.make(case.seed)))
    return found


def _flagged(case: Case, order: int, made: Machine, name: str, method: Method) -> Flagged:
    begun = perf_counter()
    scores, flags = _verdicts(method, made)
    seconds = perf_counter() - begun
    return Flagged(
        *(case.kind, case.sensors, case.seed, order, name),
        faults=[_shares(fault, flags) for fault in made.faults],
        false_alarms=float(flags[calm(made)].mean()),
        auc=auc(faulty(made), scores),
        seconds=seconds,
    )


def _verdicts(method: Method, made: Machine) -> tuple[Matrix, Labels]:
    """Flags test rows: Elmgrove observes them, learning on; others compare with a threshold."""
    method.fit(made.train)
    if isinstance(method, Own):
        seen = method.watcher.observe(made.test)
        return seen.score, seen.anomalous
    scores = method.score(made.test)
    return scores, ~(scores <= method.threshold)


def _shares(fault: Fault, flags: Labels) -> dict[str, Any]:
    kept = fault._asdict()
    rows = list(kept.pop("rows"))
    return kept | {"first": rows[0], "count": len(rows), "flagged": float(flags[rows].mean())}


def faulty(made: Machine) -> Labels:
    """Marks the test rows with a fault."""
    marks = np.zeros(len(made.test), bool)
    for fault in made.faults:
        marks[list(fault.rows)] = True
    return marks


def calm(made: Machine) -> Labels:
    """Marks the test rows without a fault in the window that ends there."""
    near = np.convolve(faulty(made), np.ones(WINDOW))[: len(made.test)] > 0
    return np.asarray(~near)


def as_json(found: list[Flagged]) -> list[dict[str, Any]]:
    """Gives results as JSON holds them."""
    return [asdict(one) for one in found]
