"""``elmgrove score``: in all formats, by name, and by exit code."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector
from support.commands import Elmgrove
from support.factories import detector_in
from support.fans import NAMES, fan_rows, fan_series, write_fan_rows

COMMAND = Path(sys.executable).parent / "elmgrove"


def test_scores_are_the_same_in_all_formats(elmgrove: Elmgrove, fan_1: Path) -> None:
    data = np.vstack([fan_rows(5, 20), fan_rows(6, 3, shift=9.0)])
    write_fan_rows("new.csv", data)
    detector = detector_in(fan_1)
    expected, limit = detector.score_many(data), detector.threshold
    before = fan_1.read_bytes()

    ran = elmgrove("score", "new.csv", "--state", fan_1, "--format", "csv")
    assert ran.code == 0
    lines = list(csv.DictReader(io.StringIO(ran.out)))
    assert [int(line["line"]) for line in lines] == list(range(2, 25))
    assert [float(line["score"]) for line in lines] == pytest.approx(expected)
    assert {float(line["threshold"]) for line in lines} == {limit}
    assert [line["anomalous"] == "1" for line in lines] == (expected > limit).tolist()
    assert lines[-1]["causes"].startswith("heat=")

    ran = elmgrove("score", "new.csv", "--state", fan_1, "--format", "jsonl")
    objects = [json.loads(line) for line in ran.out.splitlines()]
    assert [o["line"] for o in objects] == list(range(2, 25))
    assert [o["score"] for o in objects] == pytest.approx(expected)
    assert [o["anomalous"] for o in objects] == (expected > limit).tolist()
    assert [len(o["causes"]) for o in objects] == [3 * o["anomalous"] for o in objects]
    cause = objects[-1]["causes"][0]
    assert cause["feature"] == "heat"
    assert cause["seen"] == pytest.approx(data[-1, 0])

    ran = elmgrove("score", "new.csv", "--state", fan_1, "--worst", 4)
    worst = [line for line in ran.out.splitlines() if "heat" in line]
    assert "The 4 most anomalous rows" in ran.out
    assert len(worst) >= 3
    assert f"{expected.max():.4g}" in worst[0]
    assert f"{int((expected > limit).sum())} of 23 rows are anomalous." in ran.err
    assert fan_1.read_bytes() == before, "scoring learns nothing"


def test_check_answers_by_its_exit_code(elmgrove: Elmgrove, fan_1: Path) -> None:
    write_fan_rows("odd.csv", fan_rows(6, 3, shift=9.0))
    write_fan_rows("quiet.csv", np.zeros((3, 6)))
    assert elmgrove("score", "odd.csv", "--state", fan_1).code == 0
    assert elmgrove("score", "odd.csv", "--state", fan_1, "--check").code == 3
    assert elmgrove("score", "quiet.csv", "--state", fan_1, "--check").code == 0


def test_a_state_that_is_still_learning_flags_nothing(elmgrove: Elmgrove) -> None:
    write_fan_rows("few.csv", fan_rows(1, 20))
    elmgrove("learn", "few.csv", "--state", "fan.elm")
    write_fan_rows("odd.csv", fan_rows(6, 3, shift=99.0))
    ran = elmgrove("score", "odd.csv", "--state", "fan.elm", "--check", "--format", "jsonl")
    assert ran.code == 0
    missing = detector_in("fan.elm").rows_missing
    assert (
        f"This state is still learning and flags nothing: {missing} more rows without an anomalous "
        "one are missing."
    ) in ran.err
    assert {json.loads(line)["threshold"] for line in ran.out.splitlines()} == {None}


def windowed(elmgrove: Elmgrove) -> Detector:
    write_fan_rows("normal.csv", fan_series(1, 600))
    given = ["--window", 4, "--watch-now"]
    assert elmgrove("learn", "normal.csv", "--state", "fan.elm", *given).code == 0
    return detector_in("fan.elm")


def test_a_row_is_explained_by_its_own_window_and_how_long_ago(elmgrove: Elmgrove) -> None:
    detector, data = windowed(elmgrove), fan_series(2, 30)
    data[10, 0] += 5.0
    write_fan_rows("new.csv", data)
    ran = elmgrove("score", "new.csv", "--state", "fan.elm", "--format", "jsonl")
    objects = [json.loads(line) for line in ran.out.splitlines()]
    assert [o["score"] for o in objects] == pytest.approx(detector.score_many(data))
    for ago in range(4):
        cause, *_ = objects[10 + ago]["causes"]
        assert (cause["feature"], cause["ago"]) == ("heat", ago)
        assert cause["seen"] == pytest.approx(data[10, 0])
        assert objects[10 + ago]["anomalous"]
    shown = elmgrove("score", "new.csv", "--state", "fan.elm", "--worst", 4).out
    assert re.search(r"heat .* \(not .*\) \d+% +│\n", shown)
    assert re.search(r"heat .* \(not .*\) \d+%, 1 row ago", shown)
    assert re.search(r"heat .* \(not .*\) \d+%, 3 rows ago", shown)


def test_rows_that_complete_no_window_are_not_judged(elmgrove: Elmgrove) -> None:
    detector = windowed(elmgrove)
    data = fan_series(2, 12)
    data[:, 0] += 9.0
    write_fan_rows("new.csv", data)
    text = Path("new.csv").read_text().splitlines()
    text[6] = "1,2,three,4,5,6"
    Path("new.csv").write_text("\n".join(text))
    score = ("score", "new.csv", "--state", "fan.elm", "--skip-bad")
    ran = elmgrove(*score, "--format", "csv")
    lines = list(csv.DictReader(io.StringIO(ran.out)))
    assert [int(line["anomalous"]) for line in lines] == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1]
    assert "5 of 11 rows are anomalous." in ran.err
    scores = np.concatenate([detector.score_many(data[:5]), detector.score_many(data[6:])])
    assert [float(line["score"]) for line in lines] == pytest.approx(scores)
    assert scores.min() > detector.threshold, "they are scored, by as many rows as there are"
    worst = elmgrove(*score, "--worst", 5).out
    assert worst.count("yes") == 5, "what was not judged comes last"


def test_columns_are_found_by_name(elmgrove: Elmgrove, fan_1: Path) -> None:
    data = fan_rows(5, 10)
    write_fan_rows("new.csv", data)
    order = [3, 0, 5, 1, 4, 2]
    more = np.hstack([data[:, order], data[:, :1]])
    write_fan_rows("moved.csv", more, [NAMES[i] for i in order] + ["unheard of"])
    score = ("--state", fan_1, "--format", "csv")
    moved = elmgrove("score", "moved.csv", *score)
    assert moved.code == 0
    assert moved.out == elmgrove("score", "new.csv", *score).out


def test_a_reader_that_goes_away_is_no_error_to_shout_about(fan_1: Path) -> None:
    """As in ``elmgrove score … | head -1``."""
    write_fan_rows("many.csv", np.zeros((5_000, 6)))
    command = [COMMAND, "score", "many.csv", "--state", fan_1, "--format", "csv"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("line,score")
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_a_file_without_a_row_is_an_error(elmgrove: Elmgrove, fan_1: Path) -> None:
    Path("empty.csv").write_text(",".join(NAMES) + "\n")
    ran = elmgrove("score", "empty.csv", "--state", fan_1)
    assert ran.code == 1
    assert "empty.csv: no rows to score" in ran.err
