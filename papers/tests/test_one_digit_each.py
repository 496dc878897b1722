"""Devices that know one digit each: what a merge brings, and that who left leaves no trace."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmgrove_papers.figure import Run
from elmgrove_papers.ito2021.one_digit_each import ALONE, LEFT, WITH, digits
from support.commands import Elmgrove


@pytest.fixture(name="found", scope="module")
def found_fixture() -> dict[str, Any]:
    return digits(Run(Path()))


def test_every_device_tells_anomalous_digits_better_after_cooperating(
    found: dict[str, Any],
) -> None:
    rows = found["loss and AUC"]
    assert list(rows) == [f"device-{digit}" for digit in range(4)]
    for row in rows.values():
        assert 0 < row["AUC before"] < row["AUC after"] <= 1
        assert row["peers' digits after"] < row["peers' digits before"]
        assert row["peers' digits after"] < row["unknown digits after"]


def test_the_merged_models_equal_central_training(found: dict[str, Any]) -> None:
    assert 0 <= found["β differs from central training by"] < 1e-9


def test_a_device_that_left_leaves_no_trace(found: dict[str, Any]) -> None:
    assert 0 <= found["after it left by"] < 1e-9
    rows = found["loss on device-3's digit"]
    assert list(rows) == ["device-0", "device-1", "device-2"]
    for row in rows.values():
        assert row[WITH] < row[LEFT]
        assert row[WITH] < row[ALONE]


def test_it_needs_no_data_set_and_prints_what_it_wrote(elmgrove: Elmgrove, tmp_path: Path) -> None:
    ran = elmgrove("paper", "ito2021", "digits", "--output", tmp_path)
    assert ran.code == 0, ran.err
    found = json.loads((tmp_path / "ito2021/digits.json").read_text())
    for row in found["loss and AUC"].values():
        assert f"{row['AUC before']:.4g}" in ran.out
        assert f"{row['AUC after']:.4g}" in ran.out
    assert (tmp_path / "ito2021/digits.png").stat().st_size > 10_000
