"""The detector from outside: what it says, learns, refuses, and leaves alone."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from elmgrove import (
    AlarmRule,
    BadInput,
    Detector,
    Evidence,
    FalseAlarmRate,
    FixedThreshold,
    HiddenLayer,
    Mismatch,
    NotAdmissible,
    Scaling,
    Spectrum,
)
from support.factories import trained
from support.snapshots import held

INPUTS = 12
LAYER = HiddenLayer(INPUTS, 4, seed=1)
NAMES = tuple(f"s{column}" for column in range(INPUTS))
SCALING = Scaling.standard([0.5] * INPUTS, [2.0] * INPUTS)
GROSS = np.full(INPUTS, 50.0) * (-1.0) ** np.arange(INPUTS)


def normal(rows: int, seed: int = 0) -> np.ndarray:
    """Rows that three hidden numbers explain, up to a little noise; each seed another pattern."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(3, INPUTS))
    return rng.normal(size=(rows, 3)) @ mixing + 0.1 * rng.normal(size=(rows, INPUTS))


def trained_detector(rows: int = 300, **settings: Any) -> Detector:
    return trained(Detector(LAYER, **settings), normal(rows))


def state(detector: Detector) -> list[Any]:
    """All that a detector holds, as values that can be compared."""
    own, received = detector.evidence, detector.received
    ring, quarantine = detector.gate.recent, detector.quarantine
    sums = [
        ([array.tobytes() for array in e.arrays.values()], e.count) for e in (own, received) if e
    ]
    return [
        sums,
        detector.learned,
        detector.threshold,
        detector.state,
        held(ring),
        quarantine.rows().tobytes(),
        held(detector.events),
    ]


# Observing


def test_observe_gives_the_score_that_score_one_gave_just_before() -> None:
    detector = Detector(LAYER)
    for row in normal(400):
        expected = detector.score_one(row)
        assert detector.observe(row).score == pytest.approx(expected, rel=1e-9)


# Cold start


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        # Nothing need be shown: as few as are enough of rows known to be normal.
        ({"threshold": FalseAlarmRate(0.01, confidence=0)}, 50),
        ({"threshold": FalseAlarmRate(0.05, confidence=0)}, 19),
        ({"threshold": FalseAlarmRate(0.05, confidence=0), "warmup": 50}, 50),
        # The younger half of all rows has the scores that are needed.
        ({"threshold": FixedThreshold(3.0)}, 8),
        ({"threshold": FixedThreshold(3.0), "warmup": 2}, 2),
    ],
    ids=str,
)
def test_it_watches_once_model_and_threshold_have_their_rows(
    settings: dict[str, Any], rows: int
) -> None:
    detector = Detector(LAYER, **settings)
    for index, row in enumerate(normal(rows)):
        assert detector.state == "learning"
        assert detector.rows_missing == rows - index
        assert not detector.observe(row).alarm
    assert detector.state == "watching"
    assert detector.rows_missing == 0
    assert math.isfinite(detector.threshold)
    assert [detector.observe(GROSS).alarm for _ in range(3)] == [False, False, True]


def test_merged_rows_count_for_the_warmup_but_not_for_the_own_scores() -> None:
    other = trained_detector(200)
    fixed = Detector(LAYER, threshold=FixedThreshold(1.0))
    fixed.merge(other.evidence)
    assert fixed.state == "watching"
    rate = Detector(LAYER)
    rate.merge(other.evidence)
    assert rate.state == "learning"


@pytest.mark.parametrize("row", [np.zeros(INPUTS), np.ones(INPUTS)], ids=["zeros", "ones"])
def test_rows_that_are_all_the_same_raise_no_alarm_until_one_differs(row: np.ndarray) -> None:
    detector = Detector(LAYER)
    assert not any(detector.observe(row).anomalous for _ in range(1500))
    assert detector.state == "watching"
    assert detector.observe(row + GROSS).anomalous


# Cooperation


