"""``elmgrove learn`` with a spectrum: frames are learned and counted, and which window they get."""

import json
import re
from pathlib import Path

import pytest

from elmgrove import Detector, FalseAlarmRate
from elmgrove.cli.learn import LearnRun
from elmgrove.reading.table import Table
from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in, trained
from support.fans import SIGNALS, SPECTRUM, TEXT, samples, write_fan_rows

LENGTH = SPECTRUM.length


def test_frames_are_learned_and_counted(elmgrove: Elmgrove) -> None:
    X = samples(1, 400, more=5)
    write_fan_rows("a.csv", X, SIGNALS)
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", "--spectrum", TEXT, "--window", 1)
    assert ran.code == 0, ran.err
    assert "fan: learned 400 frames of 32 samples, 400 in all.\n" in ran.err
    detector = detector_in("fan.elm")
    assert detector.basis.spectrum == SPECTRUM
    assert detector.basis.features == tuple(SIGNALS)
    at_once = trained(Detector.for_basis(detector.basis), X)
    assert detector.score_many(X) == pytest.approx(at_once.score_many(X))


@pytest.mark.parametrize("window", [1, 3])
def test_the_last_part_is_counted_in_frames(elmgrove: Elmgrove, window: int) -> None:
    X = samples(1, 400)
    write_fan_rows("a.csv", X, SIGNALS)
    how = ["--spectrum", TEXT, "--window", window, "--rate", 0.2]
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", *how)
    found = re.search(r"before it was learned, (.*) % of frames were above", ran.err)
    assert found is not None
    # The same by hand: what is scored is what the samples after the first part complete.
    first = Detector.for_basis(
        detector_in("fan.elm").basis, threshold=FalseAlarmRate(0.2, confidence=0.0)
    )
    first.learn_many(X[: 320 * LENGTH])
    limit, above = first.threshold, 0
    for frame in X[320 * LENGTH :].reshape(80, LENGTH, 2):
        above += first.score_one(frame) > limit
        first.learn_one(frame)
    assert above
    assert float(found[1]) == pytest.approx(100 * above / 80, abs=0.5)


def test_a_gap_begins_the_frame_again(elmgrove: Elmgrove) -> None:
    X = samples(1, 30)
    write_fan_rows("a.csv", X, SIGNALS)
    lines = Path("a.csv").read_text().splitlines()
    lines[1 + 10 * LENGTH + 7] = "none,none"
    Path("a.csv").write_text("\n".join(lines) + "\n")
    how = ["--spectrum", TEXT, "--window", 1, "--skip-bad"]
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", *how)
    assert "fan: learned 29 frames of 32 samples, 29 in all.\n" in ran.err
    detector = detector_in("fan.elm")
    apart = trained(Detector.for_basis(detector.basis), X[: 10 * LENGTH])
    apart.interrupt()
    apart.learn_many(X[10 * LENGTH + 8 :])
    assert detector.score_many(X) == pytest.approx(apart.score_many(X))


def test_a_state_keeps_its_spectrum_and_inspect_shows_it(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", samples(1, 60), SIGNALS)
    elmgrove("learn", "a.csv", "--state", "fan.elm", "--spectrum", TEXT, "--window", 1)
    again = elmgrove("learn", "a.csv", "--state", "fan.elm", "--spectrum", TEXT)
    assert "--spectrum: fan.elm exists and keeps the settings" in one_clear_line(again)
    assert (
        "learned 60 frames of 32 samples, 120 in all"
        in elmgrove("learn", "a.csv", "--state", "fan.elm").err
    )
    facts = json.loads(elmgrove("inspect", "fan.elm", "--json").out)
    assert facts["spectrum"] == SPECTRUM.fields
    assert (facts["columns"], facts["rows learned"]) == (2, 120)
    like = elmgrove("learn", "a.csv", "--state", "b.elm", "--like", "fan.elm", "--spectrum", TEXT)
    assert "--spectrum: --like takes this from fan.elm" in one_clear_line(like)
    assert elmgrove("learn", "a.csv", "--state", "b.elm", "--like", "fan.elm").code == 0
    assert detector_in("b.elm").basis == detector_in("fan.elm").basis


def test_what_can_not_be_is_said(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", samples(1, 0, more=LENGTH - 1), SIGNALS)
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", "--spectrum", TEXT)
    assert "fewer samples than one frame of 32 has" in one_clear_line(ran)
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", "--spectrum", "fast")
    assert "RATE:LENGTH[:BANDS][:mel]" in one_clear_line(ran)
    assert not Path("fan.elm").exists()


def test_only_whole_windows_of_frames_are_counted() -> None:
    X = samples(1, 400)
    detector = Detector.for_data(
        X, spectrum=SPECTRUM, window=3, threshold=FalseAlarmRate(0.05, confidence=0.0)
    )
    # In the last fifth, after a frame and a half.
    gap = 321 * LENGTH + LENGTH // 2
    lesson = LearnRun(detector, Table(None, X, list(range(len(X))), gaps=[gap]))
    lesson.take()
    assert lesson.learned == 399
    assert lesson.seen.rows == 1 + 78 - 2


def test_blocks_need_not_end_where_frames_do(elmgrove: Elmgrove) -> None:
    X = samples(1, 300, more=LENGTH // 2)[LENGTH // 3 :]
    write_fan_rows("a.csv", X, SIGNALS)
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", "--spectrum", TEXT, "--window", 1)
    assert f"learned {len(X) // LENGTH} frames of 32 samples" in ran.err
    assert detector_in("fan.elm").learned == len(X) // LENGTH
