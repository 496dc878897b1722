"""Several machines: one scaling for all, or own units, and whether they are alike."""

import json
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Scaling
from elmgrove.exchange.folder import FolderExchange
from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in
from support.fans import NAMES, fan_rows, write_fan_rows

ADVICE = "another kind of machine? use own units, or a federation of its own"
QUIET = ("--watch-now",)


@pytest.fixture
def far(elmgrove: Elmgrove, fan_1: Path) -> Path:
    """Evidence of a machine like the first, whose heat is far off."""
    write_fan_rows("far.csv", fan_rows(2, 200, shift=400.0))
    assert elmgrove("learn", "far.csv", "-s", "far.elm", "--like", fan_1, *QUIET).code == 0
    assert elmgrove("share", "--state", "far.elm").code == 0
    return Path("far.evidence")


# Merging


def test_merge_says_who_is_alike_before_it_merges(
    elmgrove: Elmgrove, fan_2: Path, far: Path
) -> None:
    ran = elmgrove("merge", "--state", fan_2, "fan-1.evidence", far)
    alike, unlike, *taken = ran.err.splitlines()
    assert alike == "Alike: fan-1."
    assert unlike.startswith("Not alike: heat is ")
    assert unlike.endswith(f" deviations from far's: {ADVICE}.")
    assert taken[-1].startswith("fan-2 now asks fan-1, far. It borrows ")


def test_one_that_is_unlike_all_others_hears_of_all(
    elmgrove: Elmgrove, fan_2: Path, far: Path
) -> None:
    assert elmgrove("share", "--state", fan_2).code == 0
    ran = elmgrove("merge", "--state", "far.elm", "fan-1.evidence", "fan-2.evidence")
    warned, told = [line for line in ran.err.splitlines() if "deviations" in line]
    assert " deviations from the others'" in warned
    assert told.startswith("far is unlike all others: heat is ")
    assert told.endswith(" deviations from every other.")


def test_a_dry_run_shows_every_feature_and_merges_nothing(
    elmgrove: Elmgrove, fan_2: Path, far: Path
) -> None:
    before = fan_2.read_bytes()
    ran = elmgrove("merge", "--state", fan_2, "fan-1.evidence", far, "--dry-run")
    assert ran.code == 0
    titles = ("fan-2 beside the others'", "fan-2 beside fan-1's", "fan-2 beside far's")
    assert all(title in ran.out for title in titles)
    assert all(ran.out.count(name) == len(titles) for name in NAMES)
    assert "Not alike: heat" in ran.err
    assert "Nothing was merged: fan-2.elm is as it was." in ran.err
    assert fan_2.read_bytes() == before


def test_by_loss_nobody_can_tell(elmgrove: Elmgrove) -> None:
    for number in (1, 2):
        write_fan_rows(f"{number}.csv", fan_rows(number, 200))
    assert elmgrove("learn", "1.csv", "-s", "1.elm", "--score", "loss", *QUIET).code == 0
    assert elmgrove("learn", "2.csv", "-s", "2.elm", "--like", "1.elm", *QUIET).code == 0
    assert elmgrove("share", "-s", "2.elm").code == 0
    ran = elmgrove("merge", "-s", "1.elm", "2.evidence")
    assert "Whether 2 is alike can't be told: by loss" in ran.err
    assert "2, 200 rows learned: taken in." in ran.err


# Pooled scaling


