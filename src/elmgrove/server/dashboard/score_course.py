"""The course of a device's scores: its minutes, put together to as many points as can be seen."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmgrove.server.dashboard.time_range import step_of, step_told

#: Points of a chart, and lines of the table that says the same, at most.
MOST_POINTS, MOST_LINES = 1200, 48


class CoursePoint(NamedTuple):
    """Some minutes that were put together, from ``begin`` (seconds since 1970) on.

    ``typical`` is the mean of the minutes' median scores, weighed by their rows; ``highest`` is the
    highest score of all. ``threshold`` is the last one, None while there was none.
    """

    begin: float
    rows: int
    anomalous: int
    threshold: float | None
    typical: float
    highest: float


@dataclass(frozen=True)
class ScoreCourse:
    """Points at equal steps of so many seconds; None where the device told nothing."""

    step: int
    begin: float
    end: float
    points: tuple[CoursePoint | None, ...]

    @classmethod
    def of(
        cls, minutes: Sequence[Sequence[Any]], begin: float, end: float, most: int = MOST_POINTS
    ) -> "ScoreCourse":
        """Puts minutes (their fields, oldest first) together to at most so many points."""
        points = (
            CoursePoint(minute * 60.0, rows, anomalous, threshold, median, highest)
            for minute, rows, anomalous, threshold, median, _, _, highest in minutes
        )
        return cls._gathered(points, begin, end, most)

    def at_most(self, most: int) -> "ScoreCourse":
        """Puts its points together to fewer: its step is a part of theirs, if they are few."""
        return self._gathered(self.known, self.begin, self.end, most)

    @classmethod
    def _gathered(
        cls, points: Iterable[CoursePoint], begin: float, end: float, most: int
    ) -> "ScoreCourse":
        step = step_of(end - begin, most - 2)
        first, last = int(begin // step), math.ceil(end / step)
        gathered: dict[int, list[CoursePoint]] = {}
        for point in points:
            gathered.setdefault(int(point.begin // step), []).append(point)
        together = (
            _point(float(place * step), gathered[place]) if place in gathered else None
            for place in range(first, last)
        )
        return cls(step, float(first * step), end, tuple(together))

    @property
    def known(self) -> list[CoursePoint]:
        """The points of which something is known."""
        return [point for point in self.points if point is not None]

    @property
    def span(self) -> str:
        """What one point stands for, in words."""
        return step_told(self.step)

    def columns(self) -> Iterator[tuple[str, list[float | None]]]:
        """Gives what a chart draws: times in seconds, and a line for each kind of score."""
        yield "times", [self.begin + place * self.step for place in range(len(self.points))]
        for name in ("typical", "highest", "threshold"):
            yield name, [None if point is None else getattr(point, name) for point in self.points]


def _point(begin: float, parts: Sequence[CoursePoint]) -> CoursePoint:
    rows = sum(one.rows for one in parts)
    # Each by its share: scores may be as large as numbers can be.
    typical = sum(one.rows / rows * one.typical for one in parts) if rows else None
    return CoursePoint(
        begin,
        rows,
        sum(one.anomalous for one in parts),
        parts[-1].threshold,
        max(one.typical for one in parts) if typical is None else typical,
        max(one.highest for one in parts),
    )
