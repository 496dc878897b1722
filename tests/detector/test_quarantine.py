"""Anomalous rows wait, bounded, until they are promoted into the model or dropped."""

from typing import Any

import numpy as np
import pytest

from elmgrove import BadInput, Detector, FalseAlarmRate, HiddenLayer, PatternRule, Scaling
from elmgrove.detector.quarantine import Quarantine
from support.factories import trained
from support.laws import law_seeds

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
    np.testing.assert_array_equal(detector.quarantine.rows(last=3), anomalous[-3:])


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
    assert detector.promote() == 40
    assert detector.evidence.close_to(both.evidence)
    assert len(detector.quarantine) == 0
    assert flagged(detector, rows) < 0.1
    assert flagged(detector, world.new(200)) < 0.1
    assert flagged(detector, world.noise(200)) > 0.95


def test_promoting_nothing_changes_nothing(world: World) -> None:
    detector = watching(world)
    before, threshold = detector.evidence, detector.threshold
    assert detector.promote() == 0
    assert detector.evidence == before
    assert detector.threshold == threshold


def test_dropped_rows_leave_no_trace(world: World) -> None:
    detector = watching(world)
    before = detector.evidence
    for row in world.new(40):
        detector.observe(row)
    detector.quarantine.clear()
    assert detector.promote() == 0
    assert detector.evidence == before
    assert flagged(detector, world.new(200)) > 0.95


# The rule


def test_by_default_nothing_is_promoted_by_itself(world: World) -> None:
    detector = watching(world)
    assert detector.quarantine.promote_after is None
    assert not any(detector.observe(row).promoted for row in world.new(600))


def test_the_rule_promotes_a_new_pattern_once_there_are_enough_in_a_row(world: World) -> None:
    detector = watching(world, promote_after=20)
    promoted = [detector.observe(row).promoted for row in world.new(20)]
    assert not any(promoted[:-1])
    assert promoted[-1] >= 18
    assert detector.learned == 1000 + promoted[-1]
    assert flagged(detector, world.new(200)) < 0.1
    assert flagged(detector, world.noise(200)) > 0.95


def test_a_normal_row_in_between_starts_the_count_again(world: World) -> None:
    detector = watching(world, promote_after=20)
    for _ in range(10):
        for row in world.new(19):
            assert detector.observe(row).promoted == 0
        assert not detector.observe(0.1 * world.normal(1)[0]).anomalous


@pytest.mark.combinations
@pytest.mark.parametrize("promote_after", [2, 5, 20, 100])
@pytest.mark.parametrize("seed", law_seeds(2))
@pytest.mark.parametrize("kind", KINDS)
def test_the_rule_never_promotes_independent_noise(
    promote_after: int, seed: int, kind: str
) -> None:
    world = World(seed, kind)
    detector = watching(world, promote_after=promote_after)
    verdicts = [detector.observe(row) for row in world.noise(200)]
    assert all(verdict.anomalous for verdict in verdicts)
    assert not any(verdict.promoted for verdict in verdicts)


def test_the_rule_promotes_the_run_and_not_what_waited_before(world: World) -> None:
    detector = watching(world, promote_after=20)
    for row in world.noise(100):
        detector.observe(row)
        detector.observe(0.1 * world.normal(1)[0])
    promoted = sum(detector.observe(row).promoted for row in world.new(20))
    assert 0 < promoted <= 20
    assert len(detector.quarantine) >= 100
    assert flagged(detector, world.noise(200)) > 0.95


@pytest.mark.parametrize("share", [0.2, 0.3])
def test_noise_within_a_new_pattern_is_not_promoted_with_it(world: World, share: float) -> None:
    detector = watching(world, promote_after=20)
    promoted = 0
    for row in world.new(120):
        anomalous = world.noise(1)[0] if world.rng.random() < share else row
        promoted += detector.observe(anomalous).promoted
    assert promoted > 0
    assert flagged(detector, world.noise(200)) > 0.95
    assert flagged(detector, world.new(200)) < 0.2


# A new normal by distance: typical of itself, and no wider than what is known


