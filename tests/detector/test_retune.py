"""Tuning: another threshold or alarm rule, without learning again."""

from typing import Any

import numpy as np
import pytest

from elmgrove.detector.decision import LEARNING, WATCHING
from elmgrove.detector.detector import Detector
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.state import pack_detector, unpack_detector
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold
from elmgrove.detector.tuning import tune
from elmgrove.errors import BadInput
from support.factories import detector_for

COLUMNS = 6


def rows_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, COLUMNS))


def trained_detector(count: int = 4000, **settings: Any) -> Detector:
    return detector_for(rows_of(count), window=1, **settings)


def again(detector: Detector) -> Detector:
    return unpack_detector(*pack_detector(detector))


# The threshold


def test_a_lower_rate_gives_a_higher_threshold_and_goes_on_watching() -> None:
    detector = trained_detector()
    before = detector.threshold
    said = tune(detector, rate=0.002)
    assert detector.state == WATCHING
    assert detector.threshold > before
    assert said == [
        "rate: 0.002, before 0.01",
        f"scores above {detector.threshold:.4g} are anomalous, 1 of the 2,000 kept; "
        f"before: {before:.4g}, 9",
    ]
    # As if it had been stated from the start.
    assert detector.threshold == trained_detector(threshold=FalseAlarmRate(0.002)).threshold


def test_counting_begins_again_with_another_rate_and_not_with_another_confidence() -> None:
    detector = trained_detector()
    detector.observe_many(rows_of(100, 2))
    counted = detector.progress.seen
    assert counted.rows == 100
    tune(detector, confidence=0.99)
    assert detector.progress.seen == counted
    assert detector.state == WATCHING
    tune(detector, rate=0.02)
    assert detector.progress.seen.rows == 0
    assert detector.state == WATCHING
    detector.observe_many(rows_of(100, 1))
    assert detector.progress.seen.rows == 100


def test_the_rate_that_was_tuned_in_a_stream_is_the_rate_that_is_seen() -> None:
    # Of a stream, rows above the threshold were refused: their scores must not be lost.
    detector = trained_detector()
    detector.observe_many(rows_of(20_000, 1))
    assert detector.state == WATCHING
    tune(detector, rate=0.001)
    kept = again(detector)
    verdicts = detector.observe_many(rows_of(50_000, 2))
    share = np.mean([verdict.anomalous for verdict in verdicts])
    assert 0.0005 < share < 0.002
    # And the state that was saved in between goes on in the same way.
    later = kept.observe_many(rows_of(50, 2))
    assert [one.score for one in later] == pytest.approx([v.score for v in verdicts[:50]])
    assert [one.flagged for one in later] == [one.flagged for one in verdicts[:50]]
    assert [one.threshold for one in later] == [one.threshold for one in verdicts[:50]]


def test_a_higher_rate_after_a_lower_one_is_the_threshold_of_before() -> None:
    detector = trained_detector()
    before = detector.threshold
    tune(detector, rate=0.001)
    tune(detector, rate=0.01)
    assert detector.threshold == before


def test_too_few_scores_for_a_rate_is_learning_with_what_is_missing() -> None:
    detector = trained_detector(2000)
    said = tune(detector, rate=0.0005)
    assert detector.state == LEARNING
    assert detector.threshold == np.inf
    missing = detector.rows_missing
    # Scores, and then counting.
    assert missing == 2 * 1999 - 1 - 2000 + detector.progress.missing > 1997
    # The scores of the younger half of 2,000 rows are kept.
    assert said[-1] == (
        f"learning: no alarms before {missing:,} more rows without an anomalous one; 0.05 % takes "
        "the scores of 1,999 normal rows, and 1,000 are kept; the lowest rate now is 0.001"
    )
    tune(enough := trained_detector(2000), rate=0.001)
    assert enough.state == WATCHING
    assert missing < trained_detector(10, threshold=FalseAlarmRate(0.0005)).rows_missing
    detector.observe_many(rows_of(1000, 3))
    assert detector.rows_missing < missing
    assert not detector.observe(np.full(6, 99.0)).anomalous
    # Back at the old rate what was kept is enough, and the rate is to be shown again.
    tune(detector, rate=0.01)
    assert detector.rows_missing < 100


def test_scores_that_are_too_far_between_cost_no_more_rows_than_a_new_detector_needs() -> None:
    detector = trained_detector(300, threshold=FalseAlarmRate(0.01))
    detector.learn_many(rows_of(60_000, 4))
    assert detector.gate.recent.stride > 1
    tune(detector, rate=0.0001)
    new = Detector.for_data(rows_of(300), window=1, threshold=FalseAlarmRate(0.0001))
    assert detector.state == LEARNING
    assert 0 < detector.rows_missing <= new.rows_missing
    detector.learn_many(rows_of(detector.rows_missing + 20_000, 5))
    assert detector.state == WATCHING
    top = np.quantile(detector.score_many(rows_of(200_000, 6)), 0.9999)
    assert 0.75 * top < detector.threshold < 1.5 * top


def test_a_fixed_threshold_takes_the_place_of_a_rate() -> None:
    detector = trained_detector()
    assert tune(detector, threshold=2.5)[:3] == [
        "rate: none, before 0.01",
        "confidence: none, before 0.95",
        "threshold: 2.5, before none",
    ]
    assert detector.gate.policy == FixedThreshold(2.5)
    assert detector.threshold == 2.5
    assert detector.state == WATCHING
    # Nothing had to be shown up to now.
    said = tune(detector, rate=0.01)
    assert detector.gate.policy == FalseAlarmRate(0.01)
    assert detector.state == LEARNING
    assert "learning:" in said[-1]
    said = tune(detector, confidence=0)
    assert detector.state == WATCHING
    assert said[-1].endswith("before: none (learning)")


# The alarm rule


def test_the_alarm_rule_is_another_from_the_next_row_on() -> None:
    detector = trained_detector(alarm=AlarmRule(3, 5, 60))
    anomalous, normal = np.full(COLUMNS, 6.0), np.zeros(COLUMNS)
    threshold = detector.threshold
    assert not detector.observe(anomalous).alarm
    assert tune(detector, alarm_k=2, alarm_cooldown=8) == [
        "alarm_k: 2, before 3",
        "alarm_cooldown: 8, before 60",
    ]
    assert detector.threshold == threshold
    assert detector.state == WATCHING
    # The row before counts.
    assert detector.observe(anomalous).alarm
    for _ in range(8):
        detector.observe(normal)
    assert detector.events.open is None
    assert not detector.observe(anomalous).alarm
    tune(detector, alarm_k=1, alarm_n=1)
    assert detector.observe(anomalous).alarm


# What is refused, and what is kept


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rate": 2.0}, "between 0 and 1"),
        ({"rate": "0.1"}, "must be a number"),
        ({"rate": True}, "must be a number"),
        ({"rate": 0.1, "threshold": 3.0}, "rate and threshold are ways to the same thing"),
        ({"window": 3}, "'window' can't be tuned; these can: rate"),
        ({"alarm_k": 30}, "k = 30"),
        ({"alarm_n": 1.5}, "whole number"),
        ({"threshold": -1.0}, "at least 0"),
    ],
)
def test_what_can_not_be_is_refused_and_changes_nothing(
    changes: dict[str, Any], reason: str
) -> None:
    detector = trained_detector()
    # Whose limit is computed when somebody asks.
    assert detector.threshold
    before = pack_detector(detector)[0]
    with pytest.raises(BadInput, match=reason):
        tune(detector, **{"confidence": 0.5, **changes})
    assert pack_detector(detector)[0] == before
