"""Times as people write and read them: UTC where no zone is stated, as everywhere here."""

import re
import time
from datetime import UTC, datetime

from elmgrove.errors import BadInput
from elmgrove.reading import Clock, time_told

_AGO = re.compile(r"-(\d+(?:\.\d+)?)([smhd])")
_OF_DAY = re.compile(r"(\d{1,2})(:\d{2}(?::\d{2})?)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def moment(text: str, now: float | None = None) -> float:
    """Reads a time: ISO 8601, seconds since 1970, ``14:20`` for today, or ``-2h`` for ago.

    >>> moment("14:20", now=86400.0), moment("-2h", now=86400.0), moment("1970-01-02T01:00+01:00")
    (138000.0, 79200.0, 86400.0)
    """
    now = time.time() if now is None else now
    if ago := _AGO.fullmatch(text):
        return now - float(ago[1]) * _SECONDS[ago[2]]
    if of_day := _OF_DAY.fullmatch(text):
        text = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d} {of_day[1]:0>2}{of_day[2]}"
    try:
        return Clock()(text)
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"{text!r} is no time: write 2026-05-01T14:20, 14:20 (today, UTC), -2h or seconds"
        ) from error


def shown(when: str | float | None, day: str | float | None = None) -> str:
    """Writes a time (ISO 8601 or seconds since 1970) for people: without the date if it is today.

    Or if it is on the same ``day`` as another time.
    """
    if when is None:
        return "?"
    text, today = _told(when), _told(time.time() if day is None else day)
    return text.removeprefix(f"{today[:10]} ")


def _told(when: str | float) -> str:
    """A time for people; what is none, as it is: a state may hold what no calendar has."""
    try:
        return time_told(Clock()(when))
    except (ValueError, OverflowError):
        return str(when)
