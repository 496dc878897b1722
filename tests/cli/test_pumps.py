"""The simulated pumps are the same for the same seed, and live one day after another."""

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
    WARMS,
    Duty,
    Plant,
    Pump,
)
from elmgrove.detector.inputs import choose_window


def test_the_same_seed_makes_the_same_pump_and_another_one_another() -> None:
    first, again, other = (Pump(seed, 0, 0, Duty(0.7, 0.04, 0.05)).run(100) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [row.minute for row in first] == list(range(100))


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


@pytest.mark.parametrize("seed", range(3))
def test_what_is_learned_is_judged_row_by_row(seed: int) -> None:
    """The story needs that: among ten rows, the moment of a move would be an event."""
    rows = Plant(seed).learned()[NAMES[0]]
    assert choose_window(np.array([row.values for row in rows])).window == 1
