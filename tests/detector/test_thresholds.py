"""Thresholds on scores worked out by hand."""

import json
import math
from statistics import fmean, pstdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput, FalseAlarmRate, FixedThreshold, MeanSigma
from elmgrove.detector.recent import Recent
from elmgrove.detector.thresholds import Threshold, threshold_fields, threshold_from_fields


def calibrated(scores: list[float], near_misses: list[float] | None = None) -> Recent:
    """Rows with these scores, and near misses, as they would be restored from a file."""
    recent = Recent(4096, 1, np.dtype(float))
    outside, rows = np.array(near_misses or []), len(scores)
    counters = {"clock": rows, "accepted": rows, "strayed": len(outside), "stride": 1}
    recent.restore(
        {"recent": {**recent.fields["recent"], **counters}},
        {
            "recent": np.zeros((0, 1)),
            "scores": np.array(scores),
            "score_times": np.arange(rows),
            "strays": outside,
            "stray_times": np.full(len(outside), rows),
        },
    )
    return recent


def shuffled(count: int) -> list[float]:
    return np.random.default_rng(0).permutation(float(count) + np.arange(count)).tolist()


# The false-alarm rate


@pytest.mark.parametrize(
    ("rate", "minimum", "capacity"),
    [(0.5, 1, 4096), (0.05, 19, 4096), (0.01, 99, 4096), (0.001, 999, 7992), (1e-4, 9999, 79992)],
)
def test_a_rate_says_how_many_rows_it_needs_and_keeps(
    rate: float, minimum: int, capacity: int
) -> None:
    assert FalseAlarmRate(rate).minimum == minimum
    assert FalseAlarmRate(rate).capacity == capacity


@pytest.mark.parametrize("rate", [0.6, 0.9, 0.999])
def test_even_the_highest_rate_needs_a_row(rate: float) -> None:
    policy = FalseAlarmRate(rate)
    assert policy.minimum == 1
    assert policy.limit(calibrated([3.0])) == 3.0


@pytest.mark.parametrize(
    ("rate", "rows", "largest"),
    [(0.01, 99, 1), (0.01, 198, 1), (0.01, 199, 2), (0.01, 499, 5), (0.05, 19, 1), (0.1, 99, 10)],
)
def test_the_limit_is_the_order_statistic_that_a_new_row_exceeds_at_the_rate(
    rate: float, rows: int, largest: int
) -> None:
    # A new row is equally likely to fall into each of the rows + 1 gaps between the scores.
    scores = shuffled(rows)
    assert FalseAlarmRate(rate).limit(calibrated(scores)) == sorted(scores)[-largest]


@given(st.integers(100, 400), st.sampled_from([0.01, 0.02, 0.05, 0.1]), st.integers(0, 3))
def test_strays_that_chance_explains_count_as_if_they_had_been_accepted(
    rows: int, rate: float, near_misses: int
) -> None:
    scores = sorted(shuffled(rows))
    split = rows - near_misses
    apart = calibrated(scores[:split], scores[split:])
    assert FalseAlarmRate(rate).limit(apart) == FalseAlarmRate(rate).limit(calibrated(scores))


@pytest.mark.parametrize(("rate", "burst"), [(0.01, 13), (0.01, 300), (0.05, 60), (0.05, 500)])
def test_more_strays_than_chance_explains_do_not_lift_the_limit_above_what_was_accepted(
    rate: float, burst: int
) -> None:
    accepted = shuffled(500)
    top = max(accepted)
    near_misses = [top + 1.0 + number for number in range(burst)]
    assert FalseAlarmRate(rate).limit(calibrated(accepted, near_misses)) == top
    assert FalseAlarmRate(rate).limit(calibrated(accepted)) < top


def test_when_all_scores_are_equal_that_is_the_limit() -> None:
    for score in (0.0, 1.0):
        assert FalseAlarmRate().limit(calibrated([score] * 200)) == score


# The other two


def test_a_fixed_threshold_is_the_value_whatever_was_seen() -> None:
    policy = FixedThreshold(0.25)
    assert policy.minimum == 0
    assert policy.limit(calibrated([])) == policy.limit(calibrated([7.0] * 9)) == 0.25


@given(st.lists(st.floats(0, 100), min_size=30, max_size=60), st.floats(0.5, 6.0))
def test_mean_sigma_is_the_mean_plus_k_deviations(scores: list[float], k: float) -> None:
    expected = fmean(scores) + k * pstdev(scores)
    assert MeanSigma(k).limit(calibrated(scores)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


# Fields and refusals


@pytest.mark.parametrize(
    "policy", [FalseAlarmRate(0.03, 0.8), FixedThreshold(0.1), MeanSigma(2.5)], ids=lambda p: p.kind
)
def test_fields_survive_the_way_through_json(policy: Threshold) -> None:
    fields = json.loads(json.dumps(threshold_fields(policy)))
    assert threshold_from_fields(fields) == policy
    assert fields["kind"] == policy.kind


def test_the_kinds_are_told_apart() -> None:
    assert len({FalseAlarmRate.kind, FixedThreshold.kind, MeanSigma.kind}) == 3


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 2.0, math.nan, math.inf])
def test_a_rate_outside_0_to_1_is_refused(rate: float) -> None:
    with pytest.raises(BadInput, match="between 0 and 1"):
        FalseAlarmRate(rate)


@pytest.mark.parametrize("confidence", [1.0, -0.1, 2.0, math.nan])
def test_a_confidence_outside_0_to_1_is_refused(confidence: float) -> None:
    with pytest.raises(BadInput, match="confidence must lie between 0 and 1"):
        FalseAlarmRate(0.01, confidence)


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_a_fixed_threshold_that_is_no_score_is_refused(value: float) -> None:
    with pytest.raises(BadInput, match="at least 0"):
        FixedThreshold(value)


@pytest.mark.parametrize("k", [0.0, -1.0, math.nan, math.inf])
def test_deviations_that_are_not_above_0_are_refused(k: float) -> None:
    with pytest.raises(BadInput, match="above 0"):
        MeanSigma(k)
