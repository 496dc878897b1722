"""All numbers of a run, found by what was measured."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clock import Timing


class Key(NamedTuple):
    """What was measured: of which size, with which BLAS threads ("1" or "default"), and where.

    The size is the number of hidden units; for what a verdict costs, that of inputs.
    """

    size: int
    case: str
    threads: str
    machine: str = "idle"


class Results:
    """Times of calls as they come in; a ``Timing`` for each key when asked."""

    def __init__(self) -> None:
        self._batches: dict[Key, list[list[float]]] = {}
        #: Peers that do not run here, and their errors.
        self.failures: dict[str, str] = {}

    def add(self, key: Key, times: list[float]) -> None:
        """Adds the times of one batch to those of a key."""
        self._batches.setdefault(key, []).append(times)

    def __contains__(self, key: Key) -> bool:
        return key in self._batches

    def __getitem__(self, key: Key) -> Timing:
        return Timing.of(*self._batches[key])

    def median(self, size: int, case: str, threads: str, machine: str = "idle") -> float | None:
        """Gives the median in µs; None if it was not measured or does not run here."""
        key = Key(size, case, threads, machine)
        return self[key].median if key in self else None

    def steady(self, size: int, case: str, threads: str) -> float | None:
        """Gives what a call takes in the long run, in µs; None as for ``median``."""
        key = Key(size, case, threads)
        return self[key].steady if key in self else None

    def write(self, path: Path, about: dict[str, Any]) -> None:
        """Writes all numbers as JSON."""
        path.parent.mkdir(exist_ok=True)
        measured = [key._asdict() | asdict(self[key]) for key in self._batches]
        record = about | {"failures": self.failures, "unit": "µs", "measured": measured}
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
