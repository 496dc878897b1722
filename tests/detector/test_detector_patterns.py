"""A detector with a model for each normal pattern: which answers, how they come and go."""

from typing import Any

import numpy as np
import pytest

from elmgrove import (
    BadInput,
    Detector,
    Evidence,
    FalseAlarmRate,
    FixedThreshold,
    HiddenLayer,
    NotAdmissible,
)
from elmgrove.detector.feedback import accept
from elmgrove.detector.patterns import MOST_PARTS, TUNE_EVERY, PatternRule
from support.factories import trained
from support.patterns import INPUTS, mixed, rows_of

LAYER = HiddenLayer(inputs=INPUTS, units=3, seed=2)
SMALL = {"start_rows": 60}


SOON = FalseAlarmRate(0.01, confidence=0)


def detector(rule: dict[str, Any] | None = None, **settings: Any) -> Detector:
    return Detector(
        LAYER,
        patterns=PatternRule(**{**SMALL, **(rule or {})}),
        **{"threshold": SOON, **settings},
    )


def trained_detector(
    rule: dict[str, Any] | None = None, patterns: int = 2, **settings: Any
) -> Detector:
    made = detector(rule, **settings)
    made.learn_many(mixed(1, 200, patterns))
    return made


def numbers(of: Detector) -> list[int]:
    return [pattern.number for pattern in of.model.own]


def evidence_of(X: np.ndarray, score: str = "distance") -> Evidence:
    plain = trained(Detector(LAYER, score=score), X)
    return plain.evidence


# The start


def test_until_enough_rows_came_there_is_one_pattern() -> None:
    one, plain = detector(), Detector(LAYER)
    X = mixed(1, 59)
    for each in (one, plain):
        each.learn_many(X)
    assert numbers(one) == [0]
    assert one.rows_undecided == 1
    np.testing.assert_allclose(one.score_many(X), plain.score_many(X), rtol=1e-9)
    one.learn_one(X[0])
    assert len(numbers(one)) == 2
    assert one.rows_undecided == 0


@pytest.mark.parametrize("patterns", [1, 2, 3])
def test_the_first_rows_decide_how_many_there_are(patterns: int) -> None:
    assert len(numbers(trained_detector({"silhouette": 0.65}, patterns))) == patterns


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_number_fixes_it(count: int) -> None:
    fixed = trained_detector({"patterns": count}, 2)
    assert len(numbers(fixed)) == count
    fixed.learn_many(mixed(2, 3 * TUNE_EVERY))
    for row in rows_of(5, 1, 30):
        fixed.observe(row)
    accept(fixed)
    assert len(numbers(fixed)) == count


REFUSED = [
    {"patterns": 0},
    {"patterns": "many"},
    {"patterns": MOST_PARTS + 1},
    {"most": 0},
    {"most": MOST_PARTS + 1},
    {"start_rows": 1},
    {"silhouette": 1.5},
    {"silhouette": float("nan")},
    {"join": -0.1},
    {"join": float("nan")},
]


@pytest.mark.parametrize("rule", REFUSED, ids=str)
def test_a_rule_that_makes_no_sense_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        PatternRule(**rule)


def test_patterns_that_are_not_at_work_are_not_forgotten() -> None:
    with pytest.raises(BadInput, match="forgetting would lose patterns"):
        detector(forgetting=0.99)


# Which pattern answers


@pytest.mark.parametrize("score", ["distance", "loss"])
def test_the_best_model_answers_and_the_verdict_says_which(score: str) -> None:
    known = trained_detector({}, 3, score=score)
    rows = mixed(5, 60, 3)
    scores = np.stack([pattern.model.scores(rows) for pattern in known.model.own])
    typical = np.array([pattern.typical for pattern in known.model.own])
    assert score == "loss" or (typical == 1.0).all()
    scores *= (typical.mean() / typical)[:, np.newaxis]
    np.testing.assert_allclose(known.score_many(rows), scores.min(axis=0), rtol=1e-9)
    winners = [numbers(known)[index] for index in scores.argmin(axis=0)]
    assert [known.model.answer(row).pattern for row in rows] == winners
    assert len(set(winners)) == 3
    verdict = known.observe(rows[0])
    assert (verdict.pattern, verdict.score) == (winners[0], pytest.approx(scores[:, 0].min()))


def test_blame_speaks_of_the_pattern_that_won() -> None:
    known = trained_detector(threshold=FixedThreshold(9e9))
    for pattern in (0, 1):
        row = rows_of(pattern, 9, 1)[0]
        row[4] += 5.0
        number = known.model.answer(row).pattern
        alone = Detector(LAYER)
        (mine,) = (pattern for pattern in known.model.own if pattern.number == number)
        alone.model.merge(mine.model.evidence)
        for mine, theirs in zip(known.blame(row), alone.blame(row), strict=True):
            assert mine.feature == theirs.feature
            assert mine[1:] == pytest.approx(theirs[1:], rel=1e-6)


