"""``elmgrove learn``: what it says, what it keeps, and what it leaves out."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector, FalseAlarmRate, FixedThreshold, HiddenLayer
from support.commands import Elmgrove
from support.factories import detector_in, member_in
from support.fans import NAMES, fan_rows, fan_series, write_fan_rows


def test_learn_says_what_it_did_and_goes_on_from_there(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 60))
    first = elmgrove("learn", "a.csv", "--state", "fan.elm")
    assert (first.code, first.out) == (0, "")
    assert "fan: learned 60 rows, 60 in all." in first.err
    few = detector_in("fan.elm")
    assert few.state == "watching", "sixty rows are enough"
    assert (
        f"Watching: scores above {few.threshold:.4g} are anomalous. Saved fan.elm.\n" in first.err
    )
    assert few.score_many(fan_rows(2, 1000)).max() < few.threshold, "and there is a margin"
    write_fan_rows("b.csv", fan_rows(2, 900))
    second = elmgrove("learn", "b.csv", "-s", "fan.elm")
    assert "Window of" not in second.err
    assert "fan: learned 900 rows, 960 in all." in second.err
    detector = detector_in("fan.elm")
    assert f"Watching: scores above {detector.threshold:.4g} are anomalous. Saved" in second.err
    at_once = Detector(detector.basis.layer, scaling=detector.basis.scaling, features=NAMES)
    at_once.learn_many(np.vstack([fan_rows(1, 60), fan_rows(2, 900)]))
    new = fan_rows(3, 20)
    assert detector.score_many(new) == pytest.approx(at_once.score_many(new), rel=1e-9)


def test_too_few_rows_say_how_many_more_are_needed(elmgrove: Elmgrove) -> None:
    ran = elmgrove("learn", write_fan_rows("a.csv", fan_rows(1, 30)), "--state", "fan.elm")
    assert "before it was learned" not in ran.err, "there is no threshold yet"
    found = re.search(r"Still learning: .* Learn (\d+) more rows that were normal; ", ran.err)
    assert found is not None
    more = int(found[1])
    assert f"from a stream it takes about {detector_in('fan.elm').rows_missing}. Saved" in ran.err
    elmgrove("learn", write_fan_rows("b.csv", fan_rows(2, more - 1)), "--state", "fan.elm")
    assert detector_in("fan.elm").state == "learning"
    ran = elmgrove("learn", write_fan_rows("c.csv", fan_rows(3, 1)), "--state", "fan.elm")
    assert "Watching: " in ran.err


@pytest.mark.parametrize("count", [2000, 10_000])
@pytest.mark.parametrize("seed", range(10))
def test_rows_that_stay_the_same_end_watching(elmgrove: Elmgrove, seed: int, count: int) -> None:
    np.save("a.npy", fan_rows(seed, count))
    ran = elmgrove("learn", "a.npy", "--state", "fan.elm", "--window", 1)
    assert "Watching: " in ran.err
    assert "% of rows were above the threshold (1 % stated).\n" in ran.err
    assert "still changing" not in ran.err


# The last part of a file is a test


def test_the_last_part_of_a_file_shows_that_the_rate_was_kept(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 1000))
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm")
    found = re.search(
        r"Of the last 20 % of this file, before it was learned, (.*) % of rows were above the "
        r"threshold \(1 % stated\)\.\n",
        ran.err,
    )
    assert found is not None
    # The same by hand: the threshold is the first part's, and a row is scored before it is learned.
    detector = detector_in("fan.elm")
    first = Detector.for_basis(detector.basis, threshold=FalseAlarmRate(confidence=0.0))
    first.learn_many(fan_rows(1, 1000)[:800])
    limit, above = first.threshold, 0
    for x in fan_rows(1, 1000)[800:]:
        above += first.score_one(x) > limit
        first.learn_one(x)
    assert found[1] == f"{100 * above / 200:.1f}"


@pytest.mark.parametrize("rise", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("gate", [False, True])
def test_a_file_that_was_still_changing_is_named_so(
    elmgrove: Elmgrove, rise: float, gate: bool
) -> None:
    """Even where the model followed: what comes next may be as new again."""
    steady = fan_rows(1, 1600)
    ramp = np.linspace(0.0, rise, 400)[:, np.newaxis] * steady.std(axis=0)
    write_fan_rows("drift.csv", np.vstack([steady, fan_rows(2, 400) + ramp]))
    given = ["--state", "fan.elm", "--window", 1, *(["--gate"] * gate)]
    ran = elmgrove("learn", "drift.csv", *given)
    assert re.search(
        r"before it was learned, \d+(\.\d)? % of rows were above the threshold, not 1 %: it was "
        r"still changing\. Expect more false alarms until you learn rows of a longer time\.\n",
        ran.err,
    )
    assert detector_in("fan.elm").state == ("changing" if gate else "watching")


def test_a_last_part_that_is_another_but_steady_is_not_still_changing(elmgrove: Elmgrove) -> None:
    data = fan_rows(1, 1000)
    data[800:] *= 1.6
    write_fan_rows("a.csv", data)
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm")
    assert "differ as much: learn rows of a longer time, or --window.\n" in ran.err
    ran = elmgrove("learn", "a.csv", "--state", "other.elm", "--window", 2)
    assert "differ as much: learn rows of a longer time.\n" in ran.err, "it has a window already"


def test_without_a_rate_the_last_part_is_counted_all_the_same(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 200))
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", "--threshold", 0)
    assert "100 % of rows were above the threshold: expect as many alarms" in ran.err
    assert "Watching: scores above 0 are anomalous." in ran.err


def test_a_gate_lets_the_last_part_be_counted_too(elmgrove: Elmgrove, fan_1: Path) -> None:
    write_fan_rows("mixed.csv", np.vstack([np.zeros((40, 6)), fan_rows(6, 10, shift=9.0)]))
    ran = elmgrove("learn", "mixed.csv", "--state", fan_1, "--gate")
    assert "before it was learned, 100 % of rows were above the threshold, not 1 %" in ran.err


def test_a_state_that_finds_far_too_much_anomalous_says_that_it_changes(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    write_fan_rows("shifted.csv", fan_rows(6, 60, shift=9.0))
    ran = elmgrove("learn", "shifted.csv", "--state", fan_1, "--gate")
    assert detector_in(fan_1).state == "changing"
    assert "Changing: scores above" in ran.err
    assert "are anomalous, and far more are than stated. Saved fan-1.elm." in ran.err


# Windows and scores


def test_rows_of_a_time_series_are_set_side_by_side(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_series(1, 250))
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm")
    assert re.search(
        r"Window of 10: neighbouring rows are alike \(correlation 0\.\d\d\): a time series\.\n",
        ran.err,
    )
    assert "fan: learned 250 rows, 241 windows of 10 in all." in ran.err
    basis = detector_in("fan.elm").basis
    assert (basis.window, basis.inputs, basis.layer.inputs, basis.layer.units) == (10, 60, 6, 60)


def test_a_table_is_taken_row_by_row(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 400))
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm")
    assert re.search(r"Window of 1: neighbouring rows are hardly alike .*: a table\.\n", ran.err)
    assert detector_in("fan.elm").basis.window == 1


def test_a_stated_window_and_score_are_kept_and_taken_over(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 400))
    given = ["--window", 3, "--score", "loss", "--watch-now", "--rate", 0.02]
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", *given)
    assert "Window of 3: as stated.\n" in ran.err
    detector = detector_in("fan.elm")
    assert (detector.basis.window, detector.basis.score) == (3, "loss")
    assert detector.basis.layer.units == 4, "a quarter of 18"
    assert detector.gate.policy == FalseAlarmRate(0.02, 0.0)
    elmgrove("learn", "a.csv", "--state", "like.elm", "--like", "fan.elm")
    assert detector_in("like.elm").basis == detector.basis


def test_a_layer_that_is_not_linear_scores_by_loss(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 200))
    elmgrove("learn", "a.csv", "--state", "fan.elm", "--activation", "sigmoid")
    assert detector_in("fan.elm").basis.score == "loss"


def test_no_window_reaches_over_a_row_that_was_left_out(elmgrove: Elmgrove) -> None:
    data = fan_series(1, 300)
    write_fan_rows("a.csv", data)
    text = Path("a.csv").read_text().splitlines()
    text[101] = "1,2,three,4,5,6"
    Path("holes.csv").write_text("\n".join(text))
    holes = data.copy()
    holes[100] = np.nan
    np.save("holes.npy", holes)
    for name in ("holes.csv", "holes.npy"):
        elmgrove("learn", name, "--state", "fan.elm", "--window", 4, "--skip-bad")
        detector = detector_in("fan.elm")
        assert detector.learned == (100 - 3) + (199 - 3)
        apart = Detector.for_basis(detector.basis)
        apart.learn_many(data[:100])
        apart.interrupt()
        apart.learn_many(data[101:])
        assert detector.score_many(data) == pytest.approx(apart.score_many(data), rel=1e-9)
        Path("fan.elm").unlink()


def test_a_file_does_not_follow_the_one_before(elmgrove: Elmgrove) -> None:
    for name in ("a", "b"):
        write_fan_rows(f"{name}.csv", fan_series(1, 100))
        elmgrove("learn", f"{name}.csv", "--state", "fan.elm", *(["--window", 4] * (name == "a")))
    assert detector_in("fan.elm").learned == 2 * (100 - 3)


# What is kept and left out


def test_the_gate_leaves_anomalous_rows_out(elmgrove: Elmgrove, fan_1: Path) -> None:
    shutil.copy(fan_1, "trusting.elm")
    write_fan_rows("mixed.csv", np.vstack([np.zeros((10, 6)), fan_rows(6, 5, shift=9.0)]))
    ran = elmgrove("learn", "mixed.csv", "--state", fan_1, "--gate")
    assert "learned 10 rows (5 left out), 310 in all" in ran.err
    assert len(detector_in(fan_1).quarantine) == 5
    assert "learned 15 rows, 315 in all" in elmgrove("learn", "mixed.csv", "-s", "trusting.elm").err


def test_bad_rows_are_left_out_if_that_is_wanted(elmgrove: Elmgrove, fan_1: Path) -> None:
    text = Path("normal-1.csv").read_text().splitlines()
    text[3], text[7] = "1,2,three,4,5,6", "1,2"
    Path("holes.csv").write_text("\n".join(text))
    ran = elmgrove("learn", "holes.csv", "--state", "holes.elm", "--skip-bad")
    assert "Left out 2 bad rows. The first: holes.csv, line 4, column 3 ('speed [m/s]')" in ran.err
    assert "learned 298 rows" in ran.err
    ran = elmgrove("score", "holes.csv", "-s", fan_1, "--skip-bad", "--format", "csv")
    assert len(ran.out.splitlines()) == 299
    np.save("holes.npy", np.vstack([fan_rows(1, 5), np.full((1, 6), np.nan)]))
    ran = elmgrove("score", "holes.npy", "-s", fan_1, "--skip-bad", "--format", "csv")
    assert [line.partition(",")[0] for line in ran.out.splitlines()] == ["line", *"01234"]


def test_columns_can_be_dropped_for_good(elmgrove: Elmgrove) -> None:
    data, names = fan_rows(1, 120), ["time", *NAMES[1:]]
    write_fan_rows("timed.csv", data, names)
    ran = elmgrove("learn", "timed.csv", "-s", "fan.elm", "--drop", "time", "--drop", "hum")
    assert ran.code == 0
    kept = detector_in("fan.elm").basis.features
    assert kept == ("load [%]", "speed [m/s]", "current", "draft")
    assert elmgrove("score", "timed.csv", "-s", "fan.elm").code == 0


def test_settings_become_the_state(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 150))
    options = {
        "--name": "Lüfter 7",
        "--scaling": "minmax",
        "--units": 4,
        "--activation": "tanh",
        "--ridge": 0.5,
        "--threshold": 4,
    }
    given = [part for option in options.items() for part in option]
    assert elmgrove("learn", "a.csv", "--state", "x.elm", *given).code == 0
    member = member_in("x.elm")
    assert member.name == "Lüfter 7"
    assert member.detector.basis.layer == HiddenLayer(6, 4, "tanh")
    assert member.detector.basis.scaling.kind == "minmax"
    assert member.detector.model.ridge == 0.5
    assert member.detector.gate.policy == FixedThreshold(4.0)


def test_like_works_with_a_state_and_with_evidence(
    elmgrove: Elmgrove, fan_1: Path, fan_2: Path
) -> None:
    assert (
        elmgrove("learn", "normal-2.csv", "-s", "x.elm", "--like", fan_1, "--rate", 0.05).code == 0
    )
    made = detector_in("x.elm")
    assert made.basis == detector_in(fan_2).basis == detector_in(fan_1).basis
    assert made.gate.policy.rate == 0.05