def test_a_little_may_be_left_when_a_lot_is_taken_out() -> None:
    """Fewer rows than hidden units, with the rounding of many rows on them; then more comes."""
    for seed in range(5):
        large, little, detector = Detector(LAYER), Detector(LAYER), trained_detector()
        large.learn_many(normal(50000, seed))
        little.learn_many(normal(2, seed=9))
        detector.merge(large.evidence)
        detector.merge(little.evidence)
        detector.subtract(large.evidence)
        detector.merge(little.evidence)
        expected = trained_detector()
        expected.learn_many(np.vstack([normal(2, seed=9)] * 2))
        rows = normal(320)[300:]
        np.testing.assert_allclose(detector.score_many(rows), expected.score_many(rows), rtol=1e-8)


def test_what_was_never_merged_cannot_be_taken_out() -> None:
    detector, other = trained_detector(), Detector(LAYER)
    other.learn_many(normal(200, seed=5))
    for _ in range(2):
        before = state(detector)
        with pytest.raises(NotAdmissible, match="never merged here"):
            detector.subtract(other.evidence)
        assert state(detector) == before
        detector.merge(trained_detector(100).evidence)


@pytest.mark.parametrize("resolution", [0.0, 1.0])
def test_a_part_that_no_rows_can_have_produced_is_refused_whatever_it_is_added_to(
    resolution: float,
) -> None:
    detector = trained_detector()
    detector.merge(detector.evidence)
    before = state(detector)
    honest = detector.evidence
    # Neither does it help to claim that all of it may be rounding.
    minus = Evidence(
        honest.basis, -0.1 * honest.U, -0.1 * honest.V, -0.1 * honest.energy, -30.0, resolution
    )
    with pytest.raises(NotAdmissible):
        detector.merge(minus)
    with pytest.raises(NotAdmissible):
        detector.set_prior([minus])
    assert state(detector) == before


def test_evidence_is_what_was_learned_here_and_nothing_that_was_received() -> None:
    detector, other = trained_detector(), trained_detector(100)
    own = detector.evidence
    detector.merge(other.evidence)
    assert detector.evidence == own
    detector.observe(normal(301)[300])
    assert detector.evidence.count == 301
    assert detector.received == other.evidence


@pytest.mark.parametrize(
    ("here", "there", "difference"),
    [
        ({}, {"layer": HiddenLayer(INPUTS, 4, seed=2)}, "layer.seed: 1 here, 2 there"),
        ({}, {"layer": HiddenLayer(INPUTS, 5, seed=1)}, "layer.units: 4 here, 5 there"),
        (
            {},
            {"layer": HiddenLayer(INPUTS, 4, "tanh", seed=1)},
            "layer.activation: 'identity' here, 'tanh' there",
        ),
        ({}, {"scaling": SCALING}, "scaling.kind: 'none' here, 'standard' there"),
        (
            {"scaling": Scaling.standard([0.5] * 11 + [0.0], [2.0] * 12)},
            {"scaling": SCALING},
            "scaling.shift[11]: 0.0 here, 0.5 there",
        ),
        ({"features": NAMES}, {}, "features: 12 values here, None there"),
        (
            {"features": NAMES},
            {"features": ("s0", "heat", *NAMES[2:])},
            "features[1]: 's1' here, 'heat' there",
        ),
    ],
    ids=["seed", "units", "activation", "scaling", "bounds", "no names", "names"],
)
def test_evidence_learned_in_another_way_is_refused_and_the_difference_said(
    here: dict[str, Any], there: dict[str, Any], difference: str
) -> None:
    detector = Detector(**{"layer": LAYER, **here})
    other = Detector(**{"layer": LAYER, **there})
    for each in (detector, other):
        each.learn_many(normal(200))
    detector.merge(detector.evidence)
    before = state(detector)

    def assign() -> None:
        detector.set_prior([other.evidence])

    for attempt in (
        lambda: detector.merge(other.evidence),
        lambda: detector.subtract(other.evidence),
        assign,
    ):
        with pytest.raises(Mismatch) as caught:
            attempt()
        assert difference in str(caught.value)
        assert state(detector) == before


# Bad input

BAD: dict[str, Any] = {
    "nan": [math.nan, *[0.0] * 11],
    "infinite": [0.0] * 11 + [math.inf],
    "text": ["warm", *[0.0] * 11],
    "missing": [None, *[0.0] * 11],
    "too narrow": [0.0] * 11,
    "too wide": [0.0] * 13,
    "huge": [1e200, *[0.0] * 11],
    "a table": [[0.0] * 12],
    "a number": 3.0,
}
METHODS: dict[str, Callable[[Detector, Any], object]] = {
    "learn_one": Detector.learn_one,
    "observe": Detector.observe,
    "score_one": Detector.score_one,
    "blame": Detector.blame,
    "learn_many": lambda detector, row: detector.learn_many([*normal(3).tolist(), row]),
    "score_many": lambda detector, row: detector.score_many([*normal(3).tolist(), row]),
}


