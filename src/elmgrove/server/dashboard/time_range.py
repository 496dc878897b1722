"""Time ranges: what a page shows, as its address says it."""

import re
import time
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request

from elmgrove.server.dashboard.rendering import iso
from elmgrove.server.problems import Problem

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
_BACK = re.compile(r"now(?:-(\d{1,4})([mhd]))?")
#: The ranges that pages lead to, as they are called and as an address says them.
RANGES = {"1 h": "now-1h", "24 h": "now-24h", "7 d": "now-7d"}
#: Seconds of a range, at least and at most.
SHORTEST_RANGE, LONGEST_RANGE = 60.0, 400 * 86_400.0
# Beyond the year 9900 there is no calendar for what is around it; before 1970 nothing is told.
_LATEST = 250e9


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
    def of(cls, request: Request, default: str = "now-24h") -> "TimeRange":
        """Reads ``from`` and ``to`` of a page's address; refuses what is no time, or no range."""
        now, asked = time.time(), request.query_params
        stated = asked.get("from") or default, asked.get("to") or "now"
        begin, end = _time("from", stated[0], now), _time("to", stated[1], now)
        if not SHORTEST_RANGE <= end - begin <= LONGEST_RANGE:
            raise Problem("malformed", "from and to: they must be a minute to 400 days apart")
        return cls(begin, end, stated)

    @property
    def query(self) -> dict[str, str]:
        """The range as a link carries it on to another page."""
        return {"from": self.stated[0], "to": self.stated[1]}

    @property
    def fixed(self) -> dict[str, str]:
        """The range as it is now, for ever."""
        return {"from": iso(self.begin), "to": iso(self.end)}

    @property
    def is_moving(self) -> bool:
        """Says whether it ends now, whenever that is: only such a page changes by itself."""
        return self.stated[1] == "now"


def _time(name: str, text: str, now: float) -> float:
    found = _BACK.fullmatch(text)
    if found is not None:
        number, unit = found.groups()
        return now - float(number or 0) * _UNITS[unit or "m"]
    try:
        read = datetime.fromisoformat(text[:40])
        # Without a zone it would be that of this machine, which nobody asked for.
        seconds = read.timestamp() if read.tzinfo is not None else _refuse(name, text)
    except (ValueError, OverflowError, OSError):
        return _refuse(name, text)
    return seconds if 0.0 <= seconds <= _LATEST else _refuse(name, text)


def _refuse(name: str, text: str) -> float:
    raise Problem(
        "malformed",
        f"{name}: {text!r:.40} is no time: write 2026-11-17T06:00:00Z, now, or now-24h (m, h, d)",
    )
