"""``elmgrove share`` and ``merge``: two people with a USB stick."""

import csv
import io
import shutil
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector, Evidence
from elmgrove.federation.contribution import Contribution
from elmgrove.storage.disk import load, save
from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in
from support.fans import NAMES, fan_rows, write_fan_rows


def test_the_whole_story_of_one_model(elmgrove: Elmgrove, fan_1: Path, fan_2: Path) -> None:
    like = ("--like", "fan-1.evidence", "--watch-now", "--merged")
    fan_2.unlink()
    assert elmgrove("learn", "normal-2.csv", "--state", fan_2, *like).code == 0
    score = ("score", "normal-1.csv", "--state", fan_2, "--format", "csv")
    alone, scored_alone = fan_2.read_bytes(), elmgrove(*score).out

    ran = elmgrove("merge", "--state", fan_2, "fan-1.evidence")
    assert ran.code == 0
    assert "fan-1, 300 rows learned: merged." in ran.err
    assert "fan-2 now uses its own rows and those of fan-1." in ran.err
    merged, scored_merged = fan_2.read_bytes(), elmgrove(*score).out
    assert scored_merged != scored_alone

    # As if all rows had been learned in one place.
    detector = detector_in(fan_2)
    central = Detector(detector.basis.layer, scaling=detector.basis.scaling, features=NAMES)
    central.learn_many(np.vstack([fan_rows(1, 300), fan_rows(2, 200)]))
    lines = csv.DictReader(io.StringIO(scored_merged))
    scores = [float(line["score"]) for line in lines]
    assert scores == pytest.approx(central.score_many(fan_rows(1, 300)), rel=1e-9)

    # Again: nothing.
    ran = elmgrove("merge", "--state", fan_2, "fan-1.evidence")
    assert (ran.code, "nothing new" in ran.err) == (0, True)
    assert fan_2.read_bytes() == merged

    # What is shared is one's own. (From a copy: a state remembers what it gave away.)
    shutil.copy(fan_2, "copy.elm")
    elmgrove("share", "--state", "copy.elm")
    shared = load(Path("fan-2.evidence"), Contribution.from_bytes)
    assert (shared.origin, shared.epoch, shared.evidence.count) == ("fan-2", 200, 200)

    # Newer takes the place of older, whether the older was there or not.
    write_fan_rows("more-1.csv", fan_rows(3, 50))
    elmgrove("learn", "more-1.csv", "--state", fan_1)
    elmgrove("share", "--state", fan_1, "-o", "newer.evidence")
    Path("late.elm").write_bytes(alone)
    assert "350 rows learned: merged" in elmgrove("merge", "-s", fan_2, "newer.evidence").err
    elmgrove("merge", "--state", "late.elm", "newer.evidence")
    assert fan_2.read_bytes() == Path("late.elm").read_bytes() != merged
    elmgrove("merge", "--state", fan_2, "fan-1.evidence")
    assert fan_2.read_bytes() == Path("late.elm").read_bytes(), "older does not replace newer"

    # Forgotten: as if it had never been there.
    ran = elmgrove("merge", "--state", fan_2, "--forget", "fan-1")
    assert (ran.code, "no longer uses anything of fan-1" in ran.err) == (0, True)
    assert fan_2.read_bytes() == alone
    assert elmgrove(*score).out == scored_alone
    assert "it uses no other device" in one_clear_line(
        elmgrove("merge", "--state", fan_2, "--forget", "fan-1")
    )


def test_the_story_of_two_that_ask_each_other(elmgrove: Elmgrove, fan_1: Path) -> None:
    """The second stands in a warmer room: all is anomalous to the first, which then asks it."""
    write_fan_rows("warm.csv", fan_rows(2, 200, shift=40.0))
    like = ("--like", fan_1, "--watch-now")
    assert elmgrove("learn", "warm.csv", "--state", "fan-2.elm", *like).code == 0
    assert elmgrove("share", "--state", "fan-2.elm").code == 0
    broken = fan_rows(4, 1, shift=40.0)
    broken[0, 3] += 30.0
    write_fan_rows("new.csv", np.vstack([fan_rows(3, 199, shift=40.0), broken]))
    score = ("score", "new.csv", "--state", fan_1, "--format", "csv")
    alone = list(csv.DictReader(io.StringIO(elmgrove(*score).out)))
    assert [(line["anomalous"], line["known"]) for line in alone] == [("1", "")] * 200

    ran = elmgrove("merge", "--state", fan_1, "fan-2.evidence")
    assert "fan-2, 200 rows learned: taken in.\nfan-1 now asks fan-2. It borrows nothing" in ran.err
    ran = elmgrove(*score)
    asked = list(csv.DictReader(io.StringIO(ran.out)))
    assert [line["score"] for line in asked] == [line["score"] for line in alone], "own model"
    assert {line["anomalous"] for line in asked} == {"1"}
    assert {line["known"] for line in asked} == {"fan-2", ""}
    assert asked[-1]["known"] == "", "no normal of anybody"
    known = sum(line["known"] == "fan-2" for line in asked)
    assert known >= 190
    assert f"200 of 200 rows are anomalous; {known} of them are normal elsewhere." in ran.err
    assert "(normal at fan-2)" in ran.err.replace("\n", " ")
    assert elmgrove("merge", "--state", fan_1, "--forget", "fan-2").code == 0
    assert list(csv.DictReader(io.StringIO(elmgrove(*score).out))) == alone


