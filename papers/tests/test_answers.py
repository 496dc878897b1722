"""Both answers of a device: what the figures rank rows by is what its verdicts are made of."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from elmgrove.algebra import Basis, HiddenLayer
from elmgrove.detector import Detector
from elmgrove.detector.replay import ScoredRows
from elmgrove_papers.answers import RARE, anomalous, rarity, unknown
from elmgrove_papers.catalogue import figure
from elmgrove_papers.figure import Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg import fans
from elmgrove_papers.mlmg.clients import UNITS, Client, distance_basis
from elmgrove_papers.mlmg.fans import LATE, LATE_ROWS, LEAVER

Array = NDArray[Any]
WIDTH, ROWS = 12, 700
NAMES = ("a", "b", "c")


def _rows(pattern: int, count: int, seed: int) -> Array:
    """Rows of a pattern lie about two directions of its own."""
    axes = np.random.default_rng(pattern).normal(size=(3, WIDTH))
    rng = np.random.default_rng((pattern, seed))
    rows = rng.normal(size=(count, 2)) @ axes[1:] + 4 * axes[0]
    return np.asarray(rows + 0.3 * rng.normal(size=(count, WIDTH)))


def _basis(score: str) -> Basis:
    if score == "loss":
        return Basis(HiddenLayer(WIDTH, 4, seed=1), WIDTH, score=score)
    return distance_basis(np.vstack([_rows(number, ROWS, 0) for number in range(3)]))


def _fleet(score: str) -> Fleet:
    """Three devices that know a pattern each."""
    fleet = Fleet(_basis(score), merged=False)
    for number, name in enumerate(NAMES):
        fleet.learn(name, _rows(number, ROWS, 0))
    return fleet


def _without_margin(fleet: Fleet) -> Fleet:
    """Lets each accept as many rows again: its threshold has no margin any more."""
    for number, name in enumerate(NAMES):
        detector, more = fleet.detector(name), _rows(number, 4 * ROWS, 3)
        calm = more[np.argsort(detector.score_many(more))[:ROWS]]
        assert all(one.learned for one in detector.observe_many(calm))
        detector.gate.expire()
    return fleet


def _tests() -> Array:
    """New rows of each pattern, of one that nobody knows, and some that are off more and more."""
    known = [_rows(number, 150, 1) for number in range(4)]
    off = _rows(0, 150, 2)
    off[:, 3] += np.linspace(0.0, 4.0, len(off))
    return np.vstack([*known, off])


@pytest.mark.parametrize("score", ["loss", "distance"])
def test_what_is_unknown_is_anomalous_and_known_at_nobody(score: str) -> None:
    fleet, rows = _without_margin(_fleet(score)), _tests()
    fleet.sync()
    for name in NAMES:
        detector = fleet.detector(name)
        above = anomalous(fleet, name)(rows) > detector.threshold
        np.testing.assert_array_equal(rarity(detector, detector.score_many(rows)) > RARE, above)
        known = list(map(bool, map(ScoredRows(detector, rows).known, range(len(rows)))))
        expected = above & ~np.array(known)
        np.testing.assert_array_equal(unknown(fleet, name)(rows) > RARE, expected)
        assert 0 < expected.sum() < above.sum(), "the others know some rows, and not all"


def test_rarer_is_never_less_anomalous() -> None:
    detector = _fleet("distance").detector("a")
    scores = np.sort(detector.score_many(_tests()))
    ranked = rarity(detector, scores)
    assert (np.diff(ranked) >= 0.0).all()
    beyond = scores > detector.gate.recent.ordered[-1]
    assert beyond.sum() > 100
    assert (np.diff(ranked[beyond]) > 0.0).all(), "what lies beyond all normal rows is told apart"


def test_so_few_rows_that_no_score_is_above_zero_still_rank_others() -> None:
    detector = Detector.for_basis(_basis("distance"))
    detector.learn_many(_rows(0, 2, 0))
    assert detector.gate.recent.ordered[-1] == 0.0
    near, far = rarity(detector, np.array([0.5, 2.0]))
    assert near < far < np.inf


def test_who_left_is_not_asked_any_more_nor_who_still_learns() -> None:
    fleet, rows = _fleet("loss"), _rows(1, 100, 1)
    fleet.learn("new", _rows(3, 30, 0))
    alone = unknown(fleet, "a")(rows)
    np.testing.assert_array_equal(alone, rarity(fleet.detector("a"), anomalous(fleet, "a")(rows)))
    fleet.sync()
    assert np.median(unknown(fleet, "a")(rows)) < 0.5 < 2.0 < np.median(alone)
    stranger = _rows(3, 100, 1)
    assert np.median(unknown(fleet, "a")(stranger)) > 2.0
    fleet.leave("b")
    fleet.sync()
    assert np.median(unknown(fleet, "a")(rows)) > 2.0


def _fan(number: int, name: str) -> Client:
    """Anomalies are nearer to a device's own rows than its peers' rows are."""
    others = [one for one in range(5) if one != number]
    peers = np.vstack([_rows(one, 40, 1) for one in others])
    damaged = _rows(number, 60, 2)
    damaged[:, 3] += 2.0
    return Client(name, _rows(number, ROWS, 0), _rows(number, 100, 1), peers, damaged)


def test_the_story_has_both_answers_and_a_device_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [LEAVER, "12cm-silentA", LATE, "14cm-silentA", "8cm-silentA"]
    clients = [_fan(number, name) for number, name in enumerate(names)]
    monkeypatch.setattr(fans, "recordings", lambda folder: [])
    monkeypatch.setattr(fans, "fans", lambda recordings: clients)
    monkeypatch.setitem(UNITS, "fans", 4)
    chosen = figure("mlmg", "fans")
    found = chosen.numbers(Run(Path()))
    changes = found["change of own AUC, anomalous"]
    assert changes["by loss"] == dict.fromkeys(names, 0.0), "by loss there is no loan"
    assert all(abs(changes["by distance"][name]) < 0.005 for name in names if name != LATE)
    for score in ("loss", "distance"):
        alone, together, before, joined, left = found[f"story, unknown, by {score}"]
        for name in names[3:]:
            assert together["auc_peers"][name] > alone["auc_peers"][name] + 0.1
            assert left["auc_peers"][name] < joined["auc_peers"][name] - 0.1
        assert joined["auc_peers"][LATE] > before["auc_peers"][LATE] + 0.1
        assert LEAVER not in left["auc_own"]
    assert f"{LATE} has learned {LATE_ROWS} rows, alone" in [one["step"] for one in found["story"]]
    chosen.draw(found, Canvas())
