"""Times of rows, and gaps between them."""

import math
import re
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput, require_time
from elmgrove.reading.cells import format_like, number


class Clock:
    """Reads cells as times: seconds since 1970 in UTC, where no time zone is stated.

    A number is in seconds, or in milli-, micro- or nanoseconds where it is too large for that.

    >>> Clock()("2024-05-01T12:00:00Z"), Clock()("1714564800000"), Clock("%d.%m.%y")("01.05.24")
    (1714564800.0, 1714564800.0, 1714521600.0)
    """

    def __init__(self, form: str | None = None) -> None:
        self.form = form

    def __call__(self, cell: Any) -> float:
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
        # By how large it is: nano-, micro-, milliseconds.
        units = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
        return value / next((unit for least, unit in units if abs(value) >= least), 1.0)

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


def _seconds(when: datetime) -> float:
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def format_time(when: float) -> str:
    """Writes a time for people, to the second, in UTC.

    >>> format_time(1714573200.5), format_time(1e30)
    ('2024-05-01 14:20:00', '1e+30 s after 1970')
    """
    try:
        return datetime.fromtimestamp(when, UTC).isoformat(" ", "seconds").replace("+00:00", "")
    except (ValueError, OverflowError, OSError):
        # No calendar has it: a state that was made before times were looked at may.
        return f"{when:g} s after 1970"


#: When a row was measured: seconds since 1970 (UTC) as a float, or, where that was not told, the
#: number of the row as an int, counted from the first one observed.
When = float | int


def json_when(when: When) -> str | int:
    """Gives a time in ISO 8601 (UTC), or the number of a row as it is.

    >>> json_when(1714573200.0), json_when(17)
    ('2024-05-01T14:20:00Z', 17)
    """
    if isinstance(when, int):
        return when
    try:
        precise = "milliseconds" if when % 1 else "seconds"
        return datetime.fromtimestamp(when, UTC).isoformat("T", precise).replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return format_time(when)


def when_text(when: When) -> str:
    """Says when a row was: its time, or which row it is."""
    return f"row {when}" if isinstance(when, int) else str(json_when(when))


def is_named_like_a_time(name: str) -> bool:
    named = re.fullmatch(
        r"(.*[ _.-])?(time|times|timestamp|time[ _-]?stamp|datetime|date[ _-]?time|date|ts|epoch|"
        r"utc|clock|when)([ _.-]?(utc|s|sec|ms|us|ns|\(.*\)|\[.*\]))?",
        name.strip(),
        re.IGNORECASE,
    )
    return named is not None


def are_dates(cells: Sequence[Any]) -> bool:
    return bool(cells) and all(_is_date(cell) for cell in cells)


def are_epochs(cells: Sequence[Any]) -> bool:
    """Whether all cells are numbers of seconds (or less) since 1970, none before the last."""
    try:
        found = [Clock()(cell) for cell in cells]
    except (ValueError, OverflowError):
        return False
    # From 1990 to 2100.
    in_range = all(631152000.0 <= time <= 4102444800.0 for time in found)
    return bool(found) and in_range and all(a <= b for a, b in pairwise(found))


def _is_date(cell: Any) -> bool:
    if isinstance(cell, datetime | np.datetime64):
        return True
    if not isinstance(cell, str) or number(cell) is not None:
        return False
    if not re.match(r"\d{4}([-/.]\d{1,2}){2}", cell.strip()):
        return False
    try:
        Clock()(cell)
    except (ValueError, OverflowError):
        return False
    return True


#: A gap is so many times as long as the usual interval, which is the median.
SEVERAL = 5.0
# Intervals that say what is usual, at least.
_LEAST = 8


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
    """Finds the first interval that runs back, where more than a third do: rows are in no order.

    A clock that was set back once, or now and then, is a gap.
    """
    back = np.flatnonzero(np.asarray(intervals, np.float64) < 0.0)
    many = len(back) > 1 and 3 * len(back) > len(intervals)
    return int(back[0]) if many else None


class Gap(NamedTuple):
    """A time without rows, from the last row before it to the first one after it.

    ``backwards`` says that many of the last rows came before the one in front of them.
    """

    begin: float
    end: float
    backwards: bool = False

    def __str__(self) -> str:
        begin, end = format_time(self.begin), format_time(self.end)
        if self.end < self.begin:
            return f"times went back from {begin} to {end} ({_lasting(self.begin - self.end)})"
        return f"no rows from {begin} to {end} ({_lasting(self.end - self.begin)})"


def _lasting(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


class Gaps:
    """Finds the gaps between rows, as they come.

    Rows that have times are judged by these. Rows without can be judged only where they are
    ``live``: by when they arrive. What arrives together, such as all rows that a file has when an
    agent begins, is one arrival.
    """

    def __init__(self, *, live: bool = False, state: Sequence[Any] | None = None) -> None:
        self._live = live
        self._last: float | None = None
        self._intervals: deque[float] = deque(maxlen=101)
        self._usual: float | None = None
        self._seen = 0
        self._pauses: deque[float] = deque(maxlen=100)
        self._arrived: float | None = None
        self._idle = False
        if state is not None:
            self._last, self._seen, self._usual, intervals = state
            self._intervals.extend(intervals)

    @property
    def state(self) -> list[Any] | None:
        """What a restart must know, as JSON holds it; None where rows have no times."""
        if self._last is None:
            return None
        return [self._last, self._seen, self._usual, list(self._intervals)]

    def idle(self) -> None:
        self._idle = True

    def before(self, when: float | None) -> Gap | None:
        """Takes the time of the next row; gives the gap before it, if there is one."""
        last, self._last = self._last, when
        if when is None:
            return self._before_arrival() if self._live else None
        if last is None:
            return None
        interval = when - last
        gap = interval < 0.0 or (self._usual is not None and interval > SEVERAL * self._usual)
        self._intervals.append(interval)
        # The median of a hundred changes little with one more: it is not found for each row.
        self._seen += 1
        if self._seen <= 2 * _LEAST or self._seen % _LEAST == 0:
            self._usual = usual_interval(self._intervals)
        if not gap:
            return None
        backwards = len(self._intervals) >= _LEAST and first_back(self._intervals) is not None
        return Gap(last, when, backwards)

    def _before_arrival(self) -> Gap | None:
        now = time.time()
        (last, after_idle), self._arrived, self._idle = (self._arrived, self._idle), now, False
        if last is None or not after_idle:
            return None
        pause, known = now - last, len(self._pauses)
        longest = max(self._pauses, default=0.0)
        self._pauses.append(pause)
        # Rows may wait in buffers, and come in bursts.
        return Gap(last, now) if known >= _LEAST and pause > max(10.0, 5.0 * longest) else None
