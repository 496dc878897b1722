"""A detector that was packed and unpacked goes on as if nothing had happened."""

import json
from typing import Any

import numpy as np
import pytest

from elmgrove import (
    AlarmRule,
    Detector,
    FalseAlarmRate,
    FixedThreshold,
    HiddenLayer,
    Scaling,
    Verdict,
)
from elmgrove.detector.state import pack_detector, unpack_detector
from support.factories import trained

LAYER = HiddenLayer(inputs=6, units=3, seed=3)
MIXING = np.random.default_rng(0).normal(size=(2, 6))


def normal_rows(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 2)) @ MIXING + 0.3 * rng.normal(size=(count, 6))


def anomalous_rows(seed: int, count: int) -> np.ndarray:
    return normal_rows(seed, count) + np.array([5.0, -5.0, 5.0, -5.0, 5.0, -5.0])


def stream(seed: int, count: int) -> np.ndarray:
    """Normal rows, and after a while a run of anomalous ones every now and then."""
    rows = normal_rows(seed, count)
    for start in range(130, count, 90):
        rows[start : start + 7] = anomalous_rows(seed + start, len(rows[start : start + 7]))
    return rows


def unpacked(detector: Detector) -> Detector:
    """Through JSON, as every file does."""
    fields, arrays = pack_detector(detector)
    return unpack_detector(json.loads(json.dumps(fields)), arrays)


def packed_bytes(detector: Detector) -> object:
    fields, arrays = pack_detector(detector)
    return fields, {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}


def result(verdict: Verdict) -> tuple[object, ...]:
    told = (verdict.alarm, verdict.event)
    return verdict.anomalous, verdict.learned, told, verdict.state


def assert_go_on_alike(one: Detector, other: Detector, rows: np.ndarray, to: float = 1e-9) -> None:
    for row in rows:
        assert one.threshold == pytest.approx(other.threshold, rel=to)
        a, b = one.observe(row), other.observe(row)
        assert a.score == pytest.approx(b.score, rel=to)
        assert result(a) == result(b)
    assert one.learned == other.learned
    assert one.evidence.close_to(other.evidence, 10 * to)
    assert len(one.quarantine) == len(other.quarantine)


# What each of them must keep shows in the rows after the cut only if it is at work by then.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "forgetting": {"forgetting": 0.99},
    "names and standard scaling": {
        "features": list("abcdef"),
        "scaling": Scaling.fitted("standard", normal_rows(9, 50)),
    },
    "min-max scaling": {"scaling": Scaling.minmax([-3] * 6, [4] * 6)},
    "no ridge to speak of": {"ridge": 1e-6},
    "5 % false alarms, many near_misses": {"threshold": FalseAlarmRate(0.05)},
    "fixed threshold": {"threshold": FixedThreshold(2.0)},
    "alarm rule with a cool-down": {"alarm": AlarmRule(k=2, n=4, cooldown=150)},
    "loss": {"score": "loss"},
    "no confidence asked for": {"threshold": FalseAlarmRate(0.05, confidence=0)},
    "a window": {"window": 4},
    "a window by loss": {"window": 4, "score": "loss"},
    "small quarantine": {"quarantine": 3},
    "long warm-up": {"warmup": 700},
}


@pytest.mark.combinations
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("cut", [45, 134, 625])
def test_an_unpacked_detector_goes_on_as_the_original(name: str, cut: int) -> None:
    """The cuts: still learning; in a run of anomalous rows; when the first rows were dropped."""
    rows = stream(1, 1000)
    original = Detector(LAYER, **SETTINGS[name])
    for row in rows[:cut]:
        original.observe(row)
    restored = unpacked(original)
    assert packed_bytes(restored) == packed_bytes(original)
    assert_go_on_alike(original, restored, rows[cut : cut + 350])


@pytest.mark.parametrize("rows", [0, 1, 98, 99, 600])
def test_a_detector_taught_in_one_go_is_the_same_afterwards(rows: int) -> None:
    """Whether it was learning or watching, and however old its distance was."""
    original = trained(Detector(LAYER), normal_rows(1, rows))
    restored = unpacked(original)
    assert packed_bytes(restored) == packed_bytes(original)
    assert restored.state == original.state
    assert_go_on_alike(original, restored, stream(2, 200))


def test_packing_changes_nothing_and_shares_nothing() -> None:
    detector = trained(Detector(LAYER), normal_rows(1, 120))
    before = packed_bytes(detector)
    fields, arrays = pack_detector(detector)
    restored = unpack_detector(fields, arrays)
    restored.learn_many(normal_rows(2, 50))
    restored.quarantine.add(np.ones(6))
    assert packed_bytes(detector) == before
