"""``elmgrove learn``: what it says, what it keeps, and what it leaves out."""

import itertools
import logging
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from elmgrove import Detector, FalseAlarmRate, HiddenLayer
from elmgrove.cli.options import moment, shown
from elmgrove.detector.inputs import choose_window
from elmgrove.errors import BadInput
from support.agents import Start
from support.commands import Elmgrove
from support.factories import detector_in, member_in, trained
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
def test_a_file_that_was_still_changing_is_named_so(elmgrove: Elmgrove, rise: float) -> None:
    """Even where the model followed: what comes next may be as new again."""
    steady = fan_rows(1, 1600)
    ramp = np.linspace(0.0, rise, 400)[:, np.newaxis] * steady.std(axis=0)
    write_fan_rows("drift.csv", np.vstack([steady, fan_rows(2, 400) + ramp]))
    ran = elmgrove("learn", "drift.csv", "--state", "fan.elm", "--window", 1)
    assert re.search(
        r"before it was learned, \d+(\.\d)? % of rows were above the threshold, not 1 %: it was "
        r"still changing\. Expect more false alarms until you learn rows of a longer time\.\n",
        ran.err,
    )
    assert detector_in("fan.elm").state == "watching"


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
    elmgrove("learn", "a.csv", "--state", "fan.elm")
    elmgrove("tune", "fan.elm", "--threshold", 0)
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm")
    assert "100 % of rows were above the threshold: expect as many alarms" in ran.err
    assert "Watching: scores above 0 are anomalous." in ran.err


def test_a_state_that_finds_far_too_much_anomalous_says_that_it_changes(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    write_fan_rows("shifted.csv", fan_rows(6, 60, shift=9.0))
    elmgrove("device", "run", "--source", "shifted.csv", "--state", fan_1, "--verdicts", "")
    write_fan_rows("few.csv", fan_rows(1, 5))
    ran = elmgrove("learn", "few.csv", "--state", fan_1)
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
        apart = trained(Detector.for_basis(detector.basis), data[:100])
        apart.interrupt()
        apart.learn_many(data[101:])
        assert detector.score_many(data) == pytest.approx(apart.score_many(data), rel=1e-9)
        Path("fan.elm").unlink()


# What is kept and left out


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


def test_settings_become_the_state(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 150))
    options = {
        "--name": "Lüfter 7",
        "--scaling": "minmax",
        "--units": 4,
        "--activation": "tanh",
        "--rate": 0.02,
    }
    given = [part for option in options.items() for part in option]
    assert elmgrove("learn", "a.csv", "--state", "x.elm", *given).code == 0
    member = member_in("x.elm")
    assert member.name == "Lüfter 7"
    assert member.detector.basis.layer == HiddenLayer(6, 4, "tanh")
    assert member.detector.basis.scaling.kind == "minmax"
    assert member.detector.gate.policy == FalseAlarmRate(0.02)


def test_like_works_with_a_state_and_with_evidence(
    elmgrove: Elmgrove, fan_1: Path, fan_2: Path
) -> None:
    assert (
        elmgrove("learn", "normal-2.csv", "-s", "x.elm", "--like", fan_1, "--rate", 0.05).code == 0
    )
    made = detector_in("x.elm")
    assert made.basis == detector_in(fan_2).basis == detector_in(fan_1).basis
    assert made.gate.policy.rate == 0.05


# Rows that were learned already, by their times, are skipped, and that is said

NEW_STATE = ("--state", "pump.elm", "--verdicts", "")


def write(path: str, begin: str, rows: int, **more: object) -> pd.DataFrame:
    values = np.random.default_rng(rows).normal(size=(rows, 3))
    made = pd.DataFrame(values, columns=["flow", "amp", "rpm"])
    made.insert(0, "time", pd.date_range(begin, periods=rows, freq="min"))
    made.to_csv(path, index=False, **more)
    return made


def detector() -> Detector:
    return detector_in("pump.elm")


def test_a_file_is_learned_once(elmgrove: Elmgrove) -> None:
    write("pump.csv", "2026-03-02", 1200)
    assert elmgrove("learn", "pump.csv", "--state", "pump.elm").code == 0
    before = Path("pump.elm").read_bytes()
    ran = elmgrove("learn", "pump.csv", "--state", "pump.elm")
    assert ran.code == 0
    assert "Skipped 1,200 rows that were learned already (up to 2026-03-02T19:59:00Z)" in ran.err
    assert "There is nothing new to learn. pump.elm stays as it is." in ran.err
    assert Path("pump.elm").read_bytes() == before


