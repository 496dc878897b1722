"""Who is unlike all others, in one direction: named with the sensor, from sums alone."""

import numpy as np
import pytest

from elmgrove import Basis, Detector, FalseAlarmRate
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.others import StandingOthers
from elmgrove.federation.similarity import profile_of, unlike_all, unlike_used
from support.factories import trained_member

NAMES = ["flow", "pressure", "power", "temperature", "vibration"]
MIXING = np.random.default_rng(5).normal(size=(2, 5))
SOON = FalseAlarmRate(confidence=0.0)


def rows(seed: int, count: int = 800) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X: np.ndarray = rng.normal(size=(count, 2)) @ MIXING + 0.3 * rng.normal(size=(count, 5))
    return X + 20.0


def wide(times: float) -> np.ndarray:
    X = rows(9)
    return np.asarray(X.mean(axis=0) + times * (X - X.mean(axis=0)))


def loose(*sensors: str) -> np.ndarray:
    X, rng = rows(9), np.random.default_rng(1)
    for sensor in sensors:
        X[:, NAMES.index(sensor)] += 6.0 * rng.normal(size=len(X))
    return X


CHARTER = Charter(
    "fans", Basis.fitted(np.vstack([rows(n) for n in range(5)]), NAMES, scaling="standard")
)


def fan(number: int, X: np.ndarray) -> Member:
    return trained_member(CHARTER.start(f"fan-{number}", threshold=SOON), X)


def fleet(odd: np.ndarray) -> list[Contribution]:
    """Six devices of one kind, and fan-7."""
    return [*(fan(n, rows(n)).contribution() for n in range(1, 7)), fan(7, odd).contribution()]


def named(contributions: list[Contribution]) -> dict[str, str]:
    standing = StandingOthers(CHARTER)
    for one in contributions:
        standing.take(one)
    found = {one.origin: profile_of(one.parts[0]) for one in contributions}
    assert standing.unlike == unlike_all({name: one for name, one in found.items() if one})
    return standing.unlike


@pytest.mark.parametrize(("times", "told"), [(3.0, "3"), (30.0, "29")])
def test_a_normal_that_is_so_much_wider_is_named(times: float, told: str) -> None:
    assert set(found := named(fleet(wide(times)))) == {"fan-7"}
    assert f" varies {told} times as much" in found["fan-7"]


def test_loose_sensors_are_named_and_no_others() -> None:
    found = named(fleet(loose("vibration", "power")))
    assert set(found) == {"fan-7"}
    assert "vibration varies " in found["fan-7"]
    assert "power varies " in found["fan-7"]
    assert "flow" not in found["fan-7"]


def test_a_sensor_at_another_level_is_named() -> None:
    found = named(fleet(rows(9) + np.array([0.0, 0.0, 0.0, 60.0, 0.0])))
    assert set(found) == {"fan-7"}
    assert found["fan-7"].startswith("temperature is ")
    assert found["fan-7"].endswith(" deviations from every other")


def test_who_is_like_the_others_or_young_is_not_named() -> None:
    assert named(fleet(rows(9))) == {}
    assert named(fleet(rows(9, 120))) == {}
    assert named(fleet(loose("vibration")[:9])) == {}, "nine rows tell nothing"


def test_who_left_or_was_repaired_is_named_no_more() -> None:
    standing = StandingOthers(CHARTER)
    for one in fleet(loose("vibration")):
        standing.take(one)
    assert set(standing.unlike) == {"fan-7"}
    standing.take(fan(7, rows(9)).contribution())
    assert standing.unlike == {}
    standing.take(fan(7, wide(30.0)).contribution())
    standing.leave("fan-7")
    assert standing.unlike == {}


def test_a_device_knows_itself_by_names_and_by_groups() -> None:
    *others, _ = known = fleet(rows(9))
    odd = fan(7, loose("vibration"))
    odd.receive_all(others)
    assert unlike_used(odd).startswith("vibration varies ")
    standing = StandingOthers(CHARTER)
    for one in known:
        standing.take(one)
    grouped = fan(7, loose("vibration"))
    grouped.set_prior(standing.others(1, "fan-7"))
    assert unlike_used(grouped).startswith("vibration varies ")
    one_other = fan(7, loose("vibration"))
    one_other.receive(others[0])
    assert unlike_used(one_other) == "", "of two, nobody knows which is the odd one"


def test_a_loss_tells_nothing() -> None:
    assert profile_of(Detector.for_data(rows(1), score="loss").evidence) is None
