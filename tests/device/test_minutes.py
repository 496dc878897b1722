"""Minutes: every row counts once, quantiles are those of the rows, and memory is bounded."""

import json
import math
import random
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmgrove.device.report import HELD, OPEN, Minutes
from elmgrove.federation.report import QUANTILES
from elmgrove.federation.schemas import MOST_MINUTES

#: A minute of 2024.
BEGIN = 28_576_220


def verdict(time: float | None, score: float = 0.5, **more: Any) -> Any:
    """What a minute takes of a verdict."""
    usual = {"anomalous": False, "threshold": 2.0}
    return SimpleNamespace(time=time, score=score, **usual | more)


def counted(minutes: Minutes) -> dict[int, int]:
    return {one.minute: one.rows for one in minutes.untold()}


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1e6)), min_size=1, max_size=200))
def test_each_row_counts_once_in_its_own_minute(rows: list[tuple[int, float]]) -> None:
    minutes = Minutes()
    for place, score in rows:
        minutes.follow(verdict(60.0 * (BEGIN + place) + 30.0, score, anomalous=score > 5e5))
    found = {one.minute - BEGIN: one for one in minutes.untold()}
    assert found.keys() == {place for place, _ in rows}
    for place, minute in found.items():
        scores = [score for at, score in rows if at == place]
        assert (minute.rows, minute.anomalous) == (len(scores), sum(one > 5e5 for one in scores))
        assert math.isclose(minute.scores[-1], max(scores), rel_tol=1e-5)


def test_quantiles_are_those_of_the_rows() -> None:
    scores = np.random.default_rng(1).gamma(2.0, size=HELD).tolist()
    minutes = Minutes()
    for score in scores:
        minutes.follow(verdict(60.0 * BEGIN, score))
    (minute,) = minutes.untold()
    expected = np.quantile(scores, QUANTILES, method="inverted_cdf")
    np.testing.assert_allclose(minute.scores, expected, rtol=1e-5)


def test_of_very_many_rows_quantiles_are_those_of_a_sample_and_the_largest_is_the_largest() -> None:
    rng = np.random.default_rng(2)
    scores = rng.permutation(np.linspace(0.0, 1.0, 50_001))
    minutes = Minutes()
    for score in scores.tolist():
        minutes.follow(verdict(60.0 * BEGIN, score))
    (minute,) = minutes.untold()
    assert minute.rows == len(scores)
    # Four deviations of the share of a sample of as many.
    for share, found in zip(QUANTILES, minute.scores, strict=True):
        assert abs(found - share) <= 4.0 * math.sqrt(share * (1 - share) / HELD) + 1e-5
    assert minute.scores[-1] == 1.0


def test_a_minute_is_told_again_only_while_it_grows() -> None:
    minutes = Minutes()
    for _ in range(3):
        minutes.follow(verdict(60.0 * BEGIN))
    assert counted(minutes) == counted(minutes) == {BEGIN: 3}, "not heard yet"
    minutes.follow(verdict(60.0 * BEGIN))
    minutes.arrived()
    assert counted(minutes) == {BEGIN: 4}, "a row came after it was told"
    minutes.arrived()
    assert counted(minutes) == {}
    minutes.follow(verdict(60.0 * (BEGIN + 1)))
    assert counted(minutes) == {BEGIN + 1: 1}
    # One that comes late makes its minute whole again, not a minute of one row.
    minutes.follow(verdict(60.0 * BEGIN, 7.0))
    assert counted(minutes) == {BEGIN + 1: 1, BEGIN: 5}


def test_the_newest_are_remembered_and_of_few_the_scores() -> None:
    minutes = Minutes()
    for place in range(2 * MOST_MINUTES):
        for _ in range(3):
            minutes.follow(verdict(60.0 * (BEGIN + place)))
    told = [one.minute - BEGIN for one in minutes.untold()]
    assert told == list(range(MOST_MINUTES, 2 * MOST_MINUTES))
    held = [piece for piece in minutes._pieces.values() if piece.scores is not None]
    assert len(held) == OPEN


def test_after_a_restart_it_goes_on_where_the_state_was_saved() -> None:
    """Any cut: the minutes that are told are those of an agent that never ended."""
    times = [60.0 * BEGIN + 7.0 * number for number in range(100)]
    whole = Minutes()
    for time in times:
        whole.follow(verdict(time, threshold=math.inf))
    for cut in random.Random(1).sample(range(100), 20):
        first = Minutes()
        for time in times[:cut]:
            first.follow(verdict(time, threshold=math.inf))
        if cut % 2:
            first.untold()
            first.arrived()
        again = Minutes(json.loads(json.dumps(first.fields)))
        for time in times[cut:]:
            again.follow(verdict(time, threshold=math.inf))
        found, told = counted(again), counted(whole)
        assert found.items() <= told.items()
        assert found if cut % 2 else found == told


def test_no_score_and_no_time_is_beyond_what_can_be_told() -> None:
    minutes = Minutes()
    for score in (math.nan, math.inf, 1e308):
        minutes.follow(verdict(60.0 * BEGIN, score, threshold=math.inf))
    minutes.follow(verdict(None))
    # A clock that was never set, and before 1970.
    minutes.follow(verdict(0.0))
    minutes.follow(verdict(-86_400.0))
    told = minutes.untold()
    assert [one.rows for one in told] == [3, 1, 1]
    assert told[0].threshold is None
    assert 1e308 <= told[0].scores[-1] <= sys.float_info.max
    minutes.arrived()
    minutes.follow(verdict(-86_400.0))
    assert minutes.untold() == ()
    assert Minutes(minutes.fields).untold() == ()