@pytest.mark.parametrize("scaling", [None, SCALING], ids=["unscaled", "scaled"])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_bad_input_is_refused_and_leaves_everything_as_it_was(
    method: Callable[[Detector, Any], object], bad: Any, scaling: Scaling | None
) -> None:
    detector = trained_detector(scaling=scaling, alarm=AlarmRule(k=2, n=4, cooldown=1))
    detector.merge(trained_detector(100, scaling=scaling).evidence)
    for row in normal(330)[300:]:
        detector.observe(row)
    detector.observe(GROSS)
    before = state(detector)
    with pytest.raises(BadInput):
        method(detector, bad)
    assert state(detector) == before


def test_a_refused_row_is_named_with_its_feature() -> None:
    detector = Detector(LAYER, features=NAMES, scaling=SCALING)
    rows = normal(5)
    rows[3, 7] = math.nan
    with pytest.raises(BadInput, match=r"row 3, column 7 \('s7'\)") as caught:
        detector.learn_many(rows)
    assert (caught.value.row, caught.value.column) == (3, 7)


def test_what_only_scaling_makes_too_large_is_refused_too() -> None:
    detector = Detector(LAYER, scaling=Scaling.standard([0.0] * 12, [1.0] * 11 + [1e-100]))
    with pytest.raises(BadInput, match="row 0, column 11"):
        detector.observe(np.ones(INPUTS))
    assert detector.learned == 0


# Buffers


@pytest.mark.parametrize("scaling", [None, SCALING], ids=["unscaled", "scaled"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_caller_may_use_its_buffer_again(scaling: Scaling | None, dtype: Any) -> None:
    reused, fresh = (trained_detector(scaling=scaling) for _ in range(2))
    buffer = np.empty(INPUTS, dtype)
    rows = normal(340)[300:].astype(dtype)
    rows[::5] += GROSS.astype(dtype)
    for row in rows:
        buffer[:] = row
        verdict = reused.observe(buffer)
        buffer[:] = -9.0
        assert verdict.explain(INPUTS) == fresh.observe(row.copy()).explain(INPUTS)
    assert state(reused) == state(fresh)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_rows_of_the_caller_are_not_changed(
    method: Callable[[Detector, Any], object],
) -> None:
    for row in (normal(1)[0], GROSS.copy(), normal(1)[0].astype(np.float32)):
        before = row.copy()
        row.setflags(write=False)
        method(trained_detector(), row)
        np.testing.assert_array_equal(row, before)


# Times


def test_the_time_of_a_row_is_in_its_verdict() -> None:
    rows = np.random.default_rng(5).normal(size=(40, 3))
    one, many = (Detector(HiddenLayer(inputs=3, units=3), window=4) for _ in range(2))
    times = 1e9 + np.arange(40.0)
    verdicts = [one.observe(row, time) for row, time in zip(rows, times.tolist(), strict=True)]
    assert [verdict.time for verdict in verdicts] == times.tolist()
    assert [verdict.time for verdict in many.observe_many(rows, times)] == times.tolist()
    assert one.observe(rows[0]).time is None
    with pytest.raises(BadInput, match="one finite number of seconds for each of 40 rows"):
        many.observe_many(rows, times[1:])


def test_the_time_of_a_frame_is_that_of_its_last_sample() -> None:
    samples = np.random.default_rng(6).normal(size=(100, 2))
    spectrum = Spectrum(100.0, 16, bands=4)
    detector = Detector(HiddenLayer(inputs=8, units=8), spectrum=spectrum)
    times = np.arange(100.0)
    verdicts = [
        verdict
        for a, b in ((0, 20), (20, 100))
        for verdict in detector.observe_many(samples[a:b], times[a:b])
    ]
    last = [spectrum.length - 1 + spectrum.step * frame for frame in range(len(verdicts))]
    assert [verdict.time for verdict in verdicts] == last
