"""What is said of a fleet: what a loan gained, whom it hurt, and whether that is enough."""

import pytest
from benchmarks.quality import fleets
from benchmarks.quality.measure import Quality
from benchmarks.quality.runs import Record, Results
from benchmarks.quality.targets import judged


def record(rows: int | None, device: str, method: str, auc: float, name: str = "SMD") -> Record:
    quality = Quality(auc, 0.5, 0.5, 0.01, 0.0, 0.0)
    return Record(fleets.fleet_title(name, rows), device, method, 0, quality)


def found(rows: int | None, changes: list[float], name: str = "SMD") -> tuple[str, bool | None]:
    records = []
    for number, change in enumerate(changes):
        records.append(record(rows, f"d{number}", fleets.ALONE, 0.8, name))
        records.append(record(rows, f"d{number}", fleets.LOAN, 0.8 + change, name))
    (reached,) = (one for one in judged(Results(records)) if "loan" in one.target)
    return reached.found, reached.met


@pytest.mark.parametrize(
    ("rows", "changes", "met"),
    [
        (30, [0.05, 0.03], True),
        (30, [0.05, -0.03], False),
        (300, [0.05, -0.03], True),
        (300, [0.0, -0.01], False),
        (1000, [0.05, -0.03], False),
        (1000, [0.0, -0.002], True),
        (None, [0.0, 0.0], True),
    ],
)
def test_a_loan_must_gain_early_and_hurt_nobody_late(
    rows: int | None, changes: list[float], met: bool
) -> None:
    assert found(rows, changes)[1] is met


def test_who_is_hurt_and_by_how_much_is_said() -> None:
    text, _ = found(1000, [0.1, -0.05, 0.0, 0.0])
    assert text == "+0.0125; hurt by more than 0.02: 25%, worst -0.050"


def test_fans_need_not_gain() -> None:
    assert found(30, [0.0, 0.0], "fans")[1] is True
