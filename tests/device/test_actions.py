"""What can be asked of a device, without an agent."""

import numpy as np
import pytest

from elmgrove import BadInput, Detector
from elmgrove.device.actions import perform
from elmgrove.federation import Member


def test_times_without_rows_are_refused_and_nothing_is_learned() -> None:
    X = np.random.default_rng(0).normal(size=(600, 3))
    detector = Detector.for_data(X, window=1)
    detector.learn_many(X)
    detector.observe_many(X[:20] + 30.0)
    member = Member("fan", detector)
    waiting = len(detector.quarantine)
    assert waiting
    with pytest.raises(BadInput, match="times are those of rows"):
        perform(member, "accept", {"times": [1]})
    assert len(member.detector.quarantine) == waiting
