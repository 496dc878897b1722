"""``elmgrove plot``: of rows, of a state, and of verdicts that were written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from elmgrove.cli.plot import holds_verdicts, replay_of_verdicts
from elmgrove.detector.replay import TIME, Interval
from elmgrove.storage.disk import save
from support.commands import Elmgrove, Ran
from support.factories import member_in
from support.labelled import labelled, labelled_pump_rows, write_labelled
from support.made_once import made_once


@pytest.fixture(name="pump")
def pump_fixture(elmgrove: Elmgrove) -> Path:
    """A state that learned 2,000 normal rows, and rows with four faults beside it."""

    def make() -> None:
        write_labelled("normal.csv", labelled_pump_rows(2000, seed=3))
        given = ("--state", "pump.elm", "--watch-now")
        assert elmgrove("learn", "normal.csv", *given).code == 0
        write_labelled("new.csv", labelled()[0])

    made_once("pump that is drawn", make)
    return Path("pump.elm")


def drawn(path: str) -> np.ndarray:
    """A picture, which is not blank."""
    seen = imread(path)
    assert seen.shape[1] > 1000
    assert seen.std() > 0.02
    return np.asarray(seen)


def test_rows_are_drawn_with_the_state_that_judges_them(elmgrove: Elmgrove, pump: Path) -> None:
    before = pump.read_bytes()
    ran = elmgrove("plot", "new.csv", "--state", pump)
    assert ran.code == 0
    assert "pump: 4 events in 1,600 rows, the worst at 2026-03-0" in ran.err
    assert "Wrote new.csv.png." in ran.err
    drawn("new.csv.png")
    assert pump.read_bytes() == before, "nothing is learned"
    whole = Path("new.csv.png").read_bytes()
    assert elmgrove("plot", "new.csv", "--state", pump, "--event", 2, "--out", "two.png").code == 0
    assert Path("two.png").read_bytes() != whole
    assert elmgrove("plot", "new.csv", "--state", pump, "--sensors", 1, "-o", "one.png").code == 0
    assert drawn("one.png").shape[0] < drawn("new.csv.png").shape[0]


def test_a_state_is_drawn_with_what_it_remembers(elmgrove: Elmgrove, pump: Path) -> None:
    ran = elmgrove("plot", pump)
    assert "the last 512 rows it learned; nothing waits in quarantine. Wrote pump.elm.png." in (
        ran.err
    )
    member = member_in(pump)
    member.detector.observe_many(labelled()[0])
    save(pump, member)
    ran = elmgrove("plot", pump, "--out", "state.svg")
    assert f"{len(member.detector.quarantine)} anomalous ones that wait in quarantine" in ran.err
    assert Path("state.svg").read_text().startswith("<?xml")


def test_verdicts_of_the_agent_are_drawn(elmgrove: Elmgrove, pump: Path) -> None:
    # Later than what was learned, which an agent would skip.
    new = Path("new.csv")
    new.write_text(new.read_text().replace("2026-03-", "2026-04-"))
    given = ("--source", "new.csv", "--state", pump, "--verdicts", "pump.jsonl")
    assert elmgrove("device", "run", *given).code == 0
    told = [json.loads(line) for line in Path("pump.jsonl").read_text().splitlines()]
    events = {one["event"] for one in told} - {None}
    ran = elmgrove("plot", "pump.jsonl")
    assert ran.code == 0
    assert f"{len(events)} events in 1,600 rows" in ran.err
    drawn("pump.jsonl.png")


def test_scores_that_were_written_are_drawn(elmgrove: Elmgrove, pump: Path) -> None:
    ran = elmgrove("score", "new.csv", "--state", pump, "--format", "jsonl")
    Path("scores.jsonl").write_text(ran.out)
    said = elmgrove("plot", "scores.jsonl").err
    assert "scores: 4 events in 1,600 rows, the worst at 2026-03-0" in said
    drawn("scores.jsonl.png")


def refused(ran: Ran) -> str:
    """The text of an error, which may follow notes about the file."""
    assert (ran.code, ran.out) == (1, "")
    last = ran.err.splitlines()[-1]
    assert last.startswith("Error: ")
    return last


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("plot", "new.csv"), "give the state that judges them (--state)"),
        (
            ("plot", "new.csv", "--state", "pump.elm", "--event", 9),
            "no event 9, but 1 to 4",
        ),
        (("plot", "empty.csv", "--state", "pump.elm"), "no rows to draw"),
        (("plot", "cut.jsonl"), "cut.jsonl, line 2: not a verdict"),
        (("plot", "new.csv", "--state", "pump.elm", "-o", "a.txt"), "a.txt"),
    ],
)
def test_what_cant_be_drawn_is_said(
    elmgrove: Elmgrove,
    pump: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[object, ...],
    text: str,
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    Path("empty.csv").write_text("time,rpm,temp,volt,amp\n")
    verdict = {"score": 1.0, "threshold": 3.0, "anomalous": False, "causes": []}
    Path("cut.jsonl").write_text(json.dumps(verdict) + '\n{"score": 1.0, "thr')
    assert text in refused(elmgrove(*command))


# Verdicts read back from a file: times, lines, events and what was infinite

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
