"""UAH-DriveSet: the loader reads the published layout, and the driving figures run on it."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from data_sets import write_drive, write_driveset
from elmgrove import BadFile
from elmgrove_papers.data import drives
from elmgrove_papers.data.uah import LEVELS, STEP, WINDOW, tables
from support.commands import Elmgrove, one_clear_line


def test_drives_are_read_from_the_published_layout(tmp_path: Path) -> None:
    write_driveset(tmp_path, seconds=WINDOW + 1 + 2 * STEP)
    found = drives(tmp_path)
    assert [(one.driver, one.pattern) for one in found[:3]] == [
        ("D1", "aggressive"),
        ("D1", "drowsy"),
        ("D1", "normal"),
    ]
    assert all(one.road == "secondary" for one in found)
    assert all(one.rows.shape == (3, LEVELS**2) for one in found)


@settings(deadline=None)  # drawing so many numbers may take long on a busy machine
@given(arrays(np.float64, st.integers(WINDOW + 1, WINDOW + 30), elements=st.floats(0.0, 300.0)))
def test_a_table_is_what_counting_gives(speeds: Any) -> None:
    rows = tables(speeds)
    assert len(rows) == (len(speeds) - 1 - WINDOW) // STEP + 1
    for number, row in enumerate(rows):
        np.testing.assert_allclose(row, _counted(speeds[number * STEP :][: WINDOW + 1]))


def _counted(speeds: Sequence[float]) -> Any:
    """The table, change by change."""
    table = np.zeros((LEVELS, LEVELS))
    for before, after in pairwise(speeds):
        table[min(int(before // 10), 14), min(int(after // 10), 14)] += 1.0
    for row in table:
        if row.sum():
            row /= row.sum()
    return table.reshape(-1)


def test_a_drive_shorter_than_a_window_has_no_rows(tmp_path: Path) -> None:
    write_drive(tmp_path, "D1", "DROWSY", [50.0] * WINDOW)
    (one,) = drives(tmp_path)
    assert one.rows.shape == (0, LEVELS**2)


def test_what_is_missing_is_named_with_its_source(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"UAH-DriveSet is not in .*: download it from http"):
        drives(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "5.2\n",
        "5.2 60.0\n6.2\n",
        "5.2 fast\n",
        "5.2 nan\n6.2 60.0\n",
        "6.2 60.0\n5.2 60.0\n",
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    write_drive(tmp_path, "D1", "NORMAL1", [50.0] * 200).write_text(content)
    with pytest.raises(BadFile, match=r"RAW_GPS\.txt .* download it again"):
        drives(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("4.9 60.0", "line 3: the time goes back"),
        ("4.9 -3.6", "line 3: the time goes back"),
        ("7.2", "line 3: no time and speed"),
        ("7.2 inf", "line 3: no finite number"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = write_drive(tmp_path, "D1", "NORMAL1", [50.0] * 200)
    path.write_text(f"5.2 60.0\n\n{line}\n8.2 60.0\n")
    with pytest.raises(BadFile, match=rf"RAW_GPS\.txt .*{reason}"):
        drives(tmp_path)


def test_unknown_speeds_and_repeated_times_are_left_out(tmp_path: Path) -> None:
    speeds = np.random.default_rng(2).uniform(0.0, 140.0, WINDOW + 40).round(1)
    path = write_drive(tmp_path, "D1", "NORMAL1", speeds.tolist())
    (expected,) = drives(tmp_path)
    lines = path.read_text().splitlines()
    time = lines[20].split()[0]
    lines[20:21] = [f"{time} -3.6", lines[20], f"{time} 139.0", f"{float(time) + 0.5} -1.0"]
    path.write_text("\n".join(lines))
    (found,) = drives(tmp_path)
    np.testing.assert_array_equal(found.rows, expected.rows)


def test_a_drive_without_a_known_speed_has_no_rows(tmp_path: Path) -> None:
    write_drive(tmp_path, "D1", "NORMAL1", [-3.6] * 200)
    (one,) = drives(tmp_path)
    assert one.rows.shape == (0, LEVELS**2)


def test_a_folder_that_tells_no_pattern_is_named(tmp_path: Path) -> None:
    write_drive(tmp_path, "D1", "NORMAL1", [50.0] * 200)
    write_drive(tmp_path, "D1", "ASLEEP", [50.0] * 200)
    with pytest.raises(BadFile, match=r"ASLEEP.*tells no driver, pattern and road"):
        drives(tmp_path)


@pytest.mark.parametrize(("paper", "name"), [("ito2021", "figure6"), ("ito2020", "figure5")])
def test_driving_runs_and_the_merged_model_knows_both(
    elmgrove: Elmgrove, tmp_path: Path, paper: str, name: str
) -> None:
    write_driveset(tmp_path, drivers=3)
    assert elmgrove("paper", paper, name, "--data", tmp_path, "--output", "out").code == 0
    found = json.loads((tmp_path / f"out/{paper}/{name}.json").read_text())
    assert found["tested driver"] == "D3"
    assert found["rows learned"] == {"aggressive": 2 * 78, "normal": 2 * 78}
    own = {"ito2021": "normal", "ito2020": "aggressive"}[paper]
    (other,) = {"normal", "aggressive"} - {own}
    loss = found["loss"]
    assert loss[other]["Device-A"] > 3 * loss[other]["merged"]
    assert loss[own]["Device-B"] > 3 * loss[own]["merged"]
    assert (tmp_path / f"out/{paper}/{name}.png").stat().st_size > 1000


def test_driving_needs_both_patterns_of_two_drivers(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_driveset(tmp_path, drivers=1)
    ran = elmgrove("paper", "ito2021", "figure6", "--data", tmp_path)
    assert "a normal and an aggressive one on every road" in one_clear_line(ran)


def _tested(elmgrove: Elmgrove, folder: Path) -> str:
    assert elmgrove("paper", "ito2021", "figure6", "--data", folder, "--output", "out").code == 0
    return str(json.loads((folder / "out/ito2021/figure6.json").read_text())["tested driver"])


def test_the_tested_driver_has_both_styles_on_every_road(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    """As published: the last driver has one style on one of the roads."""
    write_driveset(tmp_path, drivers=2, seconds=300, road="MOTORWAY")
    write_driveset(tmp_path, drivers=3, seconds=300)
    write_drive(tmp_path, "D3", "NORMAL", [90.0] * 300, "MOTORWAY")
    assert _tested(elmgrove, tmp_path) == "D2"
    # A drive that is too short has no rows to test with.
    write_drive(tmp_path, "D3", "AGGRESSIVE", [90.0] * WINDOW, "MOTORWAY")
    assert _tested(elmgrove, tmp_path) == "D2"


def test_a_road_with_one_style_does_not_count(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_driveset(tmp_path, drivers=3, seconds=300)
    write_drive(tmp_path, "D1", "NORMAL", [90.0] * 300, "MOTORWAY")
    assert _tested(elmgrove, tmp_path) == "D3"


def test_nobody_with_both_styles_on_every_road_is_said(elmgrove: Elmgrove, tmp_path: Path) -> None:
    for driver, road in (("D1", "MOTORWAY"), ("D2", "SECONDARY")):
        for pattern in ("NORMAL", "AGGRESSIVE"):
            write_drive(tmp_path, driver, pattern, [90.0] * 300, road)
    ran = elmgrove("paper", "ito2021", "figure6", "--data", tmp_path)
    assert "a normal and an aggressive one on every road" in one_clear_line(ran)
