"""What is told of a drift, and what sums say of which sensor."""

import numpy as np
import pytest

from elmgrove.detector.drift import (
    BlockMean,
    Drift,
    Learned,
    Relation,
    Shift,
    changes,
    clock,
    no_longer_followed,
    percent_of,
    ramp_of,
)

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


def test_a_time_that_no_calendar_has_is_told_as_it_is() -> None:
    assert clock(1e18, None) == "1e+18 s after 1970"


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
    assert found.after - found.before == pytest.approx(3.0, abs=0.3)


def test_two_sensors_are_two() -> None:
    mean = np.array([0.0, 2.0, -2.0, 0.0])
    found = changes(LEARNED, mean, LEARNED.covariance)
    assert sorted(one.column for one in found) == [1, 2]


def test_another_regime_is_told_by_levels() -> None:
    found = changes(LEARNED, np.array([-8.0, -6.0, -9.0, 0.1]), LEARNED.covariance)
    assert {one.column for one in found} == {0, 1, 2}
    assert [one.before for one in found] == [0.0, 0.0, 0.0]


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
