"""What an agent does by itself about a change: it fits afterwards, and still finds faults."""

from collections.abc import Callable

import numpy as np
import pytest

from elmgrove import Detector, PatternRule
from elmgrove.detector.decision import WATCHING
from elmgrove.device.drift_response import ADAPTING, DriftResponse
from elmgrove.device.output import Observation, StateLog
from elmgrove.errors import BadInput
from elmgrove.federation.member import Member
from support.laws import law_seeds
from support.pumps import SIGMA, START, STEP, TEMP, pump_detector, pump_rows

CHANGE_AT, FAULT_AT, END = 300, 2800, 2860


def life(seed: int, warmer: float = 15.0) -> np.ndarray:
    """A pump that is warmer from a row on, for good, and at last 6 residual σ too cold."""
    X = pump_rows(END, seed + 50)
    X[CHANGE_AT:, TEMP] += warmer
    X[FAULT_AT:, TEMP] -= 6.0 * SIGMA
    return X


def lived(member: Member, on_change: str, X: np.ndarray, first: int = 0) -> np.ndarray:
    """Lets an agent's parts follow the rows; marks those that are anomalous."""
    log = StateLog(member.detector)
    response = None if on_change == "ask" else DriftResponse(on_change, member)
    anomalous = np.zeros(len(X), bool)
    for row, x in enumerate(X):
        verdict = member.detector.observe(x, START + STEP * (first + row))
        log.observe(Observation(member, None, verdict, ()))
        if response is not None:
            response.follow(verdict.drift)
        anomalous[row] = verdict.anomalous
    return anomalous


def patterned(seed: int) -> Detector:
    return pump_detector(seed, window=1, patterns=PatternRule())


def alone(seed: int) -> Detector:
    return pump_detector(seed, window=1)


@pytest.mark.combinations
@pytest.mark.parametrize("seed", law_seeds(3))
@pytest.mark.parametrize(
    ("on_change", "made", "warmer"),
    # Patterns are far apart compared with their width.
    [("adapt", alone, 15.0), ("pattern", patterned, 100.0), ("relearn", alone, 15.0)],
)
def test_rows_are_normal_again_and_a_fault_is_found(
    on_change: str, made: Callable[[int], Detector], warmer: float, seed: int
) -> None:
    member = Member("pump", made(seed))
    anomalous = lived(member, on_change, life(seed, warmer))
    assert anomalous[CHANGE_AT + 5 : CHANGE_AT + 40].mean() > 0.9
    # A day later, at the stated 1 %.
    assert anomalous[FAULT_AT - 800 : FAULT_AT].mean() < 0.04
    # Its first rows: one that stays is adapted to as well. A threshold that counting could not
    # decide about lies a little higher.
    assert anomalous[FAULT_AT : FAULT_AT + 40].mean() > 0.8


def test_a_drift_is_followed() -> None:
    """Not for ever: the next stretch of it is told again, and followed again."""
    X = pump_rows(6000, 60)
    X[CHANGE_AT:, TEMP] += 0.003 * np.arange(len(X) - CHANGE_AT)
    asked, followed = (
        lived(Member("pump", alone(0)), on_change, X)[-2000:] for on_change in ("ask", "adapt")
    )
    assert asked.mean() > 0.9
    assert followed.mean() < 0.3


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("sigmas", "every"), [(30.0, 300), (300.0, 300), (300.0, 500)])
def test_rows_at_a_switch_are_not_what_a_threshold_comes_from(
    sigmas: float, every: int, seed: int
) -> None:
    """A device that adapts learns all rows, also the first ones of another regime."""
    X = pump_rows(4000, seed + 50)
    row = np.arange(len(X))
    X[(row >= CHANGE_AT) & ((row - CHANGE_AT) // every % 2 == 0), TEMP] += sigmas * SIGMA
    member = Member("pump", alone(seed))
    log, response = StateLog(member.detector), DriftResponse("adapt", member)
    gate, times = member.detector.gate, list[float]()
    for number, x in enumerate(X):
        verdict = member.detector.observe(x, START + STEP * number)
        log.observe(Observation(member, None, verdict, ()))
        response.follow(verdict.drift)
        if member.detector.state == WATCHING:
            times.append(gate.limit() / gate.recent.median)
    assert len(times) > CHANGE_AT + 300
    assert max(times) < 20.0


def test_what_others_get_is_what_is_left() -> None:
    """The sums of an adapting device are those of rows with weights: no fewer, none twice."""
    member = Member("pump", alone(0))
    member.offer()
    lived(member, "adapt", life(0)[:FAULT_AT])
    assert ADAPTING not in member.notes
    assert member.detector.state == WATCHING
    now = member.contribution()
    assert now.parts[0].admissible()
    levels = now.parts[0].levels  # type: ignore[attr-defined]
    # Next to nothing is left of 2,300 rows at 50 °C.
    assert levels.mean[TEMP] == pytest.approx(65.0, abs=2.0)
    assert now.parts[0].count < FAULT_AT - CHANGE_AT


def test_a_restart_goes_on_adapting() -> None:
    cut, X = CHANGE_AT + 200, life(0)
    member = Member("pump", alone(0))
    lived(member, "adapt", X[:cut])
    assert ADAPTING in member.notes
    again = Member.from_bytes(member.to_bytes())
    anomalous = lived(again, "adapt", X[cut:], cut)
    assert ADAPTING not in again.notes
    assert anomalous[FAULT_AT - 800 - cut : FAULT_AT - cut].mean() < 0.04
    assert anomalous[FAULT_AT - cut :][:40].mean() > 0.9


def test_a_restart_in_the_middle_of_a_change_reacts_to_it() -> None:
    """A change that was told, of which too few rows came yet."""
    cut, X = CHANGE_AT + 50, life(0)
    member = Member("pump", alone(0))
    lived(member, "relearn", X[:cut])
    assert member.detector.drift.found
    again = Member.from_bytes(member.to_bytes())
    anomalous = lived(again, "relearn", X[cut:], cut)
    assert anomalous[FAULT_AT - 800 - cut : FAULT_AT - cut].mean() < 0.04


@pytest.mark.parametrize(("on_change", "made"), [("pattern", alone), ("adapt", patterned)])
def test_what_can_not_be_is_refused(on_change: str, made: Callable[[int], Detector]) -> None:
    with pytest.raises(BadInput, match=f"on_change = {on_change}: .* choose"):
        DriftResponse(on_change, Member("pump", made(0)))
