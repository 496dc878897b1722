"""Times as people write and read them, in this machine's time zone."""

import time
from datetime import datetime


def shown(moment: str | float | None, now: float | None = None) -> str:
    """Writes a time (ISO 8601 or seconds since 1970) for people: today's without the date."""
    if moment is None:
        return "?"
    when = _local(moment)
    today = _local(time.time() if now is None else now).date()
    return f"{when:%H:%M:%S}" if when.date() == today else f"{when:%Y-%m-%d %H:%M:%S}"


def _local(moment: str | float) -> datetime:
    if isinstance(moment, str):
        return datetime.fromisoformat(moment).astimezone()
    return datetime.fromtimestamp(moment).astimezone()
