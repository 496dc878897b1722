"""All numbers of a run, found by what was measured."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clock import Timing


class Key(NamedTuple):
    """What was measured: how many hidden units, BLAS threads ("1" or "default"), and where."""

    units: int
    case: str
    threads: str
    machine: str = "idle"


class Results:
    """Times of calls as they come in; a ``Timing`` for each key when asked."""

    def __init__(self) -> None:
        self._times: dict[Key, list[float]] = {}
        #: Peers that do not run here, and their errors.
        self.failures: dict[str, str] = {}

    def add(self, key: Key, times: list[float]) -> None:
        """Adds times to those of a key."""
        self._times.setdefault(key, []).extend(times)

    def __contains__(self, key: Key) -> bool:
        return key in self._times

    def __getitem__(self, key: Key) -> Timing:
        return Timing.of(self._times[key])

    def median(self, units: int, case: str, threads: str, machine: str = "idle") -> float | None:
        """Gives the median in µs; None if it was not measured or does not run here."""
        key = Key(units, case, threads, machine)
        return self[key].median if key in self else None

    def write(self, path: Path, about: dict[str, Any]) -> None:
        """Writes all numbers as JSON."""
        path.parent.mkdir(exist_ok=True)
        measured = [key._asdict() | asdict(self[key]) for key in self._times]
        record = about | {"failures": self.failures, "unit": "µs", "measured": measured}
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
