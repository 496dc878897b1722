"""The simulated pumps behave as pumps do, and the same seed makes the same ones."""

import numpy as np
import pytest

from elmgrove.cli.demo.pumps import (
    BREAKS,
    DAY,
    DUTIES,
    END,
    LEAVES,
    MOVES,
    NAMES,
    SENSORS,
    WARMS,
    Duty,
    Plant,
    Pump,
    PumpRow,
)
from elmgrove.detector.inputs import choose_window

STEADY = Duty(0.7, 0.04, 0.05)


def _shown(rows: list[PumpRow], sensor: str) -> np.ndarray:
    return np.array([row.values[list(SENSORS).index(sensor)] for row in rows])


def _pump(seed: int = 1, duty: Duty = STEADY) -> Pump:
    return Pump(seed, 0, 0, duty)


def test_the_same_seed_makes_the_same_pump_and_another_one_another() -> None:
    first, again, other = (_pump(seed).run(100) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [row.minute for row in first] == list(range(100))


def test_the_same_seed_makes_the_same_plant() -> None:
    one, other = Plant(3), Plant(3)
    assert one.learned() == other.learned()
    assert one.night() == other.night()
    assert one.day() == other.day()


def test_a_day_follows_the_night_and_that_what_was_learned() -> None:
    plant = Plant(1)
    learned, night, day = plant.learned(), plant.night(), plant.day()
    assert set(learned) == set(night) == set(day) == set(DUTIES)
    for name in (BREAKS, MOVES, WARMS):
        assert night[name][0].minute == learned[name][-1].minute + 1
        assert day[name][0].minute == night[name][-1].minute + 1
        assert day[name][0].minute % DAY == 6 * 60
        assert plant.onsets[name] in [row.minute for row in day[name]]
    accepted, left = plant.run(MOVES, 120), plant.run(MOVES, 90)
    rest = plant.rest()
    ends = [day[MOVES][-1].minute, accepted[-1].minute, left[-1].minute]
    begins = [accepted[0].minute, left[0].minute, rest[MOVES][0].minute]
    assert begins == [end + 1 for end in ends]
    assert {rest[name][-1].minute for name in (BREAKS, MOVES, WARMS)} == {END - 1}
    assert rest[LEAVES][-1].minute < END
    assert all(pump.wear == pump.clog == 0.0 for pump in plant.pumps.values())


@pytest.mark.parametrize("seed", range(5))
def test_readings_move_together_as_a_pump_curve_has_it(seed: int) -> None:
    rows = _pump(seed).run(2 * DAY)
    with_flow = {
        sensor: np.corrcoef(_shown(rows, "flow"), _shown(rows, sensor))[0, 1] for sensor in SENSORS
    }
    assert with_flow["pressure"] < -0.9
    assert with_flow["power"] > 0.8
    air, warm = _shown(rows, "ambient"), _shown(rows, "temperature")
    assert np.corrcoef(air, warm)[0, 1] > 0.8
    assert 20 < (warm - air).mean() < 45


def test_more_flow_needs_more_power_and_leaves_less_pressure() -> None:
    low, high = (_pump(1, Duty(load, 0.0, 0.0)).run(60) for load in (0.6, 1.0))
    assert _shown(high, "flow").mean() == pytest.approx(100.0, abs=1.0)
    assert _shown(high, "power").mean() > _shown(low, "power").mean() + 2
    assert _shown(high, "pressure").mean() < _shown(low, "pressure").mean() - 1


def test_a_pump_that_stood_starts_cold_and_warms_up() -> None:
    pump = _pump()
    usual = _shown(pump.run(60), "temperature").mean()
    pump.rest(240)
    started = pump.run(240)
    assert started[0].minute == 60 + 240
    warm = _shown(started, "temperature") - _shown(started, "ambient")
    assert warm[:5].mean() < 5.0
    assert warm[-5:].mean() > 25.0
    assert _shown(started, "temperature")[0] < usual - 20


def test_wear_heats_and_shakes_and_a_clogged_impeller_takes_pressure() -> None:
    sound, worn, clogged = _pump(), _pump(), _pump()
    worn.run(200, wear=1.0)
    sound.run(200)
    clogged.run(200)
    clogged.clog = 1.0
    made = {"s": sound.run(60), "w": worn.run(60), "c": clogged.run(60)}
    means = {(one, of): _shown(made[one], of).mean() for one in made for of in SENSORS}
    assert means["w", "vibration"] > means["s", "vibration"] + 1.5
    assert means["w", "temperature"] > means["s", "temperature"] + 10
    assert means["c", "pressure"] < 0.93 * means["s", "pressure"]
    assert means["c", "vibration"] == pytest.approx(means["s", "vibration"], abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_learned_is_judged_row_by_row(seed: int) -> None:
    """The story needs that: among ten rows, the moment of a move would be an event."""
    rows = Plant(seed).learned()[NAMES[0]]
    assert choose_window(np.array([row.values for row in rows])).window == 1
