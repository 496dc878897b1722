"""One BLAS thread inside, whatever it was before outside."""

import copy
import pickle
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from elmgrove import Detector, HiddenLayer
from elmgrove.algebra.linalg import one_thread
from support.factories import trained


def threads() -> int:
    """Of the BLAS that SciPy calls: its own, or the system's."""
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    own = [library for library in found if "scipy" in library["filepath"]]
    return {library["num_threads"] for library in own or found}.pop()


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """So that there is something to restore, on a machine with one core too."""
    with threadpool_limits(2, user_api="blas"):
        assert threads() == 2
        yield


def test_the_number_found_is_restored_not_the_number_of_the_first_time() -> None:
    with one_thread:
        pass
    with threadpool_limits(3, user_api="blas"):
        with one_thread:
            assert threads() == 1
        assert threads() == 3


def test_it_may_be_nested() -> None:
    with one_thread:
        with one_thread:
            assert threads() == 1
        assert threads() == 1
    assert threads() == 2


def test_an_error_inside_passes_through_and_the_threads_come_back() -> None:
    with pytest.raises(ZeroDivisionError), one_thread, one_thread:
        _ = 1 / 0
    assert threads() == 2


def test_it_may_be_shared_by_threads() -> None:
    start = threading.Barrier(8)
    seen: list[int] = []

    def work(hold: threading.Event) -> None:
        start.wait(timeout=30)
        for _ in range(50):
            with one_thread:
                seen.append(threads())
        with one_thread:
            hold.wait(timeout=30)
            seen.append(threads())

    hold = threading.Event()
    workers = [threading.Thread(target=work, args=(hold,)) for _ in range(8)]
    for worker in workers:
        worker.start()
    hold.set()
    for worker in workers:
        worker.join(timeout=60)
    assert seen == [1] * (8 * 51)
    assert threads() == 2


def test_a_copy_of_the_switch_is_the_switch() -> None:
    assert copy.deepcopy(one_thread) is one_thread
    assert pickle.loads(pickle.dumps(one_thread)) is one_thread


def test_a_detector_so_large_that_it_needs_the_switch_can_be_copied() -> None:
    rows = np.random.default_rng(1).normal(size=(40, 128))
    detector = trained(Detector(HiddenLayer(128, 64)), rows)
    for twin in (copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))):
        assert twin.observe(rows[0]).score == detector.score_one(rows[0])
