"""``elmgrove score`` with a spectrum: a line for each frame, in all formats."""

import csv
import dataclasses
import io
import json
from pathlib import Path

import pytest

from elmgrove import Detector
from elmgrove.federation.member import Member
from elmgrove.storage.disk import save
from support.commands import Elmgrove, made_once
from support.factories import detector_in
from support.fans import SIGNALS, SPECTRUM, TEXT, samples, whistling, write_fan_rows

LENGTH = SPECTRUM.length


@pytest.fixture(name="fan", params=[1, 3])
def fan_fixture(elmgrove: Elmgrove, request: pytest.FixtureRequest) -> Path:
    def make() -> None:
        write_fan_rows("normal.csv", samples(1, 300), SIGNALS)
        how = ["--spectrum", TEXT, "--window", request.param, "--watch-now"]
        assert elmgrove("learn", "normal.csv", "--state", "fan.elm", *how).code == 0

    made_once(f"fan in windows of {request.param}", make)
    return Path("fan.elm")


def test_each_frame_has_a_line_in_all_formats(elmgrove: Elmgrove, fan: Path) -> None:
    X = whistling(samples(2, 20, more=9), 12)
    write_fan_rows("new.csv", X, SIGNALS)
    detector = detector_in(fan)
    ends = [1 + (frame + 1) * LENGTH for frame in range(20)]

    ran = elmgrove("score", "new.csv", "--state", fan, "--format", "jsonl")
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["line"] for one in told] == ends
    assert [one["score"] for one in told] == pytest.approx(detector.score_many(X))
    anomalous = [number for number, one in enumerate(told) if one["anomalous"]]
    assert anomalous[: detector.window] == [12, 13, 14][: detector.window]
    for number in anomalous[: detector.window]:
        cause = told[number]["causes"][0]
        assert (cause["feature"], cause["ago"]) == ("vibration 75-87.5 Hz", number - 12)
    assert f"{len(anomalous)} of 20 frames are anomalous." in ran.err

    ran = elmgrove("score", "new.csv", "--state", fan, "--format", "csv")
    lines = list(csv.DictReader(io.StringIO(ran.out)))
    assert [int(line["line"]) for line in lines] == ends
    assert lines[12]["causes"].startswith("vibration 75-87.5 Hz=")

    ran = elmgrove("score", "new.csv", "--state", fan, "--worst", 1, "--check")
    assert ran.code == 3
    assert "vibration 75-87.5 Hz" in ran.out


def test_no_frame_and_no_window_reaches_over_a_gap(elmgrove: Elmgrove, fan: Path) -> None:
    write_fan_rows("new.csv", whistling(samples(2, 9), 7), SIGNALS)
    lines = Path("new.csv").read_text().splitlines()
    # Two gaps, with less than a frame between them.
    lines[1 + 4 * LENGTH] = lines[1 + 5 * LENGTH - 1] = "none,none"
    Path("new.csv").write_text("\n".join(lines) + "\n")
    ran = elmgrove("score", "new.csv", "--state", fan, "--skip-bad", "--format", "jsonl")
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["line"] for one in told] == [1 + k * LENGTH for k in (1, 2, 3, 4, 6, 7, 8, 9)]
    window = detector_in(fan).window
    # The first windows of a stretch are not full, and not judged.
    assert told[6]["anomalous"]
    assert told[6]["causes"][0]["feature"] == "vibration 75-87.5 Hz"
    assert not any(one["anomalous"] for one in told[4 : 4 + window - 1])


def test_less_than_a_frame_has_no_line(elmgrove: Elmgrove, fan: Path) -> None:
    write_fan_rows("new.csv", samples(2, 0, more=LENGTH - 1), SIGNALS)
    ran = elmgrove("score", "new.csv", "--state", fan, "--format", "jsonl")
    assert (ran.code, ran.out) == (0, "")
    assert "0 of 0 frames are anomalous." in ran.err
    ran = elmgrove("score", "new.csv", "--state", fan)
    assert (ran.code, ran.out) == (0, ""), "nor is there a table"


def test_frames_may_overlap(elmgrove: Elmgrove) -> None:
    X = samples(1, 300, more=9)
    spectrum = dataclasses.replace(SPECTRUM, step=20)
    save(
        Path("fan.elm"),
        Member("fan", Detector.for_data(X, spectrum=spectrum, window=2), merges=True),
    )
    write_fan_rows("normal.csv", X, SIGNALS)
    count = (len(X) - LENGTH) // 20 + 1
    ran = elmgrove("learn", "normal.csv", "--state", "fan.elm")
    assert f"learned {count} frames of 32 samples, {count - 1} windows of 2 in all." in ran.err
    ran = elmgrove("score", "normal.csv", "--state", "fan.elm", "--format", "jsonl")
    lines = [json.loads(line)["line"] for line in ran.out.splitlines()]
    assert lines == [1 + LENGTH + 20 * number for number in range(count)]
