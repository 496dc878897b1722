"""A process of its own for each number of BLAS threads, since that is settled at its start."""

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from benchmarks import own, verdicts
from benchmarks.clock import Case, batch
from benchmarks.peers import PEERS

_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
GROUPS: dict[str, Callable[[int], dict[str, Case]]] = {
    "one row": own.one_row,
    "bulk": own.bulk,
    "merging": own.merging,
    "observing": verdicts.observing,
    "scoring": verdicts.scoring,
    **PEERS,
}


class Worker:
    """Runs cases in a process with one BLAS thread, or with as many as users get by default."""

    def __init__(self, threads: str) -> None:
        self.threads = threads
        self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        with _environment({} if threads == "default" else dict.fromkeys(_VARIABLES, threads)):
            self._pool.submit(_forget).result()

    def prepare(self, group: str, size: int) -> list[str]:
        """Prepares a group of cases and gives their names."""
        return self._pool.submit(_prepare, group, size).result()

    def time(self, name: str, seconds: float) -> list[float]:
        """Times one case for so many seconds: µs of each call."""
        return self._pool.submit(_time, name, seconds).result()

    def forget(self) -> None:
        """Drops all cases and their memory."""
        self._pool.submit(_forget).result()

    def close(self) -> None:
        """Ends the process."""
        self._pool.shutdown()


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Sets these variables for BLAS threads and no others, for a process that starts now."""
    before = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]
        os.environ.update(before)


# In the process itself

_cases: dict[str, Case] = {}


def _prepare(group: str, size: int) -> list[str]:
    made = GROUPS[group](size)
    for case in made.values():
        batch(case, 0.0)
    _cases.update(made)
    # What exists by now is no longer searched for garbage: such searches take milliseconds.
    gc.freeze()
    return list(made)


def _time(name: str, seconds: float) -> list[float]:
    return batch(_cases[name], seconds)


def _forget() -> None:
    _cases.clear()
    gc.unfreeze()
    gc.collect()
