"""What is told of a drift, and what sums say of which sensor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from elmgrove.detector.decision import Recent
from elmgrove.detector.drift import (
    RELATED,
    BlockMean,
    Drift,
    Learned,
    Relation,
    Shift,
    changes,
    no_longer_followed,
    percent_of,
    ramp_of,
)
from elmgrove.detector.drift_detector import (
    BlockMeans,
    ChangeStatistics,
    Neighbours,
    PageHinkley,
    rarities,
    rarity,
)
from support.snapshots import restored

TEMP = Shift("temp", 50.0, 65.0, 30.0, 30.0, 5.0, 5.0)
#: Two columns that follow the first, and one by itself.
LOAD = np.array([1.0, 0.9, 0.9, 0.0])
LEARNED = Learned(np.zeros(4), np.outer(LOAD, LOAD) + np.diag([0.05, 0.05, 0.05, 1.0]))


def test_words() -> None:
    told = Drift("change", 51600.0, 52800.0, 120, 0.96, (TEMP,), (Relation("temp", "load"),))
    asked = "anomalous: a new normal or a fault? accept or reject"
    assert str(told) == (
        "since 14:20 temp is 30 % higher (50 → 65); temp no longer follows load; "
        f"96 % of rows are {asked}"
    )
    rising = TEMP._replace(per_hour=1.234, per_row=0.02)
    assert str(Drift("drift", 33000.0, 52800.0, 330, 0.39, (rising,))) == (
        f"temp has been rising since 09:10: +1.2 an hour; 39 % of rows are {asked}"
    )
    # Without times, by rows; without a sensor that explains it, so.
    falling = TEMP._replace(per_row=-0.02)
    assert str(Drift("drift", None, None, 330, 0.39, (falling,))) == (
        f"temp has been falling for 330 rows: -20 in 1,000 rows; 39 % of rows are {asked}"
    )
    assert "no sensor alone is different" in str(Drift("change", None, None, 50, 0.5))
    spike = Drift("spike", 51600.0, 52800.0, 60, 0.1)
    assert str(spike) == "a spike at 14:20: 6 rows were anomalous, then normal again"
    noisy = Shift("volt", 230.0, 230.0, 0.0, 4.0, 1.0, 5.0, by_spread=True)
    assert str(noisy) == "volt varies 5.0 times as much (1.0 → 5.0)"
    assert str(noisy._replace(varies=0.1)) == "volt hardly varies (1.00 → 0.10)"
    assert "4.0 times as far as usual from what the others say" in str(noisy._replace(varies=1.2))
    assert str(TEMP._replace(percent=None, after=35.0)) == "temp is 15 lower (50 → 35)"


def test_fields_are_for_json() -> None:
    fields = Drift("change", 51600.0, None, 120, 0.96, (TEMP,), (Relation("a", "b"),)).fields
    assert fields["since"] == "1970-01-01T14:20:00Z"
    assert fields["until"] is None
    assert fields["sensors"][0]["sensor"] == "temp"
    assert fields["relations"] == [{"sensor": "a", "other": "b"}]


@pytest.mark.parametrize(("before", "percent"), [(50.0, 20.0), (-50.0, 20.0), (1.0, None)])
def test_per_cent_are_of_what_is_not_near_zero(before: float, percent: float | None) -> None:
    assert percent_of(before, before + 0.2 * abs(before), 1.0) == (
        None if percent is None else pytest.approx(percent)
    )


@pytest.mark.parametrize("column", range(4))
def test_one_sensor_is_named_whatever_the_load_is(column: int) -> None:
    """A load that is low is no change; what the others say is where it should be."""
    mean = -0.8 * LOAD
    mean[column] += 3.0
    [found] = changes(LEARNED, mean, LEARNED.covariance)
    assert found.column == column
    assert mean[column] - found.expected == pytest.approx(3.0, abs=0.3)


def test_two_sensors_are_two() -> None:
    mean = np.array([0.0, 2.0, -2.0, 0.0])
    found = changes(LEARNED, mean, LEARNED.covariance)
    assert sorted(one.column for one in found) == [1, 2]


def test_another_regime_is_told_by_levels() -> None:
    found = changes(LEARNED, np.array([-8.0, -6.0, -9.0, 0.1]), LEARNED.covariance)
    assert {one.column for one in found} == {0, 1, 2}
    assert [one.expected for one in found] == [0.0, 0.0, 0.0]


def test_one_that_varies_more_is_told_by_that() -> None:
    wider = LEARNED.covariance + np.diag([0.0, 0.0, 1.0, 0.0])
    [found] = changes(LEARNED, np.zeros(4), wider)
    assert (found.column, found.by_spread) == (2, True)
    assert no_longer_followed(LEARNED, wider, 2) in (0, 1)
    assert no_longer_followed(LEARNED, LEARNED.covariance, 2) is None
    assert no_longer_followed(LEARNED, wider, 3) is None, "it never followed another"


def test_of_many_columns_each_is_looked_at_by_itself() -> None:
    learned = Learned(np.zeros(100), np.ones(100))
    mean = np.zeros(100)
    mean[[7, 30]] = 9.0, -6.0
    assert [one.column for one in changes(learned, mean, np.ones(100))] == [7, 30]
    wider = np.ones(100)
    wider[5] = 400.0
    found = changes(learned, np.zeros(100), wider)
    assert (found[0].column, found[0].by_spread) == (5, True)


def passages(values: np.ndarray, rows: int = 16) -> list[BlockMean]:
    return [
        BlockMean(rows, 60.0 * rows * (place + 0.5), np.array([value]))
        for place, value in enumerate(values)
    ]


def test_a_ramp_is_told_from_a_step() -> None:
    noise = 0.1 * np.random.default_rng(0).normal(size=40)
    bend = np.maximum(np.arange(40) - 25.0, 0.0)
    found = ramp_of(passages(bend), bend + noise, sudden=False)
    assert found is not None
    assert found.rows == pytest.approx(15 * 16, abs=16)
    assert found.per_row == pytest.approx(1 / 16, rel=0.1)
    # A row a minute.
    assert found.per_hour == pytest.approx(60 / 16, rel=0.1)
    assert found.time == pytest.approx(60.0 * 16 * 25, abs=2000)
    step = np.where(np.arange(40) < 25, 0.0, 5.0)
    # In the middle of one of them, too.
    step[25] = 2.5
    for sudden in (False, True):
        assert ramp_of(passages(step), step + noise, sudden) is None
    level = np.full(40, 5.0)
    assert ramp_of(passages(level), level + noise, sudden=False) is None


# Page-Hinkley's test, the rarity that it follows, and how many neighbours say one thing


def recent_of(scores: np.ndarray, near_misses: np.ndarray) -> Recent:
    recent = Recent(4096, 1)
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


# Sums since a minimum, and means of the rows before, are those of the rows


@pytest.mark.parametrize("columns", [3, RELATED + 1])
@given(rows=st.integers(1, 300), offset=st.sampled_from([0.0, 1e6]), cut=st.integers(0, 300))
def test_sums_are_those_of_the_rows(columns: int, rows: int, offset: float, cut: int) -> None:
    """However far from 0, and through a restart."""
    rng = np.random.default_rng(rows)
    X = offset + rng.normal(size=(rows, columns))
    since = ChangeStatistics(columns)
    for row, x in enumerate(X):
        if row == cut:
            since = restored(since, ChangeStatistics(columns))
        since.add(x, row % 3 == 0, float(row))
    assert (since.rows, since.anomalous, since.time) == (rows, (rows + 2) // 3, 0.0)
    assert since.mean == pytest.approx(X.mean(axis=0), abs=1e-9 * (1 + offset))
    whole = np.cov(X, rowvar=False, bias=True)
    expected = whole if columns <= RELATED else np.diag(whole)
    assert since.covariance == pytest.approx(expected, abs=1e-6)


def test_rows_at_once_are_rows_one_by_one() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    at_once, one_by_one = ChangeStatistics(3), ChangeStatistics(3)
    at_once.add_many(X[:150], 7, 5.0)
    at_once.add_many(X[150:], 3, 6.0)
    for x in X:
        one_by_one.add(x, False, None)
    assert (at_once.rows, at_once.anomalous, at_once.time) == (200, 10, 5.0)
    assert at_once.mean == pytest.approx(one_by_one.mean)
    assert at_once.covariance == pytest.approx(one_by_one.covariance)


@given(st.integers(1, 3000))
def test_a_history_holds_each_row_once_and_is_bounded(rows: int) -> None:
    history = BlockMeans(1)
    for row in range(rows):
        history.add(np.array([float(row)]), float(row))
    passages = history.blocks
    assert len(passages) <= 65
    held = sum(passage.rows for passage in passages)
    assert held == rows
    # In order, and the mean of each is that of its rows.
    first = 0
    for passage in passages:
        assert passage.mean[0] == passage.time == first + (passage.rows - 1) / 2
        first += passage.rows
    sizes = [passage.rows for passage in passages[:-1]]
    assert sizes == sorted(sizes, reverse=True)
