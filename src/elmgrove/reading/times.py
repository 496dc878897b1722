"""Times of rows, and gaps between them."""

import math
import re
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput, require_time
from elmgrove.reading.cells import format_like, number

#: Numbers between these are times of 1990 to 2100, in seconds since 1970.
_EARLIEST, _LATEST = 631152000.0, 4102444800.0
# What a number is divided by to be in seconds, by how large it is: nano-, micro-, milliseconds.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
_NAMES = re.compile(
    r"(.*[ _.-])?(time|times|timestamp|time[ _-]?stamp|datetime|date[ _-]?time|date|ts|epoch|utc|"
    r"clock|when)([ _.-]?(utc|s|sec|ms|us|ns|\(.*\)|\[.*\]))?",
    re.IGNORECASE,
)
_YEAR_FIRST = re.compile(r"\d{4}([-/.]\d{1,2}){2}")


class Clock:
    """Reads cells as times: seconds since 1970 in UTC, where no time zone is stated.

    A number is in seconds, or in milli-, micro- or nanoseconds where it is too large for that.

    >>> Clock()("2024-05-01T12:00:00Z"), Clock()("1714564800000"), Clock("%d.%m.%y")("01.05.24")
    (1714564800.0, 1714564800.0, 1714521600.0)
    """

    def __init__(self, form: str | None = None) -> None:
        self.form = form

    def __call__(self, cell: Any) -> float:
        """Reads one; ``ValueError`` if it is none, or none of the years 1 to 9999."""
        return require_time(self._seconds(cell))

    def _seconds(self, cell: Any) -> float:
        if isinstance(cell, datetime):
            return _seconds(cell)
        if isinstance(cell, np.datetime64):
            return float(cell.astype("M8[us]").astype(np.int64)) / 1e6
        if self.form is not None:
            return _seconds(datetime.strptime(str(cell).strip(), self.form))
        value = number(cell)
        if value is None:
            return _seconds(datetime.fromisoformat(str(cell).strip().replace("/", "-")))
        if not math.isfinite(value):
            raise ValueError(f"{cell!r} is no time")
        return value / next((unit for least, unit in _UNITS if abs(value) >= least), 1.0)

    def read(self, where: str, column: str, cell: Any) -> float:
        """Reads one; an error says where, and what to do."""
        try:
            return self(cell)
        except (ValueError, OverflowError) as error:
            if self.form is None:
                way_out = (
                    f"--time COLUMN=FORMAT says how they are written, like {format_like(cell)}"
                )
            else:
                way_out = f"--time states {self.form!r}"
            raise BadInput(f"{where}, {column}: {cell!r:.60} is no time; {way_out}") from error


def stated_time(name: str, stated: Any) -> float:
    """Reads a time that somebody states, in ISO 8601 or in seconds since 1970; errors name it.

    >>> stated_time("from", "soon")
    Traceback (most recent call last):
    elmgrove.errors.BadInput: from: 'soon' is no time; write ISO 8601 or seconds since 1970
    """
    try:
        if isinstance(stated, bool) or not isinstance(stated, str | int | float):
            raise TypeError
        return Clock()(stated)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"{name}: {stated!a:.60} is no time; write ISO 8601 or seconds since 1970"
        ) from error


