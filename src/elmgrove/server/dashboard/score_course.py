"""The course of a device's scores: its minutes, put together to as many points as can be seen."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

#: Points of a chart, and lines of the table that says the same, at most.
MOST_POINTS, MOST_LINES = 1200, 48
# Minutes that are put together to one point: times that a clock shows.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 7 * 1440)


@dataclass(frozen=True)
class CoursePoint:
    """Some minutes that were put together, from ``begin`` (seconds since 1970) on.

    ``typical`` is the mean of the minutes' median scores, weighed by their rows; ``highest`` is the
    highest score of all. ``threshold`` is the last one, None while there was none.
    """

    begin: float
    rows: int
    strange: int
    anomalous: int
    threshold: float | None
    typical: float
    highest: float


@dataclass(frozen=True)
class ScoreCourse:
    """Points at equal steps of so many minutes; None where the device told nothing."""

    step: int
    begin: float
    points: tuple[CoursePoint | None, ...]

    @classmethod
    def of(
        cls, minutes: Sequence[Sequence[Any]], begin: float, end: float, most: int = MOST_POINTS
    ) -> "ScoreCourse":
        """Puts minutes (their fields, oldest first) together to at most so many points."""
        step = next((one for one in _STEPS if (end - begin) / 60 / one <= most - 2), _STEPS[-1])
        first, last = int(begin // 60 // step), int(math.ceil(end / 60) - 1) // step
        gathered: dict[int, list[Sequence[Any]]] = {}
        for minute in minutes:
            gathered.setdefault(minute[0] // step, []).append(minute)
        points = (
            _point(place * step * 60.0, gathered[place]) if place in gathered else None
            for place in range(first, last + 1)
        )
        return cls(step, first * step * 60.0, tuple(points))

    @property
    def known(self) -> list[CoursePoint]:
        """The points of which something is known."""
        return [point for point in self.points if point is not None]

    @property
    def span(self) -> str:
        """What one point stands for, in words."""
        if self.step == 1:
            return "minute"
        if self.step < 60:
            return f"{self.step} minutes"
        hours = self.step // 60
        if hours == 1:
            return "hour"
        return f"{hours} hours" if hours < 24 else ("day" if hours == 24 else f"{hours // 24} days")

    def columns(self) -> Iterator[tuple[str, list[float | None]]]:
        """Gives what a chart draws: times in seconds, and a line for each kind of score."""
        yield "times", [self.begin + place * self.step * 60.0 for place in range(len(self.points))]
        for name in ("typical", "highest", "threshold"):
            yield name, [None if point is None else getattr(point, name) for point in self.points]


def _point(begin: float, minutes: Sequence[Sequence[Any]]) -> CoursePoint:
    rows = sum(one[1] for one in minutes)
    # Each by its share: scores may be as large as numbers can be.
    typical = sum(one[1] / rows * one[5] for one in minutes) if rows else None
    return CoursePoint(
        begin,
        rows,
        sum(one[2] for one in minutes),
        sum(one[3] for one in minutes),
        minutes[-1][4],
        max(one[5] for one in minutes) if typical is None else typical,
        max(one[8] for one in minutes),
    )
