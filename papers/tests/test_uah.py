"""UAH-DriveSet: the loader reads the published layout, and the driving figures run on it."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from data_sets import FOLDER, write_drive, write_driveset
from elmgrove import BadFile
from elmgrove_papers.data import Drive, drives
from elmgrove_papers.data.uah import LEVELS, STEP, WINDOW, tables
from support.commands import Elmgrove, one_clear_line

#: Device-A's and Device-B's, in Figure 6.
STYLES = ("normal", "aggressive")


def _unnoted(text: str) -> None:
    raise AssertionError(f"nothing to note: {text}")


def _only(folder: Path) -> Drive:
    (one,) = drives(folder, _unnoted)
    return one


def test_drives_are_read_from_the_published_layout(tmp_path: Path) -> None:
    write_driveset(tmp_path, seconds=WINDOW + 1 + 2 * STEP)
    found = drives(tmp_path, _unnoted)
    assert [(one.driver, one.pattern) for one in found[:3]] == [
        ("D1", "aggressive"),
        ("D1", "drowsy"),
        ("D1", "normal"),
    ]
    assert all(one.road == "secondary" for one in found)
    assert all(one.rows(_unnoted).shape == (3, LEVELS**2) for one in found)


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
    assert _only(tmp_path).rows(_unnoted).shape == (0, LEVELS**2)


def test_what_is_missing_is_named_with_its_source(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"UAH-DriveSet is not in .*: download it from http"):
        drives(tmp_path, _unnoted)


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
        _only(tmp_path).rows(_unnoted)


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
        _only(tmp_path).rows(_unnoted)


def test_unknown_speeds_and_repeated_times_are_left_out(tmp_path: Path) -> None:
    speeds = np.random.default_rng(2).uniform(0.0, 140.0, WINDOW + 40).round(1)
    path = write_drive(tmp_path, "D1", "NORMAL1", speeds.tolist())
    expected = _only(tmp_path).rows(_unnoted)
    lines = path.read_text().splitlines()
    time = lines[20].split()[0]
    lines[20:21] = [f"{time} -3.6", lines[20], f"{time} 139.0", f"{float(time) + 0.5} -1.0"]
    path.write_text("\n".join(lines))
    told: list[str] = []
    np.testing.assert_array_equal(_only(tmp_path).rows(told.append), expected)
    assert told == [f"{path}: 1 lines repeat a time and are left out."]


def repeat_block(path: Path) -> None:
    """Writes nine lines twice, as in D6's drowsy drive on the motorway: there 1061 to 1069."""
    lines = path.read_text().splitlines(keepends=True)
    # One of them with a speed that the phone did not know.
    lines[63] = f"{lines[63].split()[0]} -3.6\n"
    path.write_text("".join([*lines[:69], *lines[60:69], *lines[69:]]))


def test_a_block_of_lines_that_comes_twice_counts_once_and_is_noted(tmp_path: Path) -> None:
    speeds = np.random.default_rng(3).uniform(0.0, 140.0, WINDOW + 40).round(1)
    path = write_drive(tmp_path, "D6", "NORMAL", speeds.tolist(), "MOTORWAY")
    repeat_block(path)
    assert len(path.read_text().splitlines()) == WINDOW + 49
    told: list[str] = []
    found = _only(tmp_path).rows(told.append)
    np.testing.assert_array_equal(found, tables(np.delete(speeds, 63)))
    assert told == [f"{path}: 9 lines repeat a time and are left out."]


def test_a_drive_without_a_known_speed_has_no_rows(tmp_path: Path) -> None:
    write_drive(tmp_path, "D1", "NORMAL1", [-3.6] * 200)
    assert _only(tmp_path).rows(_unnoted).shape == (0, LEVELS**2)