# A new pattern


def test_accepted_rows_become_a_pattern() -> None:
    known = trained_detector()
    before = known.parts
    assert all(known.observe(row).anomalous for row in rows_of(5, 1, 12))
    assert accept(known).rows == 12
    assert numbers(known) == [1, 2, 3]
    assert known.parts[:2] == before
    assert known.parts[2].learned == 12
    assert known.learned == 212
    assert known.observe(rows_of(5, 2, 1)[0]).pattern == 3


def test_there_are_never_more_than_the_most() -> None:
    known = trained_detector({"most": 3})
    for pattern in (5, 6, 7):
        for row in rows_of(pattern, 1, 20):
            known.observe(row)
        accept(known)
    assert len(numbers(known)) == 3
    assert known.evidence.count == known.learned == 260


def test_nor_more_than_can_be_given_away() -> None:
    known = trained_detector({"most": MOST_PARTS, "join": 1.0})
    for seed in range(MOST_PARTS):
        known.model.adopt(rows_of(0, seed, 20))
        known.model.tune()
    assert len(numbers(known)) == 2
    assert len(known.parts) == MOST_PARTS


# Joined


def halved() -> Detector:
    """Two that are one pattern, before it was noticed, and another one."""
    made = detector({"join": 1.0, "most": 5})
    made.learn_many(mixed(1, 200))
    made.model.adopt(rows_of(0, 7, 100))
    assert len(numbers(made)) == 3
    return made


def test_patterns_that_are_one_are_joined_exactly() -> None:
    known = halved()
    before = known.parts
    known.model.tune()
    assert numbers(known) == [1, 2]
    assert known.parts == before
    (joined,) = (pattern for pattern in known.model.own if pattern.joined)
    rows = [part.evidence for part in before if part.number in (joined.number, 3)]
    assert joined.evidence == Evidence.sum(rows)
    assert joined.model.total == Evidence.sum(rows)


def test_joined_to_what_was_joined_keeps_parts_apart() -> None:
    known = halved()
    known.model.adopt(rows_of(0, 9, 100))
    before = known.parts
    first, *_, third, fourth = known.model.own
    third.take_in(fourth)
    first.take_in(third)
    del known.model.own[2:]
    assert known.parts == before


def test_different_patterns_stay_apart_and_0_never_joins() -> None:
    known = trained_detector({"join": 1.0}, 3)
    known.learn_many(mixed(2, 2 * TUNE_EVERY, 3))
    assert len(numbers(known)) == 3
    apart = halved()
    apart.model.patterns.rule = PatternRule(start_rows=60, join=0.0)
    apart.model.tune()
    assert len(numbers(apart)) == 3


# The threshold


def test_left_out_scores_are_those_of_the_pattern_without_the_block() -> None:
    score = "distance"
    known = trained_detector(score=score)
    rows = known.gate.recent.rows
    scores = known.model.left_out(rows)
    labels = np.array([known.model.patterns.nearest(row) for row in rows])
    for index, pattern in enumerate(known.model.own):
        mine = rows[labels == index]
        # The first of five blocks.
        block = mine[: len(mine) // 5]
        rest = Detector(LAYER, score=score)
        rest.model.merge(pattern.model.evidence - evidence_of(block, score))
        expected = rest.score_many(block)
        expected *= np.mean([p.typical for p in known.model.own]) / pattern.typical
        np.testing.assert_allclose(scores[labels == index][: len(block)], expected, rtol=1e-6)


def test_a_start_while_watching_makes_what_lies_between_anomalous_in_time() -> None:
    """One model for both finds everything between them normal, and so does its threshold."""
    known = detector({"start_rows": 300}, warmup=20)
    X = mixed(1, 900)
    for row in X[:299]:
        known.observe(row)
    between = (rows_of(0, 3, 50) + rows_of(1, 3, 50)) / 2.0
    assert np.mean(known.score_many(between) > known.threshold) < 0.1
    for row in X[299:]:
        known.observe(row)
    assert len(numbers(known)) == 2
    assert np.mean(known.score_many(between) > known.threshold) > 0.95


# Evidence of others


def test_merging_and_subtracting_gives_the_detector_back() -> None:
    known = trained_detector()
    X = mixed(3, 50, 3)
    scores, threshold, own = known.score_many(X), known.threshold, known.evidence
    near, far = evidence_of(rows_of(0, 5, 80)), evidence_of(rows_of(2, 5, 80))
    known.merge(near)
    known.merge(far)
    assert known.received == near + far
    assert known.evidence == own
    known.subtract(near)
    assert known.received == far
    known.subtract(far)
    assert known.received is None
    np.testing.assert_array_equal(known.score_many(X), scores)
    assert known.threshold == threshold
    with pytest.raises(NotAdmissible, match="never merged"):
        known.subtract(far)