@pytest.mark.combinations
@pytest.mark.parametrize("seed", law_seeds(5))
@pytest.mark.parametrize("promote_after", [10, 20, 60])
@pytest.mark.parametrize("scaled", [False, True])
def test_another_operating_point_is_promoted(seed: int, promote_after: int, scaled: bool) -> None:
    world = World(seed)
    scaling = Scaling.fitted("standard", world.normal(200)) if scaled else None
    detector = watching(world, promote_after=promote_after, scaling=scaling)
    shift = 8.0 * world.rng.normal(size=INPUTS)
    verdicts = [detector.observe(row) for row in world.normal(promote_after) + shift]
    assert all(verdict.anomalous for verdict in verdicts)
    assert verdicts[-1].promoted >= 0.6 * promote_after


@pytest.mark.combinations
@pytest.mark.parametrize("seed", law_seeds(5))
@pytest.mark.parametrize("times", [5.0, 20.0])
@pytest.mark.parametrize("promote_after", [10, 20, 60])
def test_what_merely_moves_more_is_not_promoted(
    seed: int, times: float, promote_after: int
) -> None:
    """It is typical of itself, and would make everything normal."""
    world = World(seed)
    detector = watching(world, promote_after=promote_after)
    rows = times * world.normal(120) + world.rng.normal(size=(120, INPUTS))
    assert not any(detector.observe(row).promoted for row in rows)


@pytest.mark.parametrize("seed", law_seeds(5))
def test_with_windows_a_new_normal_is_promoted_once_there_are_windows_enough(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def slow(rows: int) -> np.ndarray:
        noise = rng.normal(size=(rows + 50, 2))
        smooth = np.array([np.convolve(column, np.ones(8) / 8.0, "valid") for column in noise.T])
        return smooth.T[:rows] + 0.1 * rng.normal(size=(rows, 2))

    detector = Detector(HiddenLayer(2, 20), window=10, promote_after=20, threshold=SOON)
    detector.learn_many(slow(3000))
    shifted = slow(400) + np.array([6.0, -6.0])
    promoted = [detector.observe(row).promoted for row in shifted]
    # Within fewer windows no block could be left out.
    assert not any(promoted[:48])
    assert sum(promoted) >= 30
    assert np.mean(detector.score_many(shifted[9:]) > detector.threshold) < 0.1
    wild = Detector(HiddenLayer(2, 20), window=10, promote_after=20, threshold=SOON)
    wild.learn_many(slow(3000))
    assert not any(wild.observe(row).promoted for row in 30.0 * rng.normal(size=(200, 2)))


@pytest.mark.parametrize("score", ["distance", "loss"])
def test_with_patterns_a_new_normal_is_a_pattern_and_noise_is_not(score: str) -> None:
    world = World(3)
    layer = HiddenLayer(INPUTS, 4, seed=1)
    detector = Detector(
        layer, score=score, patterns=PatternRule(), promote_after=20, threshold=SOON
    )
    both = np.vstack([world.normal(600), world.normal(600) + 9.0])
    detector.learn_many(world.rng.permutation(both))
    before = len(detector.parts)
    assert not any(detector.observe(row).promoted for row in world.noise(60))
    detector.observe(0.1 * world.normal(1)[0])
    assert sum(detector.observe(row).promoted for row in world.new(20)) >= 12
    assert len(detector.parts) == before + 1


# Settings and copies


@pytest.mark.parametrize(("capacity", "after"), [(0, None), (-1, None), (8, 1), (8, 0), (8, 9)])
def test_sizes_that_make_no_sense_are_refused(capacity: int, after: int | None) -> None:
    with pytest.raises(BadInput, match=r"quarantine|promote_after"):
        Quarantine(INPUTS, capacity, after)


def test_it_keeps_its_own_copy_of_a_row() -> None:
    quarantine, buffer = Quarantine(2, 4, None), np.array([1.0, 2.0])
    quarantine.add(buffer)
    buffer[:] = 9.0
    assert quarantine.rows().tolist() == [[1.0, 2.0]]
