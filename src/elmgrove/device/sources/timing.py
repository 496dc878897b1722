"""Gaps in time between rows: by their own times, or by when live rows arrive."""

import time as clock
from collections import deque
from typing import Any, NamedTuple

from elmgrove.reading import Gaps, time_told

# By arrival, a gap is so many times as long as the longest pause of late, and at least so long:
# rows may wait in buffers, and come in bursts.
_SEVERAL, _SECONDS = 5.0, 10.0
# Pauses that must be known, and those that are remembered.
_LEAST, _MOST = 8, 100


class Gap(NamedTuple):
    """A time without rows, from the last row before it to the first one after it.

    ``backwards`` says that many of the last rows came before the one in front of them.
    """

    begin: float
    end: float
    backwards: bool = False

    def __str__(self) -> str:
        begin, end = time_told(self.begin), time_told(self.end)
        if self.end < self.begin:
            return f"times went back from {begin} to {end} ({_told(self.begin - self.end)})"
        return f"no rows from {begin} to {end} ({_told(self.end - self.begin)})"


class Timing:
    """Says of each row whether it comes after a gap in time.

    Rows that have times are judged by these. Rows without can be judged only where they are
    ``live``: by when they arrive. What arrives together, such as all rows that a file has when an
    agent begins, is one arrival.
    """

    def __init__(self, *, live: bool = False, bookmark: dict[str, Any] | None = None) -> None:
        self._live = live
        known = (bookmark or {}).get("times")
        self._gaps = Gaps() if known is None else Gaps.from_state(known)
        self._pauses: deque[float] = deque(maxlen=_MOST)
        self._arrived: float | None = None
        self._idle = False

    @property
    def bookmark(self) -> dict[str, Any]:
        """What a restart must know to find the next gap; nothing where rows have no times."""
        return {} if self._gaps.last is None else {"times": self._gaps.state}

    def idle(self) -> None:
        """Tells that there is nothing more for now."""
        self._idle = True

    def gap_before(self, time: float | None) -> Gap | None:
        """Takes the time of the next row; gives the gap before it, if there is one."""
        if time is None:
            return self._gap_before_arrival() if self._live else None
        last = self._gaps.last
        follows = self._gaps.follows(time)
        return None if follows or last is None else Gap(last, time, self._gaps.backwards)

    def _gap_before_arrival(self) -> Gap | None:
        now = clock.time()
        (last, after_idle), self._arrived, self._idle = (self._arrived, self._idle), now, False
        if last is None or not after_idle:
            return None
        pause, known = now - last, len(self._pauses)
        longest = max(self._pauses, default=0.0)
        self._pauses.append(pause)
        gap = known >= _LEAST and pause > max(_SECONDS, _SEVERAL * longest)
        return Gap(last, now) if gap else None


def _told(seconds: float) -> str:
    """Writes a length of time for people."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
