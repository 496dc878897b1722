"""What another device knows, or claims to know, takes no alarm away: honest, loose or a liar."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from elmgrove import Basis, FalseAlarmRate
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.others import StandingOthers
from support.factories import trained_member
from support.pumps import NAMES, TEMP, pump_rows

SOON = FalseAlarmRate(confidence=0.0)
CHARTER = Charter("pumps", Basis.fitted(pump_rows(4000, 0), NAMES, scaling="standard"))
HONEST, ROWS, FAULTY = 5, 1500, 200


def member(name: str, X: np.ndarray) -> Member:
    return trained_member(CHARTER.start(name, threshold=SOON), X)


def wide(times: float) -> np.ndarray:
    X = pump_rows(ROWS, 50)
    return np.asarray(X.mean(axis=0) + times * (X - X.mean(axis=0)))


def loose() -> np.ndarray:
    """An ordinary machine with two loose sensors."""
    X, rng = pump_rows(ROWS, 50), np.random.default_rng(1)
    X[:, [TEMP, 3]] += rng.normal(size=(ROWS, 2)) * [40.0, 12.0]
    return X


def nine_rows() -> Contribution:
    """Made up: nine rows that span everything, and a threshold."""
    X = pump_rows(ROWS, 50)
    far = X.mean(axis=0) + 100.0 * X.std(axis=0) * np.vstack([np.zeros(4), np.eye(4), -np.eye(4)])
    return replace(member("odd", far).contribution(), threshold=5.0)


ODD: dict[str, Callable[[], Contribution]] = {
    "an honest one": lambda: member("odd", pump_rows(ROWS, 50)).contribution(),
    "3 times as wide": lambda: member("odd", wide(3.0)).contribution(),
    "30 times as wide": lambda: member("odd", wide(30.0)).contribution(),
    "nine rows": nine_rows,
    "two loose sensors": lambda: member("odd", loose()).contribution(),
}


def fault(kind: str) -> np.ndarray:
    X, rng = pump_rows(FAULTY, 77), np.random.default_rng(3)
    if kind == "bearing":
        X[:, TEMP] += np.linspace(2.0, 15.0, FAULTY)
    elif kind == "stuck":
        X[:, TEMP] = X[0, TEMP] + 6.0
    elif kind == "zero":
        X[:, 3] = 0.0
    else:
        X[:, TEMP] += 20.0 * rng.normal(size=FAULTY)
    return X


@pytest.fixture(name="honest", scope="module")
def honest_fixture() -> list[Contribution]:
    return [member(f"pump-{n}", pump_rows(ROWS, n)).contribution() for n in range(1, HONEST + 1)]


def decisions(victim: Member, X: np.ndarray) -> list[tuple[bool, int | None]]:
    return [(one.anomalous, one.event) for one in victim.detector.observe_many(X)]


@pytest.mark.parametrize("at_once", [False, True], ids=["by name", "at once"])
@pytest.mark.parametrize("kind", ["bearing", "stuck", "zero", "wild"])
@pytest.mark.parametrize("odd", ODD)
def test_no_other_hides_a_fault(
    odd: str, kind: str, at_once: bool, honest: list[Contribution]
) -> None:
    alone, victim = (member("victim", pump_rows(ROWS, 99)) for _ in range(2))
    others = [*honest, ODD[odd]()]
    if at_once:
        standing = StandingOthers(CHARTER)
        for one in others:
            standing.take(one)
        victim.set_prior(standing.others(1, "victim"))
    else:
        assert victim.receive_all(others) == []
    expected = decisions(alone, fault(kind))
    assert sum(anomalous for anomalous, _ in expected) > 0.5 * FAULTY
    assert decisions(victim, fault(kind)) == expected


def test_one_that_swallowed_a_fault_does_not_silence_the_next() -> None:
    """A young device learned the fault as normal, as an agent does without ``learn``."""
    swallowed = CHARTER.start("a")
    broken = pump_rows(900, 5)
    broken[300:, TEMP] += 30.0
    swallowed.detector.learn_many(broken)
    knows = replace(swallowed.contribution(), threshold=3.0)
    alone, b = (member("b", pump_rows(ROWS, 6)) for _ in range(2))
    b.receive(knows)
    later = pump_rows(300, 7)
    later[:, TEMP] += 30.0
    expected = decisions(alone, later)
    assert decisions(b, later) == expected
    assert sum(event is not None for _, event in expected) > 290
    event = b.detector.events.open
    assert event is not None
    assert event.known == ("a",)
    assert ", normal at a; temp " in str(event)