def test_only_what_is_new_in_a_file_that_has_grown_is_learned(elmgrove: Elmgrove) -> None:
    write("pump.csv", "2026-03-02", 1200)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    write("pump.csv", "2026-03-02 10:00", 900)
    ran = elmgrove("learn", "pump.csv", "--state", "pump.elm")
    assert "Skipped 600 rows that were learned already" in ran.err
    assert "pump: learned 300 rows, 1500 in all." in ran.err


@pytest.mark.parametrize("begin", ["2026-02-01", "2026-03-06", "2026-05-01"])
def test_other_times_are_learned_in_whatever_order(elmgrove: Elmgrove, begin: str) -> None:
    """Also between what was learned, and where that is so long that hours are folded together."""
    for place, learned in enumerate(("2026-03-02", "2026-03-09")):
        write("pump.csv", learned, 3 * 1440 + place)
        elmgrove("learn", "pump.csv", "--state", "pump.elm")
    write("other.csv", begin, 500)
    ran = elmgrove("learn", "other.csv", "--state", "pump.elm")
    assert "already" not in ran.err
    assert detector().learned == 2 * 3 * 1440 + 1 + 500


def test_what_was_taken_out_can_be_learned_again(elmgrove: Elmgrove) -> None:
    write("pump.csv", "2026-03-02", 1200)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    span = ("--from", "2026-03-02T08:00", "--to", "2026-03-02T10:00")
    assert elmgrove("reject", "pump.elm", *span).code == 0
    ran = elmgrove("learn", "pump.csv", "--state", "pump.elm")
    assert "Skipped 1,080 rows that were learned already" in ran.err
    assert "pump: learned 120 rows, " in ran.err


def test_rows_without_times_can_not_be_recognised(elmgrove: Elmgrove) -> None:
    write("pump.csv", "2026-03-02", 300, columns=["flow", "amp", "rpm"])
    for _ in range(2):
        assert "already" not in elmgrove("learn", "pump.csv", "--state", "pump.elm").err
    assert detector().learned == 600


