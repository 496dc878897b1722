"""What is said of one lender that lies: how its lies are made, and whether they change too much."""

import numpy as np
import pytest
from benchmarks.quality.poison import ABSENT, PoisonCase, Poisoned, lies
from benchmarks.quality.runs import Results
from benchmarks.quality.targets import judged

from elmgrove import Basis, Detector
from elmgrove.federation.member import Member
from support.factories import trained


def test_each_lie_could_have_come_from_rows_and_none_is_the_truth() -> None:
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=(200, 4)) @ np.diag([1.0, 2.0, 3.0, 4.0]) + 7.0 for _ in range(3)]
    basis = Basis.fitted(np.vstack(rows), None, scaling="standard")
    others = []
    for number, own in enumerate(rows):
        detector = trained(Detector.for_basis(basis), own)
        others.append(Member(f"d{number}", detector).contribution())
    found = lies(basis, others, rows[0], rows[1][:5] + 30.0)
    assert len(found) == 5
    for lie in found.values():
        assert lie.origin == "d0"
        assert lie.evidence.admissible()
        assert not lie.evidence.close_to(others[0].evidence, 1e-3)
    assert found["counts × 10⁶"].evidence.count == pytest.approx(220e6)
    assert found["nothing else"].evidence.count == 20


@pytest.mark.parametrize(
    ("recalls", "met"),
    [([0.5, 0.5], True), ([0.4, 0.6], True), ([0.47, 0.47], False), ([0.53, 0.53], False)],
)
def test_the_mean_over_devices_may_change_by_a_little(recalls: list[float], met: bool) -> None:
    found = [
        Poisoned(PoisonCase(f"d{number}", 30, 0.1), attack, recall, 0.5)
        for attack in ("counts", ABSENT)
        for number, recall in enumerate(recalls)
    ]
    (reached,) = judged(Results(poisoned=found))
    assert reached.met is met
    assert reached.found == f"{np.mean(recalls) - 0.5:+.3f} at 30 rows"
