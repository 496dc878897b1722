"""Verdicts on their way out: real files, real pipes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import AlarmRule, Detector, FalseAlarmRate, HiddenLayer
from elmgrove.detector.verdict import Verdict
from elmgrove.device import output
from elmgrove.device.output import Verdicts, message, wants
from support.faults import full


@pytest.fixture(scope="module")
def detector() -> Detector:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 4))
    soon = FalseAlarmRate(confidence=0.0)
    layer = HiddenLayer(inputs=4, units=2, seed=7)
    each = AlarmRule(k=1, n=1, cooldown=0)
    detector = Detector(layer, features=["a", "b", "ä", "d"], threshold=soon, alarm=each)
    detector.learn_many(rows)
    return detector


def judged(detector: Detector, where: str, row: list[float]) -> tuple[Verdict, dict[str, Any]]:
    verdict = detector.observe(row, 1714573200.0)
    return verdict, message(where, verdict, detector.blame(row) if verdict.anomalous else [])


def test_a_verdict_has_every_field(detector: Detector) -> None:
    verdict, told = judged(detector, "fan.csv, line 17", [0.0, 0.0, 50.0, 0.0])
    assert list(told) == [
        "where", "time", "score", "threshold", "state", "anomalous", "known", "learned",
        "alarm", "event", "pattern", "flagged", "causes",
    ]  # fmt: skip
    assert (told["where"], told["time"]) == ("fan.csv, line 17", "2024-05-01T14:20:00Z")
    assert told["score"] == verdict.score > told["threshold"] == verdict.threshold
    assert told["state"] == "watching"
    assert told["known"] == []
    assert (told["anomalous"], told["learned"], told["alarm"]) == (True, False, True)
    assert (told["pattern"], told["event"]) == (0, 1)
    assert told["flagged"] == {
        "rows": verdict.flagged.rows,
        "share": verdict.flagged.share,
        "band": list(verdict.flagged.band),
    }
    assert 0 <= told["flagged"]["band"][0] <= told["flagged"]["share"]
    assert told["flagged"]["share"] <= told["flagged"]["band"][1] <= 1
    assert list(told["causes"][0]) == ["feature", "share", "seen", "expected", "ago"]
    assert told["causes"][0]["feature"] == "ä"
    assert told["causes"][0]["seen"] == pytest.approx(50.0)


def test_lines_are_there_at_once_and_appended(detector: Detector, tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_text('{"from": "before"}\n')
    out = Verdicts(str(path))
    for n in range(3):
        _, told = judged(detector, f"Lüfter, line {n}", [0.0] * 4)
        out.write(told)
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == n + 2
        assert json.loads(lines[-1]) == told
        assert "Lüfter" in lines[-1]
    out.close()


@pytest.mark.parametrize(
    ("only", "wanted"), [("all", 4), ("anomalies", 3), ("alarms", 1), ("events", 0)]
)
def test_only_what_is_wanted(only: Any, wanted: int, detector: Detector) -> None:
    detector.observe([0.0] * 4)
    anomalous = detector.observe([0.0, 0.0, 50.0, 0.0])
    normal = detector.observe([0.0] * 4)
    quiet = replace(anomalous, alarm=False)
    known = replace(quiet, known=("fan-2",))
    assert sum(wants(only, one) for one in (anomalous, normal, quiet, known)) == wanted


@pytest.mark.parametrize("renamed", [True, False], ids=["renamed", "removed"])
def test_a_rotated_file_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renamed: bool
) -> None:
    path, old = tmp_path / "verdicts.jsonl", tmp_path / "verdicts.jsonl.1"
    clock = [100.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: clock[0])
    out = Verdicts(str(path))
    out.write({"n": 1})
    path.rename(old) if renamed else path.unlink()
    out.write({"n": 2})
    assert not path.exists(), "looked sooner than a second after the last look"
    clock[0] += 1.5
    out.write({"n": 3})
    assert path.read_text() == '{"n": 3}\n'
    path.unlink()
    out.write({"n": 4})
    assert not path.exists(), "looked sooner than a second after the last look"
    clock[0] += 1.5
    out.write({"n": 5})
    out.close()
    assert path.read_text() == '{"n": 5}\n'
    if renamed:
        assert old.read_text() == '{"n": 1}\n{"n": 2}\n'


def test_what_the_disk_takes_of_a_line_is_taken_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "verdicts.jsonl"
    out = Verdicts(str(path))
    out.write({"n": 1})
    with full(most=12):
        out.write({"n": 2})
        out.write({"n": 3})
        assert path.read_text() == '{"n": 1}\n'
    out.write({"n": 4})
    out.close()
    assert path.read_text() == '{"n": 1}\n{"n": 4}\n'
    assert [record.message.removeprefix(f"{path} ") for record in caplog.records] == [
        "takes no verdicts: File too large; watching and alarms go on, these lines are lost",
        "takes verdicts again; 2 were lost",
    ]


def test_a_line_behind_one_that_was_cut_off_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_text('{"n": 1}\n{"n": 2')
    out = Verdicts(str(path))
    out.write({"n": 3})
    out.write({"where": os.fsdecode(b"fan-\xff.csv")})
    out.close()
    assert path.read_text().splitlines() == [
        '{"n": 1}', '{"n": 2', '{"n": 3}', '{"where": "fan-\\udcff.csv"}',
    ]  # fmt: skip


def test_a_disk_that_takes_nothing_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    out = Verdicts("/dev/full")
    for n in range(3):
        out.write({"n": n})
    out.close()
    assert [record.message for record in caplog.records] == [
        "/dev/full takes no verdicts: No space left on device; watching and alarms go on, "
        "these lines are lost",
        "verdicts: 3 were not written",
    ]


def test_a_place_that_went_away_with_a_rotation_may_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [100.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: clock[0])
    folder = tmp_path / "log"
    folder.mkdir()
    out = Verdicts(str(folder / "verdicts.jsonl"))
    out.write({"n": 1})
    folder.rename(tmp_path / "old")
    clock[0] += 1.5
    out.write({"n": 2})
    out.write({"n": 3})
    folder.mkdir()
    out.write({"n": 4})
    out.close()
    assert (folder / "verdicts.jsonl").read_text() == '{"n": 4}\n'
    assert (tmp_path / "old" / "verdicts.jsonl").read_text() == '{"n": 1}\n'
    assert "takes verdicts again; 2 were lost" in caplog.text


WRITER = """
from elmgrove.device.output import Verdicts
import sys
out = Verdicts("-")
out.write({"n": 0})
sys.stdin.readline()
try:
    while True:
        out.write({"n": 1})
except BrokenPipeError as error:
    out.close()
    sys.exit(f"ended: {error}")
"""


def test_standard_output_is_written_line_by_line_until_its_reader_ends() -> None:
    pipe = subprocess.PIPE
    # With this setting Python would write line by line whatever the program does.
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER], stdin=pipe, stdout=pipe, stderr=pipe, env=buffered
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'{"n": 0}\n'
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b"ended: verdicts: the program that read them has ended\n"
        assert process.wait(300) == 1