def test_a_scaling_for_what_several_devices_learned(elmgrove: Elmgrove) -> None:
    """Without their rows; each had a scaling of its own before."""
    several = [fan_rows(1, 300), fan_rows(2, 200, shift=3.0)]
    for number, one in enumerate(several):
        write_fan_rows(f"{number}.csv", one)
        assert elmgrove("learn", f"{number}.csv", "-s", f"{number}.elm").code == 0
        assert elmgrove("share", "-s", f"{number}.elm").code == 0
    ran = elmgrove("learn", "0.csv", "-s", "new.elm", "--like", "0.elm", "--like", "1.evidence")
    assert "Scaling pooled over the 500 rows behind 2 files." in ran.err
    basis = detector_in("new.elm").basis
    whole = Scaling.fitted("standard", np.vstack(several))
    np.testing.assert_allclose(basis.scaling.shift, whole.shift, atol=1e-9)
    np.testing.assert_allclose(basis.scaling.scale, whole.scale, rtol=1e-9)
    create = ("federation", "create", "fans", "--exchange", "shared")
    assert elmgrove(*create, "--like", "0.elm", "--like", "1.elm").code == 0
    assert FolderExchange(Path("shared")).charter.basis.fingerprint == basis.fingerprint


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (("--score", "loss"), "by loss sums do not tell"),
        (("--scaling", "minmax"), "extremes"),
        (("--units", 3), "layer.units: 3 here, 6 there"),
        (("--scaling", "own"), "scaling.kind: 'own' here, 'standard' there"),
        (("--scaling", "none"), "scaling.kind: 'none' here, 'standard' there"),
    ],
)
def test_what_can_t_be_pooled(elmgrove: Elmgrove, made: tuple[object, ...], words: str) -> None:
    write_fan_rows("a.csv", fan_rows(1, 200))
    assert elmgrove("learn", "a.csv", "-s", "a.elm", *made).code == 0
    same = made if made[1] in ("loss", "minmax") else ()
    assert elmgrove("learn", "a.csv", "-s", "b.elm", *same).code == 0
    like = ("--like", "a.elm", "--like", "b.elm")
    assert words in one_clear_line(elmgrove("learn", "a.csv", "-s", "c.elm", *like))
    assert not Path("c.elm").exists()


# Own units


def test_the_story_of_two_at_other_levels_in_own_units(elmgrove: Elmgrove) -> None:
    """The second reads the same in other units; each judges and blames in its own."""
    normal = fan_rows(1, 300)
    write_fan_rows("a.csv", normal)
    write_fan_rows("b.csv", 1000.0 - 3.0 * normal)
    made = ("--scaling", "own", "--merged", *QUIET)
    assert elmgrove("learn", "a.csv", "-s", "a.elm", *made).code == 0
    like = ("--like", "a.elm", "--merged", *QUIET)
    assert elmgrove("learn", "b.csv", "-s", "b.elm", *like).code == 0
    for name in "ab":
        assert elmgrove("share", "-s", f"{name}.elm").code == 0
    # From evidence as well, which holds nobody's units.
    alone = ("learn", "a.csv", "-s", "c.elm", "--like", "b.evidence", *QUIET)
    assert elmgrove(*alone).code == 0
    a, c = (detector_in(f"{name}.elm") for name in "ac")
    assert a.basis == c.basis
    ran = elmgrove("merge", "-s", "b.elm", "a.evidence")
    assert "Alike: a.\na, 300 rows learned: merged." in ran.err
    ran = elmgrove("merge", "-s", "a.elm", "b.evidence", "--dry-run")
    assert "a beside b's (in own units)" in ran.out
    new = fan_rows(2, 50)
    new[7, 3] += 30.0
    write_fan_rows("new.csv", 1000.0 - 3.0 * new)
    ran = elmgrove("score", "new.csv", "-s", "b.elm", "--worst", 1)
    assert "current" in ran.out
    seen, expected = 1000.0 - 3.0 * new[7, 3], 1000.0 - 3.0 * (new[7, 3] - 30.0)
    assert f"current {seen:.4g}" in ran.out
    found = float(ran.out.split("(not ")[1].split(")")[0])
    assert found == pytest.approx(expected, abs=5.0)


def test_a_federation_in_own_units_has_no_numbers(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 300))
    assert elmgrove("learn", "a.csv", "-s", "own.elm", "--scaling", "own").code == 0
    create = ("federation", "create", "fans", "--like", "own.elm")
    assert elmgrove(*create, "--exchange", "shared").code == 0
    charter = json.loads(Path("shared/federation.json").read_text())
    assert charter["basis"]["scaling"] == {"kind": "own", "shift": [], "scale": []}
    run = ("device", "run", "--source", "a.csv", "--exchange", "shared", "--verdicts", "")
    error = one_clear_line(elmgrove(*run, "--state", "a.elm", "--name", "a"))
    assert "units_from" in error
    assert not Path("a.elm").exists()
