"""Page-Hinkley's test, the rarity that it follows, and how many neighbours say one thing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from elmgrove.detector.drift_detector import Neighbours, PageHinkley, rarities, rarity
from elmgrove.detector.recent import Recent
from elmgrove.errors import BadInput


def recent_of(scores: np.ndarray, near_misses: np.ndarray) -> Recent:
    recent = Recent(4096, 1, np.dtype(float))
    recent.accept_many(np.zeros((len(scores), 1)), scores)
    for score in near_misses:
        recent.refuse(score, score)
    return recent


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=200))
def test_it_is_the_sum_above_its_minimum(values: list[float]) -> None:
    test, m = PageHinkley(allowed=1.0), np.cumsum([0.0, *(value - 1.0 for value in values)])
    for value in values:
        test.add(value)
    assert test.height == pytest.approx(m[-1] - m.min(), abs=1e-9)
    if test.height > 1e-6:
        since = values[len(values) - test.rows :]
        assert sum(since) - len(since) == pytest.approx(test.height, abs=1e-9)
        assert test.mean == pytest.approx(np.mean(since), abs=1e-9)


def test_of_normal_rows_the_rarity_has_a_mean_of_one() -> None:
    rng = np.random.default_rng(0)
    normal = rng.chisquare(3, size=8000)
    recent = recent_of(normal[:4000], np.empty(0))
    found = rarities(normal[4000:], recent)
    assert found.mean() == pytest.approx(1.0, abs=0.05)
    assert found.min() >= 0.0
    # One in a hundred, and no rarer.
    assert rarity(1e300, recent) == pytest.approx(np.log(100.0))


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=60),
    st.lists(st.floats(0, 20), max_size=5),
    st.lists(st.floats(0, 30), min_size=1, max_size=20),
)
def test_many_are_as_rare_as_each(
    accepted: list[float], near_misses: list[float], scores: list[float]
) -> None:
    recent = recent_of(np.array(accepted), np.array(near_misses))
    each = [rarity(score, recent) for score in scores]
    assert rarities(np.array(scores), recent) == pytest.approx(each)


@pytest.mark.parametrize(("memory", "length"), [(0.0, 1.0), (0.8, 9.0), (0.95, 39.0)])
def test_rows_that_remember_the_last_one_say_one_thing(memory: float, length: float) -> None:
    neighbours, rng = Neighbours(window=1), np.random.default_rng(0)
    steps = np.sqrt(1 - memory**2) * rng.normal(size=12_000)
    for y in lfilter([1.0], [1.0, -memory], steps):
        neighbours.add(1.0 + y)
    # What is known of few rows is taken for more.
    assert length <= neighbours.length < 1.7 * length


def test_windows_say_one_thing_from_the_start() -> None:
    assert Neighbours(window=10).length == pytest.approx(10.0)


def test_what_nobody_counted_is_refused() -> None:
    for wrong in ([float("nan"), 0.0, 0], ["1", 0.0, 0]):
        with pytest.raises(BadInput, match="drift"):
            PageHinkley(1.0).restore(wrong)  # type: ignore[arg-type]
