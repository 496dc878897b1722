"""When a row was: its time, or which row it is, for JSON and in words."""

from datetime import UTC, datetime

from elmgrove.detector.alarm import When


def json_when(when: When) -> str | int:
    """Gives a time in ISO 8601 (UTC), or the number of a row as it is.

    >>> json_when(1714573200.0), json_when(17)
    ('2024-05-01T14:20:00Z', 17)
    """
    if isinstance(when, int):
        return when
    moment = _moment(when)
    if moment is None:
        return f"{when:.0f} s after 1970"
    precise = "milliseconds" if when % 1 else "seconds"
    return moment.isoformat(timespec=precise).replace("+00:00", "Z")


def when_text(when: When) -> str:
    """Says when a row was: its time, or which row it is."""
    return f"row {when}" if isinstance(when, int) else str(json_when(when))


def clock(time: float, now: float | None) -> str:
    """Says when it was (UTC): the time of the day, with the day where that is another one.

    >>> clock(1714573200.0, 1714580000.0), clock(1714573200.0, None)
    ('14:20', '2024-05-01 14:20')
    """
    moment, today = _moment(time), None if now is None else _moment(now)
    if moment is None:
        return str(json_when(float(time)))
    same = today is not None and today.date() == moment.date()
    return f"{moment:%H:%M}" if same else f"{moment:%Y-%m-%d %H:%M}"


def _moment(time: float) -> datetime | None:
    """The date of a time; None where no calendar has it: a wrong time must not stop a verdict."""
    try:
        return datetime.fromtimestamp(time, UTC)
    except (OverflowError, OSError, ValueError):
        return None
