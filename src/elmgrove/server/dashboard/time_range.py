"""Time ranges: what a page shows, as its address says it."""

import math
import re
import time
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request

from elmgrove.errors import Problem
from elmgrove.server.dashboard.rendering import counted, iso, query, stated_range

#: The ranges that pages lead to, as they are called and as an address says them.
RANGES = {"1 h": "now-1h", "24 h": "now-24h", "7 d": "now-7d"}


@dataclass(frozen=True)
class TimeRange:
    """From when to when: ``begin`` and ``end`` in seconds, and as the address says it.

    What an address says is moving (``now-24h`` to ``now``) or in ISO 8601, and so for ever the
    same: ``fixed`` is the latter of any range, to show somebody else what one sees.
    """

    begin: float
    end: float
    stated: tuple[str, str]

    @classmethod
    def of(cls, request: Request) -> "TimeRange":
        """Read ``from`` and ``to`` of a page's address; refuse what is no time, or no range."""
        now, asked = time.time(), stated_range(request)
        stated = asked["from"], asked["to"]
        begin, end = _time("from", stated[0], now), _time("to", stated[1], now)
        if not 60.0 <= end - begin <= 400 * 86_400.0:
            raise Problem("malformed", "from and to: they must be a minute to 400 days apart")
        return cls(begin, end, stated)

    @property
    def until(self) -> float:
        """The time before which is all that it shows: a range that ends now leaves out nothing.

        Rows may be ahead of the clock here, by hours where they tell a local time as UTC.
        """
        return math.inf if self.is_moving else self.end

    @property
    def query(self) -> dict[str, str]:
        """The range as a link carries it on to another page."""
        return {"from": self.stated[0], "to": self.stated[1]}

    @property
    def fixed(self) -> dict[str, str]:
        """The range in times that stay, for an address that shows the same for ever."""
        return {"from": iso(self.begin), "to": iso(self.end)}

    @property
    def is_moving(self) -> bool:
        """Return whether it ends now, whenever that is: only such a page changes by itself."""
        return self.stated[1] == "now"


def with_range(request: Request) -> str | None:
    """Return the query that says the range which an address leaves out; None if it says all."""
    asked = dict(request.query_params)
    if asked.get("from") and asked.get("to"):
        return None
    return query(**asked | stated_range(request))


def step_of(lasts: float, most: int) -> int:
    """Choose the seconds of one step, as a clock shows them: a time has at most so many."""
    weeks = (7 * 1440, 28 * 1440)
    for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, *weeks):
        if lasts / minutes <= 60 * most:
            break
    return 60 * minutes


def step_told(seconds: int) -> str:
    """Say what one step stands for, as in "for each".

    >>> step_told(60), step_told(900), step_told(3600), step_told(172_800)
    ('minute', '15 minutes', 'hour', '2 days')
    """
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"))
    size, name = next((size, name) for size, name in units if seconds >= size)
    return name if seconds == size else counted(seconds // size, name)


def _time(name: str, text: str, now: float) -> float:
    found = re.fullmatch(r"now(?:-(\d{1,4})([mhd]))?", text)
    if found is not None:
        number, unit = found.groups()
        return now - float(number or 0) * {"m": 60.0, "h": 3600.0, "d": 86_400.0}[unit or "m"]
    try:
        read = datetime.fromisoformat(text[:40])
        # Without a zone it would be that of this machine, which nobody asked for.
        seconds = read.timestamp() if read.tzinfo is not None else _refuse(name, text)
    except (ValueError, OverflowError, OSError):
        return _refuse(name, text)
    # Beyond the year 9900 there is no calendar for what is around it; before 1970 nothing is told.
    return seconds if 0.0 <= seconds <= 250e9 else _refuse(name, text)


def _refuse(name: str, text: str) -> float:
    raise Problem(
        "malformed",
        f"{name}: {text!r:.40} is no time: write 2026-11-17T06:00:00Z, now, or now-24h (m, h, d)",
    )
