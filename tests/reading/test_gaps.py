"""Gaps in time, of whole tables and of rows as they come."""

import numpy as np
import pytest

from elmgrove.reading.times import Gaps, first_back, gaps_in


def test_a_row_that_comes_several_times_later_than_usual_follows_a_gap() -> None:
    times = np.array([*range(30), 33, 34, 40, 41.0])
    assert gaps_in(times).tolist() == [32]
    assert gaps_in(60.0 * times).tolist() == [32]


def test_a_row_that_comes_before_the_last_one_follows_a_gap() -> None:
    assert gaps_in(np.array([5.0, 6.0, 1.0, 2.0])).tolist() == [2]


@pytest.mark.parametrize("times", [[], [1.0], [1.0, 2.0, 900.0], [1.0] * 50])
def test_few_rows_or_one_instant_have_no_usual_interval(times: list[float]) -> None:
    assert gaps_in(np.array(times)).tolist() == []


def test_rows_as_they_come() -> None:
    gaps = Gaps()
    times = [*range(30), 33, 34, 40, 41, None, 90, 91, 80, 81]
    assert [time for time in times if not gaps.follows(time)] == [40, 80]
    assert gaps.count == 2
    assert gaps.usual == 1.0


def test_what_is_usual_may_change() -> None:
    gaps = Gaps()
    times = [*range(200), *range(210, 210 + 60 * 200, 60)]
    apart = [time for time in times if not gaps.follows(time)]
    assert 0 < len(apart) < 80, "a minute is a gap until it is usual"
    assert gaps.follows(times[-1] + 60.0)
    assert not gaps.follows(times[-1] + 1000.0)


@pytest.mark.parametrize(
    ("times", "first"),
    [
        ([9, 8, 7, 6, 5], 0),
        ([1, 2, 3, 9, 8, 7, 6, 5, 4], 3),
        (np.random.default_rng(0).normal(1500.0, 5.0, 300), 0),
        ([1, 2, 3, 1, 2, 3, 1, 2, 3], None),
        ([2, 1], None),
        ([], None),
    ],
)
def test_times_that_run_backwards_are_in_no_order(times: list[float], first: int | None) -> None:
    assert first_back(np.diff(np.array(times, float))) == first


def test_rows_as_they_come_may_run_backwards() -> None:
    gaps = Gaps()
    for time in (*range(100), 50, *range(51, 150)):
        gaps.follows(time)
        assert not gaps.backwards
    for time in range(149, 49, -1):
        gaps.follows(time)
    assert gaps.backwards
