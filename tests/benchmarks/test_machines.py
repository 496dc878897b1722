"""Simulated machines are what they say: the law, the size of a fault, its rows, any order."""

import numpy as np
import pytest
from benchmarks.quality.battery import calm, faulty
from benchmarks.quality.machines import (
    KINDS,
    LEAD,
    RESOLUTION,
    SENSORS,
    SIZE,
    ideal,
    machine,
    orders,
)


def left_over(rows: np.ndarray, sensor: int) -> float:
    """The standard deviation of a sensor given the others, measured on rows."""
    others = np.delete(rows, sensor, axis=1) - np.delete(rows, sensor, axis=1).mean(axis=0)
    own = rows[:, sensor] - rows[:, sensor].mean()
    return float((own - others @ np.linalg.lstsq(others, own, rcond=None)[0]).std())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "constant columns"])
def test_a_residual_sigma_is_what_the_other_sensors_leave_open(kind: str) -> None:
    made = machine(kind, 4, seed=3)
    measured = [left_over(made.train, sensor) for sensor in range(4)]
    assert measured == pytest.approx(made.residual, rel=0.08)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sensors", SENSORS)
def test_a_fault_moves_its_sensor_by_its_size_and_nothing_else(kind: str, sensors: int) -> None:
    made, whole = machine(kind, sensors, 0), machine(kind, sensors, 0, size=0.0)
    moved = np.zeros_like(made.test)
    for fault in made.faults:
        moved[list(fault.rows), fault.sensor] = fault.size * made.residual[fault.sensor]
        assert abs(fault.size) == SIZE
    assert np.allclose(made.test - whole.test, moved, rtol=1e-9, atol=1e-9)
    assert faulty(made).sum() == np.any(moved != 0, axis=1).sum()


def test_constant_columns_are_constant_and_have_a_stated_sigma() -> None:
    made = machine("constant columns", 4, seed=0)
    assert (np.ptp(made.train, axis=0) == 0).tolist() == [True, False, True, False]
    assert made.residual[[0, 2]] == pytest.approx(RESOLUTION)
    assert {fault.sensor for fault in made.faults if fault.constant} == {0, 2}


def test_another_order_is_the_same_machine() -> None:
    made = machine("shared load", 4, seed=1)
    order = orders(4, seed=1)[1]
    turned = made.ordered(order)
    assert np.array_equal(turned.test[:, np.argsort(order)], made.test)
    assert turned.residual == pytest.approx(made.residual[order])
    for one, other in zip(made.faults, turned.faults, strict=True):
        assert order[other.sensor] == one.sensor


def test_orders_differ() -> None:
    assert len(orders(1, 0)) == 1
    assert len({tuple(order.tolist()) for order in orders(8, 0)}) == 3


def test_calm_rows_have_no_fault_in_their_window() -> None:
    made = machine("shared load", 2, seed=0)
    rows = np.flatnonzero(calm(made))
    marks = faulty(made)
    assert not any(marks[max(0, row - 9) : row + 1].any() for row in rows)
    assert calm(made)[:LEAD].all()


def test_what_one_row_can_show_shrinks_with_the_sensors() -> None:
    shares = [ideal(sensors) for sensors in SENSORS]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(0.949, abs=1e-3)
