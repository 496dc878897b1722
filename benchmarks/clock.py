"""Times of single calls, and what to say about many of them."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """Something to time: ``call`` is, ``argument``, which makes what it is given, is not."""

    argument: Callable[[], Any]
    call: Callable[[Any], object]


def batch(case: Case, seconds: float) -> list[float]:
    """µs of each call, one call after another for so long; the first only warms the caches."""
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
    """Median, 99th percentile and mean of many calls, in µs."""

    median: float
    p99: float
    mean: float
    calls: int

    @classmethod
    def of(cls, times: list[float]) -> "Timing":
        """The summary of these times."""
        median, p99 = np.percentile(times, [50, 99])
        return cls(float(median), float(p99), float(np.mean(times)), len(times))
