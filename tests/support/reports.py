"""Reports for tests: of a device that watches, with as much in them as a test asks for."""

import re
from collections.abc import Iterator
from typing import Any

from elmgrove.federation.report import Minute, Report

#: A minute of 2024 since 1970.
MINUTE = 28_576_220


def status(**more: Any) -> dict[str, Any]:
    """Gives what a device's status tells, as far as a server looks at it."""
    return {
        "name": "fan-1",
        "state": "watching",
        "learned": 1200,
        "threshold": 1.5,
        "event": None,
        "drift": None,
        "version": "0.2.0",
        "sync_seconds": 60.0,
        **more,
    }


def minute(number: int = MINUTE, rows: int = 60, anomalous: int = 2) -> Minute:
    """Gives a minute with a few anomalous rows."""
    return Minute(number, rows, anomalous, 1.5, (0.4, 0.9, 1.6, 2.5))


def event(number: int, begin: str | int = "2024-05-01T14:20:00Z", **more: Any) -> dict[str, Any]:
    """Gives an event that is open, unless an end is given."""
    return {
        "number": number,
        "begin": begin,
        "end": None,
        "peak": 8.1,
        "peak_at": begin,
        "threshold": 1.5,
        "rows": 31,
        "changing": False,
        "answered": None,
        "known": [],
        "causes": [{"feature": "flow", "share": 0.9, "seen": 22.0, "expected": 31.0, "ago": 0}],
        "text": f"event {number}: since {begin}, 31 rows anomalous; flow 22 (not 31)",
        **more,
    }


def cooperation(**more: Any) -> dict[str, Any]:
    """Gives what a sync changed."""
    return {
        "time": 1714573200.0,
        "before": 1.4,
        "after": 1.1,
        "others": 3,
        "borrowed_rows": 400.0,
        "share": 0.25,
        "contributors": ["fan-2", "fan-3"],
        **more,
    }


def report(device: str = "fan-1", time: float = 1714573200.0, **more: Any) -> Report:
    """Gives a report of a device that watches."""
    return Report(device, time, **{"status": status(name=device), **more})


def numbers_in(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Finds all numbers, those in texts as well, each with where it is."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from numbers_in(one, f"{path}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from numbers_in(one, path)
    elif isinstance(value, str):
        found = re.findall(r"\d[\d,]*\.?\d*(?:e[+-]?\d+)?", value)
        yield from ((path, float(one.replace(",", "").rstrip("."))) for one in found)
    elif isinstance(value, int | float):
        yield path, float(value)
