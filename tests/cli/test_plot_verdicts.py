"""Verdicts read back from a file: times, lines, events and what was infinite."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.cli.plot import holds_verdicts, replay_of_verdicts
from elmgrove.detector.replay import TIME, Interval

CAUSE = {"feature": "flow", "share": 0.9, "seen": 3.0, "expected": None, "ago": 0}


def written(path: Path, *verdicts: dict[str, Any]) -> Path:
    usual = {"score": 1.0, "threshold": 2.0, "anomalous": False, "causes": []}
    path.write_text("".join(json.dumps({**usual, **one}) + "\n" for one in verdicts))
    return path


def test_what_was_infinite_is_the_highest(tmp_path: Path) -> None:
    path = written(
        tmp_path / "fan.jsonl",
        {"threshold": None},
        {"score": 7.0, "device": "fan-2"},
        {"score": None, "anomalous": True, "causes": [CAUSE]},
    )
    replay = replay_of_verdicts(path)
    assert replay.scores.tolist() == [1.0, 7.0, 7.0]
    assert replay.thresholds.tolist() == [np.inf, 2.0, 2.0]
    assert replay.name == "fan"
    assert replay.sensors.values("flow")[2] == 3.0
    assert np.isnan(replay.sensors.expected("flow", np.array([2])).value)


@pytest.mark.parametrize(
    ("told", "axis", "where"),
    [
        ([{"time": "2026-03-01T00:00:00Z"}, {"time": "2026-03-01T00:01:00Z"}], TIME, 60.0),
        ([{"time": 5.0, "line": 3}, {"time": 4.0, "line": 9}], "line", 6.0),
        ([{"where": "fan.csv, line 3"}, {"where": "fan.csv, line 5"}], "line", 2.0),
        ([{"where": "fan.csv, line 3"}, {"where": "other.csv, line 2"}], "verdict", 1.0),
        ([{"time": None}, {"time": "soon"}], "verdict", 1.0),
    ],
)
def test_rows_are_where_their_time_or_line_says(
    tmp_path: Path, told: list[dict[str, Any]], axis: str, where: float
) -> None:
    replay = replay_of_verdicts(written(tmp_path / "fan.jsonl", *told))
    assert replay.axis == axis
    assert replay.where[1] - replay.where[0] == where
    assert list(replay.gaps) == ([1] if axis == "line" else [])


def test_events_are_those_that_were_told(tmp_path: Path) -> None:
    numbers = [None, 4, 4, None, 4, 5]
    told = [{"event": one, "alarm": place == 2} for place, one in enumerate(numbers)]
    replay = replay_of_verdicts(written(tmp_path / "fan.jsonl", *told))
    assert replay.intervals == [Interval(1, 2, 4), Interval(5, 5, 5)]
    anomalous = [{"anomalous": place in (1, 2, 3)} for place in range(6)]
    replay = replay_of_verdicts(written(tmp_path / "fan.jsonl", *anomalous))
    assert replay.intervals == [Interval(1, 3, 3)], "by the usual rule, where no event is told"


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "[1, 2]\n", '{"score": 1}\n', "\x00\xff{"])
def test_other_files_hold_no_verdicts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other"
    path.write_text(text)
    assert not holds_verdicts(path)
    assert holds_verdicts(written(tmp_path / "fan.jsonl", {}))
