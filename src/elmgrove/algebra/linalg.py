"""Linear algebra on one row: BLAS without overhead, and solving with U + λI by Cholesky."""

import threading
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpocon, dpotrf, dpotri, dpotrs
from threadpoolctl import LibController, ThreadpoolController

from elmgrove.errors import BadInput, SingularSystem

#: Reads the number of threads of a BLAS, and sets it.
Switch = tuple[Callable[[], int], Callable[[int], Any]]


class OneThread:
    """Keeps BLAS on one thread inside ``with``; may be nested and shared by threads.

    For a matrix of a few hundred kB the second thread costs more than it brings, and where another
    process has the other core, OpenBLAS waits for it: 8 ms instead of 8 µs for one rank-one update.
    threadpoolctl's own context manager takes 28 µs a time, calling the library's switch takes 1.
    The switch is the process's: a product that another thread starts meanwhile runs on one thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._held: list[tuple[Callable[[int], Any], int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._depth:
                self._held = []
                for get, put in _switches():
                    threads = get()
                    if threads != 1:
                        put(1)
                        self._held.append((put, threads))
            self._depth += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                for put, threads in self._held:
                    put(threads)

    def __reduce__(self) -> str:
        """Lets copies, also in another process, be the one that is there."""
        return "one_thread"


@cache
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


#: The machine epsilons of float64, in which everything is computed, and of float32, in which a
#: small device may have added its sums up.
EPSILON, EPSILON_32 = (float(np.finfo(dtype).eps) for dtype in (np.float64, np.float32))

Matrix = NDArray[np.float64]

_CAUSES = (
    "Likely causes: fewer rows than hidden units with ridge 0; inputs that are constant or "
    "copies of each other; columns of very different size (scale them); a ridge far too small "
    "for this data."
)


class Factor:
    """The Cholesky factor of U + λI, from the upper triangle of U, always in float64.

    λ is used as it is: where U + λI has no usable inverse, that is an error.
    """

    def __init__(self, U: NDArray[Any], ridge: float) -> None:
        self.ridge = ridge
        A = np.array(U, np.float64, order="F")
        if not np.isfinite(A[np.triu_indices_from(A)]).all():
            raise SingularSystem("the sums hold values that are not finite; they were not learned")
        A[np.diag_indices_from(A)] += ridge
        # The largest column sum of what only the upper triangle is set of.
        size = np.abs(np.triu(A))
        norm = float((size.sum(axis=0) + size.sum(axis=1) - size.diagonal()).max())
        # A matrix of this size is factored sooner by one thread than by several.
        with one_thread:
            self._C, failed = dpotrf(A, lower=0, clean=0, overwrite_a=1)
            reciprocal = 0.0 if failed else float(dpocon(self._C, norm, uplo="U")[0])
        #: 1 by the condition: of what is solved, the share that rounding leaves is about ε by this.
        self.reciprocal = reciprocal
        if not reciprocal > EPSILON:
            raise SingularSystem(
                f"the system of {len(A)} hidden units with ridge {ridge:g} is singular "
                f"(reciprocal condition {reciprocal:.1e}), though all input was finite. {_CAUSES}"
            )

    def solve(self, B: NDArray[Any]) -> Matrix:
        with one_thread:
            X: Matrix = dpotrs(self._C, B, lower=0)[0]
        return X

    def inverse(self) -> Matrix:
        """Computes (U + λI)⁻¹, of which only the upper triangle may be read."""
        with one_thread:
            P: Matrix = dpotri(self._C, lower=0)[0]
        return P


def visible(largest: float, resolution: float) -> float:
    # Rounding errors in a sum of many rows, in machine epsilons of its largest entry.
    return 32.0 * resolution * largest


def require_ridge(ridge: float) -> None:
    """Raises ``BadInput`` unless the number can serve as ridge λ."""
    if not 0.0 <= ridge < np.inf:
        raise BadInput(f"ridge must be a finite number of at least 0, not {ridge!r}")


def regularized(U: NDArray[Any], ridge: float, resolution: float) -> Factor:
    """Factors U + λI for sums that were rounded to ``resolution``.

    A ridge of 0 stays 0. Another is raised to what rounding leaves visible in U: below that it
    would regularize nothing. That suffices for rows that differ; equal rows round in the same
    direction each time, and then the ridge is raised until it covers the error.
    """
    require_ridge(ridge)
    largest = float(U.diagonal().max())
    raised = max(ridge, visible(largest, resolution)) if ridge > 0 else 0.0
    while True:
        try:
            return Factor(U, raised)
        except SingularSystem:
            # A ridge of that share of the largest entry would hide most of what was learned.
            if not 0.0 < raised < 0.01 * largest:
                raise
            raised *= 4.0


def mirrored(upper: NDArray[Any]) -> NDArray[Any]:
    """Makes the full symmetric matrix of its upper triangle."""
    full: NDArray[Any] = np.triu(upper) + np.triu(upper, 1).T
    return full