def _seconds(time: datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def format_time(time: float) -> str:
    """Writes a time for people, to the second, in UTC.

    >>> format_time(1714573200.5), format_time(1e30)
    ('2024-05-01 14:20:00', '1e+30 s after 1970')
    """
    try:
        return datetime.fromtimestamp(time, UTC).isoformat(" ", "seconds").replace("+00:00", "")
    except (ValueError, OverflowError, OSError):
        # No calendar has it: a state that was made before times were looked at may.
        return f"{time:g} s after 1970"


def is_named_like_a_time(name: str) -> bool:
    """Whether a column's name is one that times have."""
    return _NAMES.fullmatch(name.strip()) is not None


def are_dates(cells: Sequence[Any]) -> bool:
    """Whether all cells are written dates, which can be nothing but times."""
    return bool(cells) and all(_is_date(cell) for cell in cells)


def are_epochs(cells: Sequence[Any]) -> bool:
    """Whether all cells are numbers of seconds (or less) since 1970, none before the last."""
    try:
        found = [Clock()(cell) for cell in cells]
    except (ValueError, OverflowError):
        return False
    rising = all(a <= b for a, b in pairwise(found))
    return bool(found) and rising and all(_EARLIEST <= time <= _LATEST for time in found)


def _is_date(cell: Any) -> bool:
    if isinstance(cell, datetime | np.datetime64):
        return True
    if not isinstance(cell, str) or number(cell) is not None or not _YEAR_FIRST.match(cell.strip()):
        return False
    try:
        Clock()(cell)
    except (ValueError, OverflowError):
        return False
    return True


#: A gap is so many times as long as the usual interval, which is the median.
SEVERAL = 5.0
# Intervals that say what is usual: at least, and the last so many at most.
_LEAST, _MOST = 8, 101
# Where more than one of so many intervals runs back, times are in no order.
_UNSORTED = 3


def usual_interval(intervals: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Finds the usual interval between rows; None where too few rows tell it."""
    known = np.asarray(intervals, np.float64)
    known = known[known > 0.0]
    return float(np.median(known)) if len(known) >= _LEAST else None


def gaps_in(times: NDArray[np.float64]) -> NDArray[np.intp]:
    """Finds the places of rows that come after a gap, or before the row in front of them."""
    intervals = np.diff(times)
    usual = usual_interval(intervals)
    late = np.zeros(len(intervals), bool) if usual is None else intervals > SEVERAL * usual
    return np.flatnonzero(late | (intervals < 0.0)) + 1


def first_back(intervals: Sequence[float] | NDArray[np.float64]) -> int | None:
    """Finds the first interval that runs back, where so many do that rows are in no order of time.

    None where they are in order: a clock that was set back once, or now and then, is a gap.
    """
    back = np.flatnonzero(np.asarray(intervals, np.float64) < 0.0)
    many = len(back) > 1 and _UNSORTED * len(back) > len(intervals)
    return int(back[0]) if many else None


class Gaps:
    """Finds the rows, as they come, that do not follow the last one in time."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._intervals: deque[float] = deque(maxlen=_MOST)
        self._usual: float | None = None
        self._seen = 0
        #: Gaps up to now, and how long the last one was, in seconds.
        self.count, self.length = 0, 0.0

    def follows(self, time: float | None) -> bool:
        """Takes the time of the next row; False where it comes after a gap."""
        last, self._last = self._last, time
        if last is None or time is None:
            return True
        interval = time - last
        gap = interval < 0.0 or (self._usual is not None and interval > SEVERAL * self._usual)
        if gap:
            self.count, self.length = self.count + 1, interval
        self._intervals.append(interval)
        # The median of a hundred changes little with one more: it is not found for each row.
        self._seen += 1
        if self._seen <= 2 * _LEAST or self._seen % _LEAST == 0:
            self._usual = usual_interval(self._intervals)
        return not gap

    @property
    def backwards(self) -> bool:
        """Whether the last rows run backwards in time, or in no order at all."""
        return len(self._intervals) >= _LEAST and first_back(self._intervals) is not None

    @property
    def last(self) -> float | None:
        """The time of the last row; None before the first one."""
        return self._last

    @property
    def state(self) -> list[Any]:
        """What is known, as JSON holds it."""
        return [self._last, self._seen, self._usual, list(self._intervals)]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """Goes on from what was known."""
        made = cls()
        made._last, made._seen, made._usual, intervals = state
        made._intervals.extend(intervals)
        return made

    @property
    def usual(self) -> float | None:
        """The usual interval in seconds; None where too few rows tell it."""
        return self._usual
