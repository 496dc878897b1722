"""What a person says of anomalous rows: accepted they are normal, rejected never learned."""

import json
from typing import Any

import numpy as np
import pytest

from elmgrove import AlarmRule, Detector, PatternRule
from elmgrove.detector.feedback import Feedback, accept, listed, reject
from elmgrove.detector.history import Span
from elmgrove.detector.state import pack_detector, unpack_detector
from support.factories import detector_for

MINUTE, HOUR = 60.0, 3600.0
# Six deviations of what the other columns leave open of the temperature: towards the old normal.
COOLER = np.array([0.0, 3.4, 0.0, 0.0])
KINDS: dict[str, dict[str, Any]] = {
    "distance": {},
    "patterns": {"patterns": PatternRule()},
    "loss": {"score": "loss"},
}


class Pump:
    """A pump with one load behind all columns but the voltage."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def rows(self, count: int, warmer: float = 0.0) -> np.ndarray:
        load, noise = self.rng.normal(size=count), self.rng.normal(size=(count, 4))
        columns = (1500 + 100 * load, 60 + 5 * load + warmer, 230 + 0 * load, 10 + 2 * load)
        return np.stack(columns, axis=1) + noise * [5.0, 0.5, 1.0, 0.1]


def watching(pump: Pump, **more: Any) -> Detector:
    return detector_for(pump.rows(2000), **{"window": 1, **more})


def changed(pump: Pump, **more: Any) -> tuple[Detector, int]:
    """A detector of a pump that got 15 °C warmer an hour ago, and how many rows came."""
    detector = watching(pump, **more)
    rows = np.vstack([pump.rows(600), pump.rows(600, 15.0)])
    for number, row in enumerate(rows):
        detector.observe(row, number * MINUTE)
    return detector, len(rows)


def again(detector: Detector) -> Detector:
    return unpack_detector(*pack_detector(detector))


def go_on(detector: Detector, pump: Pump, seen: int, rows: int = 600) -> None:
    """Lets rows of the new normal come."""
    for number, row in enumerate(pump.rows(rows, 15.0)):
        detector.observe(row, (seen + number) * MINUTE)


def share_flagged(detector: Detector, rows: np.ndarray) -> float:
    return float(np.mean(detector.score_many(rows) > detector.threshold))


# What waits


def test_what_waits_has_its_time_its_score_and_its_causes() -> None:
    detector = watching(Pump())
    verdict = detector.observe([1500.0, 75.0, 230.0, 10.0], 7.0)
    (waiting,) = detector.quarantine.waiting
    assert (waiting.time, waiting.since, waiting.score) == (7.0, 7.0, verdict.score)
    assert waiting.row.tolist() == verdict.row.tolist()
    (told,) = listed(detector)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["time"], told["score"]) == (7.0, verdict.score)
    assert told["causes"][0]["feature"] == "column 1"
    assert told["causes"][0]["seen"] == pytest.approx(75.0)
    assert len(listed(detector, causes=1)[0]["causes"]) == 1
    assert listed(again(detector)) == [told]


# Accept


@pytest.mark.combinations
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_normal_that_is_accepted_is_normal(kind: str, saved: bool) -> None:
    pump = Pump()
    detector, seen = changed(pump, **KINDS[kind])
    assert detector.state == "changing"
    detector = again(detector) if saved else detector
    waiting, learned = len(detector.quarantine), detector.learned
    told = accept(detector)
    assert (told.action, told.rows, told.taken) == ("accept", waiting, 0)
    assert detector.state == told.state == "watching"
    assert detector.learned == learned + waiting
    assert len(detector.quarantine) == 0
    assert share_flagged(detector, pump.rows(2000, 15.0)) < 0.05
    verdicts = [
        detector.observe(row, (seen + number) * MINUTE)
        for number, row in enumerate(pump.rows(300, 15.0))
    ]
    assert sum(verdict.anomalous for verdict in verdicts) < 20
    assert detector.state == "watching"


def test_with_patterns_the_old_normal_stays_beside_the_new_one() -> None:
    pump = Pump()
    detector, seen = changed(pump, patterns=PatternRule())
    before = len(detector.parts)
    accept(detector)
    assert len(detector.parts) == before + 1
    go_on(detector, pump, seen)
    for warmer in (0.0, 15.0):
        assert share_flagged(detector, pump.rows(500, warmer)) < 0.05


def test_one_model_of_two_normals_is_blunt_and_says_so_and_instead_is_sharp() -> None:
    pump = Pump()
    (blunt, seen), (sharp, _) = changed(pump), changed(Pump())
    told = accept(blunt)
    assert told.blunter is not None
    feature, times = told.blunter
    assert feature == "column 1"
    assert times > 3.0
    assert f"an error of column 1 must be {times:.1f} times as large" in str(told)
    learned = sharp.learned
    told = accept(sharp, instead=True)
    assert told.blunter is None
    assert told.taken == learned
    assert f"all {learned:,} rows learned before were taken out" in str(told)
    assert sharp.evidence.count == told.rows
    assert sharp.state == "watching"
    for detector in (blunt, sharp):
        # As sharp as so few rows let it be, and sharper with each that comes.
        go_on(detector, pump, seen)
    rows = pump.rows(500, 15.0)
    assert share_flagged(blunt, rows - COOLER) < 0.1
    assert share_flagged(sharp, rows - COOLER) > 0.9
    assert share_flagged(sharp, rows) < 0.05
    # And the old normal is what is anomalous now.
    assert share_flagged(sharp, pump.rows(100)) > 0.9


@pytest.mark.parametrize("window", [1, 4])
def test_rows_that_are_given_are_accepted(window: int) -> None:
    pump = Pump()
    detector = watching(pump, window=window)
    X = pump.rows(300, 15.0)
    told = accept(detector, rows=X, times=1e6 + np.arange(300.0))
    assert told.rows == 300 - window + 1
    assert share_flagged(detector, pump.rows(300, 15.0)[window:]) < 0.1
    assert reject(detector, Span(1e6, 2e6)).taken == told.rows
    # What follows the last row of the stream is not what was given.
    assert len(detector.preparation.last_rows) == window - 1


# Reject


def test_rejected_rows_are_dropped_and_what_was_learned_meanwhile_goes() -> None:
    pump = Pump()
    # No event opens, in which nothing would be learned.
    detector = watching(pump, alarm=AlarmRule(k=3, n=3))
    fresh = again(detector)
    rows = pump.rows(200)
    for number, row in enumerate(rows):
        # A fault that comes and goes; what lies below the threshold is learned.
        fault = [0.0, 4.0 * (number % 6 == 0), 0.0, 0.0] if 60 <= number < 120 else [0.0] * 4
        detector.observe(row + fault, number * MINUTE)
    waiting = [one for one in detector.quarantine.waiting if HOUR <= (one.time or 0.0) < 2 * HOUR]
    told = reject(detector, Span(HOUR, 2 * HOUR))
    assert told.rows == len(waiting) >= 9
    assert told.taken == 60 - len(waiting)
    assert told.exact
    for number, row in enumerate(rows):
        if not 60 <= number < 120:
            fresh.observe(row, number * MINUTE)
    assert detector.evidence.close_to(fresh.evidence, 1e-9)


def test_a_rejected_change_is_a_fault_until_rows_are_normal_again() -> None:
    pump = Pump()
    detector = watching(pump)
    for number, row in enumerate(pump.rows(90, 15.0)):
        detector.observe(row, number * MINUTE)
    assert detector.state == "changing"
    reject(detector)
    detector = again(detector)
    for number, row in enumerate(pump.rows(300, 15.0)):
        detector.observe(row, (90 + number) * MINUTE)
    assert detector.state == "changing"
    assert detector.quarantine.rejected
    for number, row in enumerate(pump.rows(600)):
        detector.observe(row, (390 + number) * MINUTE)
    assert detector.state == "watching"
    assert not detector.quarantine.rejected


def test_inputs_with_one_row_in_the_span_are_dropped_as_well() -> None:
    pump = Pump()
    detector = watching(pump, window=5)
    rows = pump.rows(40)
    rows[10:30] += [0.0, 100.0, 0.0, 0.0]
    for number, row in enumerate(rows):
        detector.observe(row, number * MINUTE)
    times = [one.time for one in detector.quarantine.waiting]
    assert times == [number * MINUTE for number in range(10, 34)]
    told = reject(detector, Span(25 * MINUTE, 30 * MINUTE))
    assert told.rows == 9
    assert [one.time for one in detector.quarantine.waiting] == times[:15]


def test_feedback_is_told_in_words_and_in_fields() -> None:
    told = Feedback("reject", 1, 2, False, 0.0, 3599.0, "watching", 2.5)
    assert str(told) == (
        "1 row was dropped, never to be learned; 2 rows learned were taken out by whole increments,"
        " from 1970-01-01 00:00:00 UTC to 1970-01-01 00:59:59 UTC. "
        "Now watching, anomalous above 2.5."
    )
    assert json.loads(json.dumps(told.fields, allow_nan=False)) == told.fields
    told = Feedback("accept", 3, 0, True, None, None, "learning", None)
    assert str(told) == "3 rows were learned as a new normal. Now learning."


def test_a_few_accepted_rows_that_raise_the_threshold_are_told() -> None:
    pump = Pump()
    detector = Detector.for_data(pump.rows(600))
    detector.observe_many(pump.rows(4000))
    detector.observe_many(pump.rows(60, warmer=40.0))
    before = detector.threshold
    told = accept(detector)
    assert told.rows > 10
    assert told.state == "watching"
    assert told.raised == before
    assert f"({before:.3g} before: smaller faults pass)" in str(told)
    assert accept(detector).raised is None
