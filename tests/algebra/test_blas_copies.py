"""What holds the switch of BLAS's threads can be copied and sent to another process."""

import copy
import pickle

import numpy as np

from elmgrove import Detector, HiddenLayer
from elmgrove.algebra.linalg import one_thread
from support.factories import trained


def test_a_copy_of_the_switch_is_the_switch() -> None:
    assert copy.deepcopy(one_thread) is one_thread
    assert pickle.loads(pickle.dumps(one_thread)) is one_thread


def test_a_detector_so_large_that_it_needs_the_switch_can_be_copied() -> None:
    rows = np.random.default_rng(1).normal(size=(40, 128))
    detector = trained(Detector(HiddenLayer(128, 64)), rows)
    for twin in (copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))):
        assert twin.observe(rows[0]).score == detector.score_one(rows[0])
