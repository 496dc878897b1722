"""The benchmark of drift: what is told of known changes, and the centroids beside it."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.quality.centroids import Centroids
from benchmarks.quality.drift import (
    CALM,
    OWN,
    DriftCase,
    SmallestError,
    cases,
    dealt,
    together,
    tried,
)

from elmgrove.detector.drift import CHANGE, SLOW, SPIKE


def test_centroids_find_a_change_with_the_last_row_of_a_check() -> None:
    """Written out: the check begins with the first anomalous row, and takes W of them."""
    rng = np.random.default_rng(0)
    train, calm = rng.normal(size=(400, 4)), rng.normal(size=(50, 4)) * 0.1
    moved = 9.0 + rng.normal(size=(60, 4))
    found = Centroids(train, 10).found(np.vstack([calm, moved]))
    assert found == [59, 69, 79, 89, 99, 109]
    # Anomalous rows that are near in the mean are none.
    to_and_fro = moved * np.where(np.arange(60) % 2, 1.0, -1.0)[:, None]
    assert Centroids(train, 10).found(to_and_fro) == []


def test_centroids_go_on_in_the_next_rows() -> None:
    rng = np.random.default_rng(0)
    train, moved = rng.normal(size=(400, 4)), 9.0 + rng.normal(size=(60, 4))
    whole, parts = Centroids(train, 25), Centroids(train, 25)
    some = [parts.found(moved[:13]), parts.found(moved[13:])]
    assert whole.found(moved) == [24, 49] == [*some[0], *(13 + row for row in some[1])]


def test_dealt_rows_have_the_mean_and_the_deviation_and_none_comes_twice() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 5)) @ np.diag([1.0, 2, 3, 4, 5]) + 7.0
    found = dealt(rows, 3)
    assert found.mean(axis=0) == pytest.approx(rows.mean(axis=0), abs=0.4)
    assert found.std(axis=0) == pytest.approx(rows.std(axis=0), rel=0.1)
    assert len(np.unique(found[:, 0])) == len(found)
    assert not np.array_equal(found, dealt(rows, 4))


@pytest.mark.parametrize("kind", [CHANGE, SLOW, SPIKE])
def test_a_machine_is_tried(kind: str) -> None:
    own, *theirs = tried(DriftCase("8 sensors, memory 0.0", "1", kind), Path())
    assert own.method == OWN
    assert len(theirs) == 3
    if kind == SPIKE:
        assert (own.rows, own.told) == (None, 0)
    else:
        assert own.rows is not None
        assert (own.told, own.kind, own.sensor) == (1, True, True)


def test_cases_without_a_folder_have_no_fans() -> None:
    names = {case.set for case in cases(None, quick=False)}
    assert not any("fans" in name for name in names)
    assert len({case.set for case in cases(Path(), quick=False)} - names) == 2
    assert {case.kind for case in cases(None, quick=True)} == {CHANGE, SLOW, SPIKE}


def test_what_was_noticed_is_put_together() -> None:
    found = [
        SmallestError(DriftCase("set", "1", CHANGE), OWN, 40, 1, True, True, 2),
        SmallestError(DriftCase("set", "2", CHANGE), OWN, 60, 2, True, False, 4),
        SmallestError(DriftCase("set", "3", CHANGE), OWN, None, 0),
        SmallestError(DriftCase("set", "1", CALM), OWN, None, 3),
        SmallestError(DriftCase("set", "2", CALM), OWN, None, 0),
    ]
    change, calm = together(found)
    assert (change.cases, change.found, change.rows) == (3, 2 / 3, 50.0)
    assert (change.kind_right, change.sensor_right, change.onset) == (1.0, 0.5, 3.0)
    assert change.false is None
    assert (calm.cases, calm.false, calm.rows) == (2, 1.5, None)
