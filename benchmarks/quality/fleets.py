"""Fleets: what a device with few rows of its own gains and loses by the others of its kind.

Each device of a set in turn has learned some of its rows, and all others all of theirs. It knows
them in one of three ways: not at all, by a loan, or as one model of everybody. Scaling and window
are those of a federation that was made with the others' rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.quality.measure import Quality, measured
from benchmarks.quality.sets import devices_of
from benchmarks.quality.windows import Matrix
from elmgrove import Basis, Detector
from elmgrove.detector.inputs import choose_window
from elmgrove.federation.contribution import Contribution, Ledger
from elmgrove.federation.member import Member

ALONE, LOAN, EVERYONE = "alone", "loan", "everyone"
#: The sets whose devices are a fleet.
FLEETS = ("SMD", "fans")
#: Own rows; None is all.
ROWS: tuple[int | None, ...] = (30, 100, 300, 1000, None)
#: Where a device's own rows begin, as a share of those there are.
STARTS = (0.1, 0.6)


class FleetCase(NamedTuple):
    """One device of a fleet that has learned so many rows."""

    set: str
    device: str
    rows: int | None
    start: float

    @property
    def title(self) -> str:
        """The name under which it is reported."""
        return fleet_title(self.set, self.rows)


def fleet_title(name: str, rows: int | None) -> str:
    """Names a fleet whose devices have learned so many rows of their own."""
    return f"{name} as a fleet, {'all' if rows is None else rows} own rows"


#: Each fleet and number of own rows, by the name under which they are reported.
TITLES = {fleet_title(name, rows): (name, rows) for name in FLEETS for rows in ROWS}


@dataclass
class Cooperating:
    """A device that uses others in one way."""

    basis: Basis
    others: Sequence[Contribution]
    use: Callable[[Detector, Sequence[Contribution]], None]

    def fit(self, train: Matrix) -> None:
        """Learns own rows, and takes in what others know."""
        self._detector = Detector.for_basis(self.basis)
        self._detector.learn_many(train)
        self.use(self._detector, self.others)

    def score(self, test: Matrix) -> Matrix:
        """Scores rows."""
        return np.asarray(self._detector.score_many(test), np.float64)

    @property
    def threshold(self) -> float:
        """The detector's own."""
        return self._detector.threshold


def _merge(detector: Detector, others: Sequence[Contribution]) -> None:
    detector.set_prior([part for other in others for part in other.parts])


WAYS: dict[str, Callable[[Detector, Sequence[Contribution]], None]] = {
    ALONE: lambda detector, others: None,
    LOAN: lambda detector, others: detector.set_peers((), Ledger(others).loan),
    EVERYONE: _merge,
}


def cases(name: str, folder: Path, quick: bool) -> list[FleetCase]:
    """Lists the devices of a fleet with each number of own rows, from two places of their rows."""
    made = []
    for device, known in devices_of(name, folder, quick).items():
        for rows in ROWS:
            if rows is not None and rows < len(known.train):
                made += [FleetCase(name, device, rows, start) for start in STARTS]
        made.append(FleetCase(name, device, None, 0.0))
    return made


def compared(case: FleetCase, folder: Path, quick: bool) -> dict[str, Quality]:
    """Measures each way to use the others."""
    known = devices_of(case.set, folder, quick)[case.device]
    basis, others = others_of(case.set, case.device, folder, quick)
    rows = known.train
    if case.rows is not None:
        begin = int(case.start * (len(rows) - case.rows))
        rows = rows[begin : begin + case.rows]
    return {
        name: measured(Cooperating(basis, others, use), rows, known.test, known.labels)
        for name, use in WAYS.items()
    }


@cache
def others_of(
    name: str, device: str, folder: Path, quick: bool
) -> tuple[Basis, tuple[Contribution, ...]]:
    """What all but one device contribute to a federation that was made with their rows."""
    rest = {one: rows.train for one, rows in devices_of(name, folder, quick).items()}
    del rest[device]
    window = choose_window(next(iter(rest.values()))).window
    basis = Basis.fitted(np.vstack(list(rest.values())), None, scaling="standard", window=window)
    made = []
    for one, rows in rest.items():
        detector = Detector.for_basis(basis)
        detector.learn_many(rows)
        made.append(Member(one, detector).contribution())
    return basis, tuple(made)