def test_several_files_are_merged_all_or_none(elmgrove: Elmgrove, fan_1: Path, fan_2: Path) -> None:
    write_fan_rows("normal-3.csv", fan_rows(3, 150))
    elmgrove("learn", "normal-3.csv", "--state", "fan-3.elm", "--like", fan_1)
    elmgrove("share", "--state", "fan-3.elm")
    Path("bad.evidence").write_bytes(b"nonsense")
    before = fan_2.read_bytes()
    files = ["fan-1.evidence", "fan-3.evidence"]
    assert "bad.evidence" in one_clear_line(elmgrove("merge", "-s", fan_2, *files, "bad.evidence"))
    assert fan_2.read_bytes() == before
    assert "asks fan-1, fan-3. It borrows" in elmgrove("merge", "-s", fan_2, *files).err
    one_by_one = Path("other.elm")
    one_by_one.write_bytes(before)
    for file in reversed(files):
        elmgrove("merge", "-s", one_by_one, file)
    assert fan_2.read_bytes() == one_by_one.read_bytes()


# The upload guard


def test_too_few_rows_are_not_shared(elmgrove: Elmgrove, tmp_path: Path) -> None:
    """With 3 units and 6 columns, (3 · 6 + 6 + 6) / 6 = 5 rows are the least (C, s and e)."""
    write_fan_rows("few.csv", fan_rows(1, 3))
    elmgrove("learn", "few.csv", "--state", "fan.elm", "--units", 3)
    before = Path("fan.elm").read_bytes()
    assert "Error: 2 more rows are needed, or rows could be computed" in one_clear_line(
        elmgrove("share", "-s", "fan.elm")
    )
    assert Path("fan.elm").read_bytes() == before
    assert not Path("fan.evidence").exists()

    ran = elmgrove("share", "--state", "fan.elm", "--no-guard")
    assert (ran.code, "fan, 3 rows." in ran.err) == (0, True)
    assert load(Path("fan.evidence"), Contribution.from_bytes).evidence.count == 3


def test_few_new_rows_wait_for_more(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", fan_rows(1, 20))
    elmgrove("learn", "a.csv", "--state", "fan.elm", "--units", 3)
    assert elmgrove("share", "--state", "fan.elm", "-o", "first.evidence", "--guard").code == 0
    write_fan_rows("b.csv", fan_rows(2, 3))
    elmgrove("learn", "b.csv", "--state", "fan.elm")
    ran = elmgrove("share", "--state", "fan.elm", "-o", "second.evidence")
    assert ran.code == 0
    assert "fan, 20 rows. 2 more rows are needed before the newer ones follow." in ran.err
    assert Path("second.evidence").read_bytes() == Path("first.evidence").read_bytes()

    write_fan_rows("c.csv", fan_rows(3, 2))
    elmgrove("learn", "c.csv", "--state", "fan.elm")
    ran = elmgrove("share", "--state", "fan.elm", "-o", "third.evidence")
    assert "fan, 25 rows.\n" in ran.err
    assert load(Path("third.evidence"), Contribution.from_bytes).epoch == 25


# ``elmgrove merge`` of a file with P and β: U and V are computed where it is merged

RIDGE = 0.02


@pytest.fixture(name="state")
def state_fixture(elmgrove: Elmgrove) -> Path:
    """A device with one model, by loss."""
    write_fan_rows("normal.csv", fan_rows(1, 300))
    learn = ("learn", "normal.csv", "--state", "fan-1.elm", "--score", "loss", "--merged")
    assert elmgrove(*learn, "--watch-now").code == 0
    return Path("fan-1.elm")


def node(state: Path, mine: np.ndarray) -> Path:
    """A node that knows OS-ELM's equations, row by row as they are printed, and no more."""
    basis = detector_in(state).basis
    P = np.eye(basis.layer.units) / RIDGE
    beta = np.zeros((basis.layer.units, basis.outputs))
    for x in basis.scaling(mine):
        h = basis.layer(x[np.newaxis])
        P = P - P @ h.T @ h @ P / (1.0 + h @ P @ h.T)
        beta = beta + P @ h.T @ (x - h @ beta)
    evidence = Evidence.from_model(basis, P, beta, len(mine), RIDGE)
    save(Path("node.evidence"), Contribution("node", len(mine), (evidence,)))
    return Path("node.evidence")


def test_a_nodes_p_and_beta_are_merged_as_the_rows_that_it_learned(
    elmgrove: Elmgrove, state: Path
) -> None:
    mine = fan_rows(2, 200, shift=1.0)
    ran = elmgrove("merge", "--state", state, node(state, mine))
    assert (ran.code, "node, 200 rows learned: merged." in ran.err) == (0, True)
    detector = detector_in(state)
    basis = detector.basis
    X = basis.scaling(np.vstack([fan_rows(1, 300), mine]))
    H = basis.layer(X)
    beta = np.linalg.solve(H.T @ H + 1e-3 * np.eye(H.shape[1]), H.T @ X)
    new = basis.scaling(fan_rows(3, 50))
    losses = np.mean((basis.layer(new) @ beta - new) ** 2, axis=1)
    np.testing.assert_allclose(detector.score_many(fan_rows(3, 50)), losses, rtol=1e-6)
    # As with any other contribution: again changes nothing, and it can be forgotten.
    assert "nothing new" in elmgrove("merge", "--state", state, "node.evidence").err
    assert elmgrove("merge", "--state", state, "--forget", "node").code == 0
