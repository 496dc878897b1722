"""Times of single calls, and a summary of many of them."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A call to time, and a function that makes its argument, which is not timed."""

    argument: Callable[[], Any]
    call: Callable[[Any], object]


def batch(case: Case, seconds: float) -> list[float]:
    """Times a call again and again for so many seconds, after one to warm the caches; in µs."""
    case.call(case.argument())
    times: list[float] = []
    end = perf_counter_ns() + seconds * 1e9
    while not times or perf_counter_ns() < end:
        argument = case.argument()
        start = perf_counter_ns()
        case.call(argument)
        times.append((perf_counter_ns() - start) / 1e3)
    return times


@dataclass(frozen=True)
class Timing:
    """Median, 99th percentile and mean of many calls, in µs.

    ``steady`` is the median of the batches' means. Work that many calls share, and one of them
    does, is in it; what the machine did only once is not.
    """

    median: float
    p99: float
    mean: float
    steady: float
    calls: int

    @classmethod
    def of(cls, *batches: list[float]) -> "Timing":
        """Summarizes the times of one batch, or of several."""
        times = np.concatenate(batches)
        median, p99 = np.percentile(times, [50, 99])
        steady = np.median([np.mean(batch) for batch in batches])
        return cls(float(median), float(p99), float(times.mean()), float(steady), len(times))