def test_a_folder_that_tells_no_pattern_is_noted(tmp_path: Path) -> None:
    write_drive(tmp_path, "D1", "NORMAL1", [50.0] * 200)
    write_drive(tmp_path, "D1", "ASLEEP", [50.0] * 200)
    told: list[str] = []
    assert [one.pattern for one in drives(tmp_path, told.append)] == ["normal"]
    (text,) = told
    assert "ASLEEP" in text
    assert "tells no driver, pattern and road" in text


def _found(elmgrove: Elmgrove, folder: Path, paper: str = "ito2021", name: str = "figure6") -> Any:
    assert elmgrove("paper", paper, name, "--data", folder, "--output", "out").code == 0
    return json.loads((folder / f"out/{paper}/{name}.json").read_text())


@pytest.mark.parametrize(("paper", "name"), [("ito2021", "figure6"), ("ito2020", "figure5")])
def test_every_driver_is_tested_and_the_merged_model_knows_both(
    elmgrove: Elmgrove, tmp_path: Path, paper: str, name: str
) -> None:
    write_driveset(tmp_path, drivers=3)
    found = _found(elmgrove, tmp_path, paper, name)
    own, other = {"ito2021": STYLES, "ito2020": STYLES[::-1]}[paper]
    everybody_else = "driving of all drivers but the tested one"
    assert found["learned"] == {
        "Device-A": f"{own} {everybody_else}",
        "Device-B": f"{other} {everybody_else}",
    }
    falls = found["times lower after the merge"]
    assert list(found["loss"]) == list(falls) == ["D1", "D2", "D3", "mean"]
    for driver, loss in found["loss"].items():
        assert loss[other]["Device-A"] > 3 * loss[other]["merged"]
        assert loss[own]["Device-B"] > 3 * loss[own]["merged"]
        if driver != "mean":
            fallen = loss[other]["Device-A"] / loss[other]["merged"]
            assert falls[driver][f"{other} at Device-A"] == pytest.approx(fallen)
            assert found["rows"][driver]["learned, normal"] == 2 * 78
            assert found["rows"][driver]["tested, aggressive"] == 78
    assert (tmp_path / f"out/{paper}/{name}.png").stat().st_size > 1000


@pytest.mark.parametrize("table", ["loss", "times lower after the merge"])
def test_the_mean_is_that_of_the_drivers(elmgrove: Elmgrove, tmp_path: Path, table: str) -> None:
    write_driveset(tmp_path, drivers=3, seconds=300)
    rows = pd.json_normalize(list(_found(elmgrove, tmp_path)[table].values()))
    np.testing.assert_allclose(rows[:-1].mean(), rows.iloc[-1])


def test_devices_have_learned_nothing_of_the_tested_driver(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    """Whatever it drove, the losses of the others' devices on a third one stay as they are."""
    write_driveset(tmp_path, drivers=2, seconds=300)
    before = _found(elmgrove, tmp_path)["loss"]["D2"]
    (path,) = (tmp_path / FOLDER).glob("D2/*-NORMAL1-*/RAW_GPS.txt")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:200]))
    after = _found(elmgrove, tmp_path)["loss"]["D2"]
    assert after["aggressive"] == before["aggressive"]
    assert after["normal"] != before["normal"]