def test_an_agent_skips_what_was_learned(
    elmgrove: Elmgrove, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write("pump.csv", "2026-03-02", 1200)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    limit = detector().threshold
    ran = elmgrove("device", "run", "--source", "pump.csv", *NEW_STATE)
    assert ran.code == 0
    assert caplog.text.count("skipped 1200 rows that were learned already (up to 2026-03-02") == 1
    assert (detector().learned, detector().threshold) == (1200, limit)
    write("pump.csv", "2026-03-02", 1300)
    caplog.clear()
    elmgrove("device", "run", "--source", "pump.csv", *NEW_STATE)
    assert "skipped 1200 rows" in caplog.text
    assert "read 100 rows" in caplog.text
    # From now on it knows its place, and nothing is skipped by time.
    caplog.clear()
    elmgrove("device", "run", "--source", "pump.csv", *NEW_STATE)
    assert "skipped" not in caplog.text


def test_an_agent_that_follows_says_at_once_what_it_skipped(
    device: Start, elmgrove: Elmgrove
) -> None:
    write("pump.csv", "2026-03-02", 1200)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    pump = device("pump", follow=True)
    pump.logs("skipped 1200 rows that were learned already (up to 2026-03-02")


# ``learn`` and ``device run`` choose the same window for the same machine

DATA = Path(os.environ.get("ELMGROVE_DATA", "nowhere"))


def slow(rows: int, columns: int = 3, keeps: float = 0.95, seed: int = 1) -> np.ndarray:
    """An AR(1) series in each column."""
    noise = np.random.default_rng(seed).normal(size=(rows, columns))
    for before, row in itertools.pairwise(noise):
        row += keeps * before
    return noise


def table(rows: int, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(rows, columns))


def windows(elmgrove: Elmgrove, rows: np.ndarray, name: str = "rows") -> tuple[int, int]:
    """The windows that a file gets by ``learn`` and by ``device run``."""
    path = Path(f"{name}.csv")
    names = ",".join(f"x{i}" for i in range(rows.shape[1]))
    np.savetxt(path, rows, delimiter=",", header=names, comments="", fmt="%.9g")
    learned, ran = Path(f"{name}-learned.elm"), Path(f"{name}-ran.elm")
    assert elmgrove("learn", path, "--state", learned).code == 0
    said = elmgrove("device", "run", "--source", path, "--state", ran, "--verdicts", "")
    assert said.code == 0, said.err
    one, other = (detector_in(state) for state in (learned, ran))
    return one.window, other.window


@pytest.mark.parametrize(
    "rows",
    [
        table(800),
        slow(800),
        slow(200),
        # At first a table, then a series; and a series that becomes a table too late to decide.
        np.vstack([table(100), slow(900)]),
        np.vstack([slow(400), table(900)]),
        # A fault of one of these sensors shows alone, and among ten rows it does not.
        slow(1000, 20, 0.5) @ np.random.default_rng(3).normal(size=(20, 20)),
    ],
    ids=["table", "series", "short", "late series", "late table", "drowned"],
)
def test_a_file_gets_the_same_window_however_it_comes(elmgrove: Elmgrove, rows: np.ndarray) -> None:
    learned, ran = windows(elmgrove, rows)
    assert learned == ran == choose_window(rows).window


def test_the_log_says_once_that_the_window_was_decided_again(
    elmgrove: Elmgrove, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rows = np.vstack([table(100), slow(220)])
    np.savetxt("fan.csv", rows, delimiter=",", header="a,b,c", comments="")
    elmgrove("device", "run", "--source", "fan.csv", "--state", "fan.elm", "--verdicts", "")
    assert caplog.text.count("window of 10 instead of 1: the 300 rows so far decided again") == 1
    learned = detector_in("fan.elm").learned
    assert learned == 320 - 9, "no row is lost"


@pytest.mark.skipif(not DATA.exists(), reason="ELMGROVE_DATA names no folder with the data sets")
@pytest.mark.parametrize("name", ["tep", "fleets_nab"])
def test_real_machines_get_the_same_window(elmgrove: Elmgrove, name: str) -> None:
    with np.load(DATA / f"{name}.npz") as data:
        found = [
            windows(elmgrove, data[f"{device}_train"][:1500], f"machine-{number}")
            for number, device in enumerate(data["NAMES"][:8])
        ]
    assert all(learned == ran for learned, ran in found), found


# Times as people write and read them

#: 2026-05-01, 12:00 UTC.
NOON = 1777636800.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-01T14:20", NOON + 8400),
        ("2026-05-01 14:20:30", NOON + 8430),
        ("2026-05-01T14:20Z", NOON + 8400),
        ("2026-05-01T16:20+02:00", NOON + 8400),
        ("2026-04-30", NOON - 36 * 3600),
        ("1777636800", NOON),
        ("1777636800.5", NOON + 0.5),
        ("14:20", NOON + 8400),
        ("9:05", NOON - 3 * 3600 + 300),
        ("09:05:07", NOON - 3 * 3600 + 307),
        ("-2h", NOON - 7200),
        ("-1.5d", NOON - 36 * 3600),
        ("-90s", NOON - 90),
        ("-5m", NOON - 300),
    ],
)
def test_each_way_to_write_a_time_is_read(text: str, expected: float) -> None:
    assert moment(text, now=NOON) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("text", ["", "soon", "25:00", "14:60", "-2y", "nan", "2026-13-01"])
def test_what_is_no_time_is_refused_with_ways_to_write_one(text: str) -> None:
    with pytest.raises(BadInput, match="is no time: write 2026-05-01T14:20, 14:20"):
        moment(text, now=NOON)


def test_times_are_shown_without_the_date_where_that_is_today() -> None:
    assert shown(NOON, NOON) == "12:00:00"
    assert shown("2026-05-01T11:00:00Z", NOON) == "11:00:00"
    assert shown("2026-04-30T11:00:00Z", NOON) == "2026-04-30 11:00:00"
    assert shown(None) == "?"


def test_what_is_no_time_is_shown_as_it_is() -> None:
    assert shown("1e+30 s after 1970") == "1e+30 s after 1970"
    assert shown(1e30, "1e+30 s after 1970") == "1e+30"
