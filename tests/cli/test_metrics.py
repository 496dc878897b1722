"""What is measured is what scikit-learn measures, and events are counted as a person would."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from elmgrove.cli.evaluation.metrics import Found, Ranking, found_by, stretches_of
from elmgrove.detector import Spell


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
    ranking = Ranking(labels, scores)
    assert ranking.auc == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    expected = average_precision_score(labels, scores)
    assert ranking.average_precision == pytest.approx(expected, abs=1e-12)


@given(scored())
def test_the_curve_is_that_of_scikit_learn(given: tuple[np.ndarray, np.ndarray]) -> None:
    labels, scores = given
    ranking = Ranking(labels, scores)
    false, found, _ = roc_curve(labels, scores, drop_intermediate=False)
    assert np.allclose(ranking.false_alarms, false[1:])
    assert np.allclose(ranking.recall, found[1:])


def test_infinite_scores_are_the_strangest() -> None:
    labels = np.array([True, False, True, False])
    assert Ranking(labels, np.array([np.inf, 1.0, np.inf, 2.0])).auc == 1.0
    assert Ranking(labels, np.array([np.inf, np.inf, 3.0, 2.0])).auc == 0.625


def test_labelled_stretches_end_at_a_gap() -> None:
    labels = np.array([True, True, False, True, True, True])
    assert stretches_of(labels) == [slice(0, 2), slice(3, 6)]
    assert stretches_of(labels, [5]) == [slice(0, 2), slice(3, 5), slice(5, 6)]
    assert stretches_of(np.zeros(3, bool)) == []


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.sets(st.integers(1, 39)))
def test_stretches_hold_the_labelled_rows_and_no_other(labels: list[bool], gaps: set[int]) -> None:
    inside = sorted(gap for gap in gaps if gap < len(labels))
    found = stretches_of(np.array(labels), inside)
    places = [place for one in found for place in range(one.start, one.stop)]
    assert places == [place for place, label in enumerate(labels) if label]
    assert not any(one.start < gap < one.stop for one in found for gap in inside)


def test_a_stretch_is_found_if_an_event_touches_it() -> None:
    stretches = [slice(10, 20), slice(40, 45), slice(70, 80)]
    events = [
        Spell(12, 14, 30),  # in the first stretch, and beyond it
        Spell(42, 47, 60),  # begins in the second, and is told after its end
        Spell(66, 68, 75),  # goes on when the third begins
        Spell(90, 92, 95),  # touches none
    ]
    found = found_by(events, stretches, None)
    assert found == Found(3, 3, 1, delays=[4, 7, 0], seconds=None)
    timed = found_by(events, stretches, 60.0 * np.arange(100))
    assert timed.seconds == [240.0, 420.0, 0.0]
    assert found_by([], stretches, None) == Found(3, 0, 0, [], None)
