"""``elmgrove learn``: what it says, what it keeps, and what it leaves out."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector, HiddenLayer
from elmgrove.federation import Member
from elmgrove.storage.disk import load
from support.commands import Elmgrove
from support.fans import NAMES, rows, write


def test_learn_says_what_it_did_and_goes_on_from_there(elmgrove: Elmgrove) -> None:
    write("a.csv", rows(1, 60))
    first = elmgrove("learn", "a.csv", "--state", "fan.elm")
    assert (first.code, first.out) == (0, "")
    assert "fan: learned 60 rows, 60 in all." in first.err
    assert "no alarms before 99 rows" in first.err
    write("b.csv", rows(2, 90))
    second = elmgrove("learn", "b.csv", "-s", "fan.elm")
    assert "fan: learned 90 rows, 150 in all." in second.err
    assert "Watching: scores above" in second.err
    detector = load(Path("fan.elm"), Member.from_bytes).detector
    at_once = Detector(detector.basis.layer, scaling=detector.basis.scaling, features=NAMES)
    at_once.learn_many(np.vstack([rows(1, 60), rows(2, 90)]))
    assert detector.model.beta == pytest.approx(at_once.model.beta, rel=1e-9)


def test_the_gate_leaves_strange_rows_out(elmgrove: Elmgrove, fan_1: Path) -> None:
    shutil.copy(fan_1, "trusting.elm")
    write("mixed.csv", np.vstack([np.zeros((10, 6)), rows(6, 5, shift=9.0)]))
    ran = elmgrove("learn", "mixed.csv", "--state", fan_1, "--gate")
    assert "learned 10 rows (5 strange ones left out), 310 in all" in ran.err
    assert len(load(fan_1, Member.from_bytes).detector.quarantine) == 5
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
    np.save("holes.npy", np.vstack([rows(1, 5), np.full((1, 6), np.nan)]))
    ran = elmgrove("score", "holes.npy", "-s", fan_1, "--skip-bad", "--format", "csv")
    assert [line.partition(",")[0] for line in ran.out.splitlines()] == ["line", *"01234"]


def test_columns_can_be_dropped_for_good(elmgrove: Elmgrove) -> None:
    data, names = rows(1, 120), ["time", *NAMES[1:]]
    write("timed.csv", data, names)
    ran = elmgrove("learn", "timed.csv", "-s", "fan.elm", "--drop", "time", "--drop", "hum")
    assert ran.code == 0
    kept = load(Path("fan.elm"), Member.from_bytes).detector.basis.features
    assert kept == ("load [%]", "speed [m/s]", "current", "draft")
    assert elmgrove("score", "timed.csv", "-s", "fan.elm").code == 0


def test_settings_become_the_state(elmgrove: Elmgrove) -> None:
    write("a.csv", rows(1, 150))
    options = {
        "--name": "Lüfter 7",
        "--scaling": "minmax",
        "--units": 4,
        "--activation": "tanh",
        "--weights": "normal",
        "--seed": 12,
        "--ridge": 0.5,
        "--forgetting": 0.999,
        "--sigma": 4,
    }
    given = [part for option in options.items() for part in option]
    assert elmgrove("learn", "a.csv", "--state", "x.elm", *given).code == 0
    member = load(Path("x.elm"), Member.from_bytes)
    assert member.name == "Lüfter 7"
    assert member.detector.basis.layer == HiddenLayer(6, 4, "tanh", "normal", 12)
    assert member.detector.basis.scaling.kind == "minmax"
    assert (member.detector.model.ridge, member.detector.model.forgetting) == (0.5, 0.999)
    assert member.detector.policy.k == 4


def test_like_works_with_a_state_and_with_evidence(
    elmgrove: Elmgrove, fan_1: Path, fan_2: Path
) -> None:
    assert (
        elmgrove("learn", "normal-2.csv", "-s", "x.elm", "--like", fan_1, "--rate", 0.05).code == 0
    )
    made = load(Path("x.elm"), Member.from_bytes).detector
    assert (
        made.basis
        == load(fan_2, Member.from_bytes).detector.basis
        == load(fan_1, Member.from_bytes).detector.basis
    )
    assert made.policy.rate == 0.05
