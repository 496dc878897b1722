"""Direct BLAS calls for work on one row, without the overhead of NumPy and of threads."""

import threading
from collections.abc import Callable
from itertools import product
from types import TracebackType
from typing import Any

import numpy as np
from scipy.linalg.blas import get_blas_funcs, idamax, isamax
from threadpoolctl import LibController, ThreadpoolController

#: Reads the number of threads of a BLAS, and sets it.
Switch = tuple[Callable[[], int], Callable[[int], Any]]


class Blas:
    """BLAS routines for float64 or float32; of symmetric matrices they use the upper triangle.

    Can be copied and pickled, which Fortran objects themselves can't.
    """

    dot: Callable[..., float]
    axpy: Callable[..., Any]
    gemv: Callable[..., Any]
    symv: Callable[..., Any]
    syr: Callable[..., Any]
    syrk: Callable[..., Any]
    gemm: Callable[..., Any]

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        names = tuple(Blas.__annotations__)
        self.__dict__.update(zip(names, get_blas_funcs(names, dtype=dtype), strict=True))
        #: Finds the place of the value that is largest in size.
        self.largest: Callable[..., int] = isamax if dtype == np.float32 else idamax

    def __reduce__(self) -> tuple[type["Blas"], tuple[np.dtype[Any]]]:
        return Blas, (self._dtype,)


class OneThread:
    """Keeps BLAS on one thread inside ``with``; may be nested and shared by threads.

    For a matrix of a few hundred kB the second thread costs more than it brings, and where
    another process has the other core, OpenBLAS waits for it: 8 ms instead of 8 µs for one
    rank-one update. threadpoolctl finds the library; its own context manager takes 28 µs a
    time, calling the library's switch takes 1. The switch is the process's, not the thread's:
    a large product that another thread starts within these microseconds runs on one thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._switches: list[Switch] = []
        self._held: list[tuple[Callable[[int], Any], int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._depth:
                held = []
                for get, put in self._switches or self._found():
                    threads = get()
                    if threads != 1:
                        put(1)
                        held.append((put, threads))
                self._held = held
            self._depth += 1

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                for put, threads in self._held:
                    put(threads)

    def _found(self) -> list[Switch]:
        # At the first use: looking for the library takes a while.
        self._switches = _switches()
        return self._switches

    def __reduce__(self) -> str:
        """Lets copies, also in another process, be the one that is there."""
        return "one_thread"


def _switches() -> list[Switch]:
    """How to read and set the number of threads of the BLAS that SciPy calls."""
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    # Wheels of SciPy bring a BLAS of their own; elsewhere SciPy and NumPy share the system's.
    own = [library for library in found if "scipy.libs" in library.filepath]
    return [_switch(library) for library in own or found]


def _switch(library: LibController) -> Switch:
    """The C functions themselves where they have a known name: a fifth of the time."""
    for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64")):
        get, put = (
            getattr(library.dynlib, f"{prefix}openblas_{verb}_num_threads{suffix}", None)
            for verb in ("get", "set")
        )
        if get is not None and put is not None:
            return get, put
    return library.get_num_threads, library.set_num_threads


#: Lets BLAS use one thread inside ``with``; a copy of it is itself.
one_thread = OneThread()
