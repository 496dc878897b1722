"""Thrift of the tests' processes: no threads without a core, no search for garbage in tests."""

import gc
import os
from collections.abc import Iterator

import pytest

# With a process for each core, a second thread of BLAS waits for the core of another process, and
# keeps its own busy with waiting. This is loaded before NumPy; processes that tests start inherit
# it, and what is set already stays.
if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
    for _library in ("OPENBLAS", "OMP"):
        os.environ.setdefault(f"{_library}_NUM_THREADS", "1")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Collects tests, thousands of objects that stay: no search for garbage looks through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
