"""Poison: what one lender that lies does to a device that has few rows of its own.

One server of SMD in turn has learned some rows and borrows from the eleven others, the first of
which lies: it lends what the device's own test anomalies would have taught it. Recall is at the
limit that 1 % of the normal test rows exceed. Beside the lies stands what it costs when that lender
is not there at all.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.quality.fleets import STARTS, others_of
from benchmarks.quality.sets import devices_of
from benchmarks.quality.windows import Matrix
from elmgrove import Basis, Detector, Evidence
from elmgrove.federation.contribution import Contribution, Ledger
from elmgrove.federation.member import Member

FLEET = "SMD"
#: Own rows.
ROWS = (30, 100, 300)
ABSENT = "not there"
#: The share of its rows that a liar replaces.
SHARE = 0.1
# The share of normal rows above the limit.
_RATE = 0.01


class PoisonCase(NamedTuple):
    """One device that has learned so many rows from some place on."""

    device: str
    rows: int
    start: float


class Poisoned(NamedTuple):
    """What one lender's lie changed for a device."""

    case: PoisonCase
    attack: str
    recall: float
    honest_recall: float

    @property
    def change(self) -> float:
        """The recall that is gained, or lost, by the lie."""
        return self.recall - self.honest_recall


def cases(folder: Path) -> list[PoisonCase]:
    """Lists the devices with each number of own rows, from two places of their rows."""
    known = devices_of(FLEET, folder, False)
    return [PoisonCase(name, rows, at) for name in known for rows in ROWS for at in STARTS]


def tried(case: PoisonCase, folder: Path) -> list[Poisoned]:
    """Measures each lie, and the lender's absence."""
    known = devices_of(FLEET, folder, False)[case.device]
    basis, others = others_of(FLEET, case.device, folder, False)
    begin = int(case.start * (len(known.train) - case.rows))
    detector = Detector.for_basis(basis)
    detector.learn_many(known.train[begin : begin + case.rows])
    anomalous = np.asarray(known.labels, bool)

    def recall(lenders: Sequence[Contribution]) -> float:
        detector.set_peers((), Ledger(lenders).loan)
        scores = detector.score_many(known.test)
        limit = np.quantile(scores[~anomalous], 1.0 - _RATE)
        return float((scores[anomalous] > limit).mean())

    rest, honest = others[1:], recall(others)
    lenders = {ABSENT: rest} | {
        name: (lie, *rest) for name, lie in _lies(case.device, folder).items()
    }
    return [Poisoned(case, name, recall(some), honest) for name, some in lenders.items()]


@cache
def _lies(device: str, folder: Path) -> dict[str, Contribution]:
    known = devices_of(FLEET, folder, False)
    basis, others = others_of(FLEET, device, folder, False)
    target = known[device]
    anomalous = target.test[np.asarray(target.labels, bool)]
    return lies(basis, others, known[others[0].origin].train, anomalous)


def lies(
    basis: Basis, others: Sequence[Contribution], rows: Matrix, anomalous: Matrix
) -> dict[str, Contribution]:
    """Makes what the first of the others could contribute instead, to hide these anomalous rows."""
    first, count = others[0], max(int(SHARE * len(rows)), 1)
    wrong = np.resize(anomalous, (count, anomalous.shape[1]))
    shift = np.array(basis.scaling.shift)
    only, everybody = _learned(basis, wrong), Evidence.sum([one.evidence for one in others])
    found = {
        "10 % of its rows": _learned(basis, np.vstack([rows[:-count], wrong])),
        "counts × 10⁶": (first.evidence + only).weighted(1e6),
        "3 × everybody's sums": everybody.weighted(3.0) + only,
        "10³ times as far": _learned(
            basis, np.vstack([rows[:-count], (wrong - shift) * 1e3 + shift])
        ),
        "nothing else": only,
    }
    return {
        name: Contribution(first.origin, first.epoch, (evidence,))
        for name, evidence in found.items()
    }


def _learned(basis: Basis, rows: Matrix) -> Evidence:
    detector = Detector.for_basis(basis)
    detector.learn_many(rows)
    return Member("liar", detector).contribution().evidence
