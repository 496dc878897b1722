"""What is measured is what scikit-learn measures, and events are counted as a person would."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from elmgrove.cli.evaluate import areas, found_by, mahalanobis, stretches_of
from elmgrove.detector.replay import Interval


@st.composite
def scored(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Labels of both kinds, and scores of which many are equal."""
    count = draw(st.integers(2, 60))
    labels = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    labels[0], labels[1] = True, False
    few = st.integers(-3, 3).map(float)
    scores = st.lists(few | st.floats(-1e6, 1e6), min_size=count, max_size=count)
    return labels, np.array(draw(scores))


@given(scored())
def test_areas_are_those_of_scikit_learn(given: tuple[np.ndarray, np.ndarray]) -> None:
    labels, scores = given
    auc, average_precision = areas(labels, scores)
    assert auc == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert average_precision == pytest.approx(average_precision_score(labels, scores), abs=1e-12)


def test_infinite_scores_are_the_strangest() -> None:
    labels = np.array([True, False, True, False])
    assert areas(labels, np.array([np.inf, 1.0, np.inf, 2.0]))[0] == 1.0
    assert areas(labels, np.array([np.inf, np.inf, 3.0, 2.0]))[0] == 0.625


def test_labelled_stretches_that_no_event_tells_apart_are_one() -> None:
    labels = np.array([True, True, False, True, False, False, True])
    assert stretches_of(labels, calm=1) == [slice(0, 2), slice(3, 4), slice(6, 7)]
    assert stretches_of(labels, calm=2) == [slice(0, 4), slice(6, 7)]
    assert stretches_of(np.zeros(3, bool), calm=1) == []


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 6))
def test_stretches_hold_all_labelled_rows_and_are_apart(labels: list[bool], calm: int) -> None:
    found = stretches_of(np.array(labels), calm)
    assert all(
        any(one.start <= place < one.stop for one in found) for place in np.flatnonzero(labels)
    )
    assert all(labels[one.start] and labels[one.stop - 1] for one in found)
    assert all(after.start - before.stop >= calm for before, after in pairwise(found))


def counted(*values: object) -> dict[str, object]:
    names = ("stretches", "found", "false_events", "alarmed_outside", "delays", "seconds")
    return dict(zip(names, values, strict=True))


def test_an_event_finds_the_stretch_that_it_opened_for() -> None:
    labels = np.zeros(100, bool)
    for first, end in ((10, 20), (40, 45), (70, 80)):
        labels[first:end] = True
    events = [
        Interval(12, 14, 15),  # in the first stretch
        Interval(38, 39, 60),  # a little before the second, and beyond it
        Interval(64, 66, 75),  # long before the third, and into it
        Interval(90, 92, 95),  # at none
    ]
    found = found_by(events, labels, calm=5, tolerance=5)
    # 38, 39, 45 to 60, 64 to 69 and 90 to 95 of 75 others.
    assert found == counted(3, 2, 2, 30 / 75, [4, 0], None)
    timed = found_by(events, labels, 5, 5, 60.0 * np.arange(100))
    assert timed["seconds"] == [240.0, 0.0]
    assert found_by([], labels, 5, 5) == counted(3, 0, 0, 0.0, [], None)


def test_an_event_without_an_end_finds_nothing_and_is_false() -> None:
    labels = np.zeros(100, bool)
    labels[50:60] = True
    assert found_by([Interval(0, 2, 99)], labels, 5, 5) == counted(1, 0, 1, 1.0, [], None)


def test_the_distance_is_the_textbooks() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 3)) + 7.0
    scores, limit = mahalanobis(X, X, 0.02)
    away = X - X.mean(axis=0)
    literal = np.einsum("ij,jk,ik->i", away, np.linalg.inv(np.cov(X.T, bias=True)), away)
    assert scores == pytest.approx(literal, rel=1e-3)
    assert (scores > limit).mean() == pytest.approx(0.02, abs=1 / 400)
    moved = np.column_stack([X, np.full(400, 2.0)])
    odd, limit = mahalanobis(moved, np.append(X[0], 2.1)[np.newaxis], 0.02)
    assert odd[0] > 100 * limit, "what never varied is anomalous when it does"
