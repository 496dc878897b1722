"""Times, as they are written."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from elmgrove import BadInput
from elmgrove.reading.times import (
    Clock,
    Gaps,
    are_dates,
    are_epochs,
    first_back,
    gaps_in,
    is_named_like_a_time,
)

NOON = 1714564800.0


@pytest.mark.parametrize(
    "cell",
    [
        "2024-05-01T12:00:00Z",
        "2024-05-01 12:00",
        " 2024-05-01T14:00:00+02:00 ",
        "2024/05/01 12:00:00",
        "1714564800",
        "1714564800000",
        1714564800000000,
        "1714564800000000000",
        1714564800.0,
        datetime(2024, 5, 1, 12),
        datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        datetime(2024, 5, 1, 12, tzinfo=UTC),
    ],
)
def test_one_time_in_many_ways(cell: object) -> None:
    assert Clock()(cell) == NOON


def test_a_stated_format() -> None:
    assert Clock("%d.%m.%Y %H:%M")("01.05.2024 12:00") == NOON
    with pytest.raises(BadInput, match=r"x, column 1: '2024-05-01' is no time; --time states '%d"):
        Clock("%d.%m.%Y").read("x", "column 1", "2024-05-01")


@pytest.mark.parametrize("cell", ["", "noon", "nan", None, "1.5.2024", "inf"])
def test_what_is_no_time_is_refused_with_a_way_out(cell: object) -> None:
    with pytest.raises(BadInput, match=r"is no time; --time COLUMN=FORMAT says how"):
        Clock().read("data.csv, line 2", "column 1", cell)


def test_what_is_obviously_a_time() -> None:
    assert are_dates(["2024-05-01T12:00:00Z", "2024-05-02"])
    assert not are_dates(["2024-05-01", "20240501"])
    assert not are_dates(["1714564800", "12:00", "2024-13-01"])
    assert not are_dates([])
    assert are_epochs(["1714564800", "1714564801"])
    assert not are_epochs(["1714564801", "1714564800"]), "a clock does not go back"
    assert not are_epochs(["17", "18"])
    assert not are_epochs(["1714564800", "hot"])


@pytest.mark.parametrize("name", ["time", "Timestamp", "date_time", "ts", "sensor_ts", "epoch_ms"])
def test_names_that_times_have(name: str) -> None:
    assert is_named_like_a_time(name)


@pytest.mark.parametrize("cell", ["1e30", -90000000000, 1e30, "-1e28", np.datetime64(2**62, "us")])
def test_a_time_outside_the_calendar_is_none(cell: object) -> None:
    with pytest.raises(BadInput, match="is no time"):
        Clock().read("data.csv, line 2", "column 1", cell)


# Gaps in time, of whole tables and of rows as they come


def test_a_row_that_comes_several_times_later_than_usual_follows_a_gap() -> None:
    times = np.array([*range(30), 33, 34, 40, 41.0])
    assert gaps_in(times).tolist() == [32]
    assert gaps_in(60.0 * times).tolist() == [32]


def test_a_row_that_comes_before_the_last_one_follows_a_gap() -> None:
    assert gaps_in(np.array([5.0, 6.0, 1.0, 2.0])).tolist() == [2]


def test_rows_as_they_come() -> None:
    gaps = Gaps()
    times = [*range(30), 33, 34, 40, 41, None, 90, 91, 80, 81]
    assert [time for time in times if gaps.before(time)] == [40, 80]


def test_what_is_usual_may_change() -> None:
    gaps = Gaps()
    times = [*range(200), *range(210, 210 + 60 * 200, 60)]
    apart = [time for time in times if gaps.before(time)]
    assert 0 < len(apart) < 80, "a minute is a gap until it is usual"
    assert not gaps.before(times[-1] + 60.0)
    assert gaps.before(times[-1] + 1000.0)


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
    found = [gap for time in (*range(100), 50, *range(51, 150)) if (gap := gaps.before(time))]
    assert [gap.backwards for gap in found] == [False]
    found = [gap for time in range(148, 49, -1) if (gap := gaps.before(time))]
    assert found[-1].backwards
