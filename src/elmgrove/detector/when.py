"""When a row was, in words: for people, and for JSON."""

from datetime import UTC, datetime

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
    return _written(when, "milliseconds" if when % 1 else "seconds").replace("+00:00", "Z")


def when_text(when: When) -> str:
    """Says when a row was: its time, or which row it is."""
    return f"row {when}" if isinstance(when, int) else str(json_when(when))


def _written(time: float, precise: str) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).isoformat("T", precise)
    except (OverflowError, OSError, ValueError):
        # No calendar has it: a state of an earlier release may hold such a time.
        return f"{time:g} s after 1970"
