"""Anomalous rows wait, bounded, until somebody accepts or rejects them."""

from typing import Any

import numpy as np
import pytest

from elmgrove import BadInput, Detector, FalseAlarmRate, HiddenLayer
from elmgrove.detector.feedback import accept, reject
from elmgrove.detector.quarantine import Quarantine
from support.factories import trained

INPUTS = 12
LAYER = HiddenLayer(INPUTS, 4, seed=1)
SOON = FalseAlarmRate(0.01, confidence=0)
KINDS: dict[str, dict[str, Any]] = {
    "distance": {"layer": HiddenLayer(INPUTS, INPUTS)},
    "distance with few units": {"layer": LAYER},
    "loss": {"layer": LAYER, "score": "loss"},
}


class World:
    """Normal rows of three hidden numbers, a new pattern of one, and noise of none."""

    def __init__(self, seed: int = 0, kind: str = "distance") -> None:
        self.kind = kind
        self.rng = np.random.default_rng(seed)
        self._mixing = self.rng.normal(size=(3, INPUTS))
        self._direction = 3.0 * self.rng.normal(size=INPUTS)

    def normal(self, rows: int) -> np.ndarray:
        return self.rng.normal(size=(rows, 3)) @ self._mixing + self._jitter(rows)

    def new(self, rows: int) -> np.ndarray:
        return self.rng.uniform(2, 3, size=(rows, 1)) * self._direction + self._jitter(rows)

    def noise(self, rows: int) -> np.ndarray:
        return 10.0 * self.rng.normal(size=(rows, INPUTS))

    def _jitter(self, rows: int) -> np.ndarray:
        return 0.1 * self.rng.normal(size=(rows, INPUTS))


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest) -> World:
    return World(kind=request.param)


def watching(world: World, **settings: Any) -> Detector:
    settings = {"threshold": SOON, **KINDS[world.kind], **settings}
    return trained(Detector(**settings), world.normal(1000))


def flagged(detector: Detector, rows: np.ndarray) -> float:
    return float(np.mean(detector.score_many(rows) > detector.threshold))


# What waits


def test_anomalous_rows_wait_and_normal_ones_do_not(world: World) -> None:
    detector = watching(world)
    anomalous = world.noise(5)
    for row in anomalous:
        detector.observe(row)
        detector.observe(0.5 * world.normal(1)[0])
    np.testing.assert_array_equal(detector.quarantine.rows(), anomalous)


def test_only_the_last_ones_are_kept(world: World) -> None:
    detector = watching(world, quarantine=8)
    anomalous = world.noise(50)
    for row in anomalous:
        detector.observe(row)
    assert len(detector.quarantine) == detector.quarantine.capacity == 8
    np.testing.assert_array_equal(detector.quarantine.rows(), anomalous[-8:])


def test_an_empty_quarantine_has_no_rows(world: World) -> None:
    assert watching(world).quarantine.rows().shape == (0, INPUTS)


# What the user does


def test_promoted_rows_are_learned_and_their_like_is_normal_from_then_on(world: World) -> None:
    detector = watching(world)
    rows = world.new(40)
    assert all(detector.observe(row).anomalous for row in rows)
    assert flagged(detector, world.new(200)) > 0.95
    both = Detector(**KINDS[world.kind])
    both.model.merge(detector.evidence)
    both.learn_many(rows)
    assert accept(detector).rows == 40
    assert detector.evidence.close_to(both.evidence)
    assert len(detector.quarantine) == 0
    assert flagged(detector, rows) < 0.1
    assert flagged(detector, world.new(200)) < 0.1
    assert flagged(detector, world.noise(200)) > 0.95


def test_promoting_nothing_changes_nothing(world: World) -> None:
    detector = watching(world)
    before, threshold = detector.evidence, detector.threshold
    assert accept(detector).rows == 0
    assert detector.evidence == before
    assert detector.threshold == threshold


def test_dropped_rows_leave_no_trace(world: World) -> None:
    detector = watching(world)
    before = detector.evidence
    for row in world.new(40):
        detector.observe(row)
    reject(detector)
    assert accept(detector).rows == 0
    assert detector.evidence == before
    assert flagged(detector, world.new(200)) > 0.95


# Settings and copies


@pytest.mark.parametrize("capacity", [0, -1])
def test_sizes_that_make_no_sense_are_refused(capacity: int) -> None:
    with pytest.raises(BadInput, match="quarantine"):
        Quarantine(INPUTS, capacity)


def test_it_keeps_its_own_copy_of_a_row() -> None:
    quarantine, buffer = Quarantine(2, 4), np.array([1.0, 2.0])
    quarantine.add(buffer)
    buffer[:] = 9.0
    assert quarantine.rows().tolist() == [[1.0, 2.0]]