def test_driving_needs_both_styles_of_two_drivers(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_driveset(tmp_path, drivers=1)
    ran = elmgrove("paper", "ito2021", "figure6", "--data", tmp_path)
    assert "a normal and an aggressive one on the same road" in one_clear_line(ran)


def test_a_driver_is_tested_on_the_roads_on_which_it_has_both_styles(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    """As published: the last driver has one style on one of the roads."""
    write_driveset(tmp_path, drivers=2, seconds=300, road="MOTORWAY")
    write_driveset(tmp_path, drivers=3, seconds=300)
    write_drive(tmp_path, "D3", "NORMAL", [90.0] * 300, "MOTORWAY")
    # A drive that is too short has no rows to test with.
    write_drive(tmp_path, "D3", "AGGRESSIVE", [90.0] * WINDOW, "MOTORWAY")
    rows = _found(elmgrove, tmp_path)["rows"]
    roads = {driver: row["roads"] for driver, row in rows.items()}
    assert roads == dict.fromkeys(("D1", "D2"), "motorway and secondary") | {"D3": "secondary"}
    assert (rows["D3"]["tested, normal"], rows["D1"]["tested, normal"]) == (18, 36)
    assert rows["D1"]["learned, normal"] == 2 * 36, "others' drives count on all roads"


def test_a_driver_without_a_road_in_both_styles_is_not_tested(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    write_driveset(tmp_path, drivers=2, seconds=300)
    write_drive(tmp_path, "D3", "NORMAL", [90.0] * 300, "MOTORWAY")
    write_drive(tmp_path, "D3", "AGGRESSIVE", [90.0] * 300)
    assert list(_found(elmgrove, tmp_path)["rows"]) == ["D1", "D2"]


def test_nobody_with_both_styles_on_a_road_is_said(elmgrove: Elmgrove, tmp_path: Path) -> None:
    for driver, pattern in (("D1", "NORMAL"), ("D2", "AGGRESSIVE")):
        write_drive(tmp_path, driver, pattern, [90.0] * 300)
    ran = elmgrove("paper", "ito2021", "figure6", "--data", tmp_path)
    assert "a normal and an aggressive one on the same road" in one_clear_line(ran)


def _path(folder: Path, pattern: str) -> Path:
    (path,) = (folder / FOLDER).glob(f"D1/*-{pattern}-*/RAW_GPS.txt")
    return path


def test_a_drive_that_a_figure_does_not_use_does_not_stop_it(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    write_driveset(tmp_path, seconds=300)
    expected = _found(elmgrove, tmp_path)["loss"]
    _path(tmp_path, "DROWSY").write_text("damaged")
    write_drive(tmp_path, "D1", "ASLEEP", [50.0] * 200)
    ran = elmgrove("paper", "ito2021", "figure6", "--data", tmp_path, "--output", "out")
    assert (ran.code, _found(elmgrove, tmp_path)["loss"]) == (0, expected)
    assert "ASLEEP" in ran.err, "it might have been one that is used"
    told = elmgrove("paper", "data", "--data", tmp_path)
    assert told.code == 1
    assert "DROWSY-SECONDARY/RAW_GPS.txt can't be read" in told.out


def test_a_folder_that_tells_nothing_is_damage(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_driveset(tmp_path, seconds=300)
    write_drive(tmp_path, "D1", "ASLEEP", [50.0] * 200)
    told = elmgrove("paper", "data", "--data", tmp_path)
    assert told.code == 1
    assert "tells no driver, pattern and road" in told.out


def test_a_damaged_drive_that_a_figure_uses_is_named(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_driveset(tmp_path, seconds=300)
    _path(tmp_path, "NORMAL1").write_text("damaged")
    ran = elmgrove("paper", "ito2021", "figure6", "--data", tmp_path)
    assert "D1-NORMAL1-SECONDARY/RAW_GPS.txt can't be read" in one_clear_line(ran)


def test_repeated_lines_are_told_to_whoever_runs_a_figure_and_kept(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    write_driveset(tmp_path, seconds=300)
    for pattern in ("DROWSY", "AGGRESSIVE"):
        repeat_block(_path(tmp_path, pattern))
    told = "AGGRESSIVE-SECONDARY/RAW_GPS.txt: 9 lines repeat a time"
    ran = elmgrove("paper", "ito2021", "figure6", "--data", tmp_path, "--output", "out")
    assert told in ran.err
    assert "DROWSY" not in ran.err
    (note,) = _found(elmgrove, tmp_path)["notes"]
    assert told in note
    assert str(tmp_path) not in note
    held = elmgrove("paper", "data", "--data", tmp_path)
    assert held.code == 0, "what is repeated is no damage"
    assert "DROWSY-SECONDARY/RAW_GPS.txt: 9 lines repeat a time" in held.out
