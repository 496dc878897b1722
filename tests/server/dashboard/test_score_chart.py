"""The course of a device's scores: as many points as can be seen, which say what minutes do."""

import pytest

from elmgrove.server.dashboard.device_page import ScoreChart
from support.reports import minute


def test_minutes_are_put_together_to_as_many_points_as_can_be_seen() -> None:
    minutes = [minute(100 + n, rows=60, anomalous=n % 3).fields for n in range(600)]
    course = ScoreChart.of(minutes, 100 * 60.0, 700 * 60.0, most=70)
    assert (course.step, course.span) == (600, "10 minutes")
    assert len(course.points) <= 70
    assert sum(point.rows for point in course.known) == 600 * 60
    assert sum(point.anomalous for point in course.known) == sum(n % 3 for n in range(600))
    assert {point.highest for point in course.known} == {2.5}
    times = dict(course.columns())["times"]
    assert all(one is not None and one % 600 == 0 for one in times)


@pytest.mark.parametrize("days", [0.1, 1, 2, 3, 5, 7, 8, 20, 31, 100, 400])
def test_fewer_points_say_the_same_as_minutes_do(days: float) -> None:
    end = 1440 * 30_000 * 60.0 + 4000
    begin = end - days * 86_400
    step = max(int(days * 1440 / 2000), 1)
    told = range(int(begin // 60) + 1, int(end // 60), step)
    minutes = [minute(n, rows=n % 60 + 1, anomalous=n % 2).fields for n in told]
    few = ScoreChart.of(minutes, begin, end).at_most(48)
    direct = ScoreChart.of(minutes, begin, end, 48)
    assert [(point.begin, point.rows, point.anomalous) for point in few.known] == [
        (point.begin, point.rows, point.anomalous) for point in direct.known
    ]
    assert len(few.points) <= 48


def test_where_nothing_was_told_there_is_a_gap() -> None:
    course = ScoreChart.of([minute(100).fields, minute(104).fields], 6000.0, 6360.0)
    assert [point is None for point in course.points] == [False, True, True, True, False, True]
