"""A running sum is the sum of what is in it, however it came about."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Detector, Evidence, HiddenLayer, Mismatch
from elmgrove.algebra import Distance, zero_evidence
from elmgrove.federation import RunningSum
from support.moments import distance_basis, moments_of

BASIS = Basis(HiddenLayer(3, 2, seed=1), 3)


def evidence(seed: int, rows: int = 5, size: float = 1.0, dtype: type = np.float64) -> Evidence:
    X = (size * np.random.default_rng(seed).normal(size=(rows, 3))).astype(dtype)
    H = BASIS.layer(X)
    return Evidence(BASIS, H.T @ H, H.T @ X, float(np.square(X).sum()), rows)


def total(parts: list[Evidence]) -> Evidence:
    """The sum in float64, whatever the parts are in."""
    return Evidence.sum([Evidence.zero(BASIS), *parts])


def require_equal(running: RunningSum, parts: list[Evidence], tolerance: float = 1e-12) -> None:
    assert running.devices == len(parts)
    expected = total(parts)
    assert running.evidence().close_to(expected, tolerance)
    assert running.evidence().resolution == expected.resolution


steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=30)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_devices_that_come_change_and_go_leave_the_sum_of_those_that_are_there(
    changes: list[tuple[int, int, bool]],
) -> None:
    running, there = RunningSum(BASIS), dict[int, Evidence]()
    for step, (device, magnitude, coarse) in enumerate(changes):
        if device in there:
            running.remove(there.pop(device))
        if magnitude:
            dtype = np.float32 if coarse else np.float64
            there[device] = evidence(step, size=10.0**magnitude, dtype=dtype)
            running.add(there[device])
        require_equal(running, list(there.values()))
        assert not running.worn
    for left_out in there:
        rest = [part for device, part in there.items() if device != left_out]
        expected = total(rest)
        without = running.evidence(without=there[left_out])
        assert without.close_to(expected, 1e-12)
        assert without.resolution == expected.resolution
    require_equal(running, list(there.values()))


def test_twenty_thousand_replacements_do_not_show() -> None:
    """Where sums of single numbers would have drifted: the others are far smaller."""
    running, quiet, loud = RunningSum(BASIS), evidence(1), [evidence(n, size=1e3) for n in (2, 3)]
    naive = quiet.U[0, 0] + loud[0].U[0, 0]
    running.add(quiet)
    running.add(loud[0])
    for step in range(20_000):
        old, new = loud[step % 2], loud[(step + 1) % 2]
        naive = naive - old.U[0, 0] + new.U[0, 0]
        running.remove(old)
        running.add(new)
    assert not running.worn
    require_equal(running, [quiet, loud[0]])
    running.remove(loud[0])
    require_equal(running, [quiet])
    assert abs(naive - loud[0].U[0, 0] - quiet.U[0, 0]) > 1e-12 * quiet.U[0, 0]


def test_when_the_last_one_goes_nothing_is_left() -> None:
    running = RunningSum(BASIS)
    for size in (1e60, 1.0):
        running.add(evidence(1, size=size))
    for size in (1e60, 1.0):
        running.remove(evidence(1, size=size))
    assert running.evidence() == Evidence.zero(BASIS)
    assert not running.worn
    running.add(evidence(2))
    assert running.evidence() == evidence(2)


def test_without_the_only_one_nothing_is_left() -> None:
    running = RunningSum(BASIS)
    running.add(evidence(1))
    assert running.evidence(without=evidence(1)) == Evidence.zero(BASIS)
    assert running.evidence() == evidence(1)


def test_something_huge_that_came_and_went_wears_the_sum() -> None:
    running = RunningSum(BASIS)
    running.add(evidence(1))
    running.add(evidence(2, size=1e20))
    assert not running.worn
    running.remove(evidence(2, size=1e20))
    assert running.worn
    running.remove(evidence(1))
    assert not running.worn


def test_a_worn_sum_is_taken_afresh_and_another_is_left_alone() -> None:
    running = RunningSum(BASIS)
    running.change(None, evidence(1))
    running.change(None, evidence(2, size=1e20))
    # Nothing is read where nothing is worn.
    running.freshen(iter([evidence(9)]))
    running.change(evidence(2, size=1e20), evidence(3))
    assert running.worn
    running.freshen([evidence(1), evidence(3)])
    assert not running.worn
    require_equal(running, [evidence(1), evidence(3)])
    assert running.devices == 2


def test_something_large_that_came_and_went_does_not() -> None:
    running = RunningSum(BASIS)
    running.add(evidence(1))
    running.add(evidence(2, size=1e6))
    running.remove(evidence(2, size=1e6))
    assert not running.worn
    require_equal(running, [evidence(1)])


def test_what_does_not_fit_changes_nothing() -> None:
    running, other = RunningSum(BASIS), Basis(HiddenLayer(3, 2, seed=2), 3)
    running.add(evidence(1))
    for step in (running.add, running.remove):
        with pytest.raises(Mismatch, match=r"layer\.seed"):
            step(Evidence.zero(other))
    require_equal(running, [evidence(1)])


def test_the_sum_given_out_does_not_change_later() -> None:
    running = RunningSum(BASIS)
    running.add(evidence(1))
    running.add(evidence(2))
    before = running.evidence()
    copy = before.U.copy()
    running.remove(evidence(2))
    np.testing.assert_array_equal(before.U, copy)


def test_who_has_no_rows_does_not_decide_about_which_centre_others_are_added_up() -> None:
    """About 0, rows a billion deviations away would be nothing but rounding."""
    basis = distance_basis(3)
    theirs = moments_of(basis, 1e9 + np.random.default_rng(0).normal(size=(50, 3)))
    nothing = zero_evidence(basis)
    running = RunningSum(basis)
    running.add(nothing)
    running.add(theirs)
    assert running.evidence() == theirs
    running.remove(nothing)
    assert running.evidence() == theirs


# Moments, about centres that differ


def by_distance(units: int, scaling: str = "none") -> Basis:
    rows = np.random.default_rng(0).normal(size=(9, 3))
    return Basis.fitted(rows, None, scaling=scaling, units=units, score="distance", seed=1)


#: All products, mixtures of inputs, and rows that are scaled.
DISTANCES = [by_distance(3), by_distance(2), by_distance(3, "standard"), by_distance(2, "standard")]


def moments(basis: Basis, X: np.ndarray, dtype: type = np.float64) -> Evidence:
    detector = Detector.for_basis(basis, dtype=dtype)
    detector.learn_many(X)
    return detector.evidence


def device(seed: int, size: float, offset: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return size * (rng.normal(size=(5, 3)) @ rng.normal(size=(3, 3)) + offset)


def fresh(basis: Basis, parts: list[Evidence]) -> RunningSum:
    running = RunningSum(basis)
    for part in parts:
        running.add(part)
    return running


def require_same(one: RunningSum, other: RunningSum) -> None:
    """Asserts that two sums are equal column by column, each in its own size."""
    assert one.devices == other.devices
    a, b = one.evidence(), other.evidence()
    if a.count == 0:
        assert a == b
        return
    np.testing.assert_array_equal(a.centre, b.centre)
    assert (a.count, a.resolution) == (b.count, b.resolution)
    np.testing.assert_allclose(a.e, b.e, rtol=1e-12)
    root = np.sqrt(b.e)
    assert (np.abs(a.s - b.s) <= 1e-12 * np.sqrt(b.count) * root).all()
    weights = np.eye(3) if a.C.shape == (3, 3) else np.abs(a.basis.layer.alpha)
    assert (np.abs(a.C - b.C) <= 1e-12 * np.outer(root @ weights, root)).all()
    assert a.admissible()


comings = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from([0.0, 1.0, 1e-3, 1e8]), st.integers(0, 9), st.booleans()
    ),
    max_size=16,
)


@pytest.mark.parametrize("basis", DISTANCES)
@settings(max_examples=60, deadline=None)
@given(changes=comings)
def test_moments_that_come_change_and_go_leave_what_a_new_sum_of_those_there_gives(
    basis: Basis, changes: list[tuple[int, float, int, bool]]
) -> None:
    """In any order, and with devices 1e8 times as large among them."""
    running, there = RunningSum(basis), dict[int, Evidence]()
    for step, (name, size, offset, coarse) in enumerate(changes):
        dtype = np.float32 if coarse and size == 1.0 else np.float64
        now = moments(basis, device(step, size, 100.0 * offset), dtype) if size else None
        before = there.pop(name, None)
        running.change(before, now)
        if now is not None:
            there[name] = now
        running.freshen(there.values())
        require_same(running, fresh(basis, list(there.values())[::-1]))
    for name, part in there.items():
        rest = fresh(basis, [other for its, other in there.items() if its != name])
        left = copy.copy(running)
        left.remove(part)
        if left.worn:
            continue
        require_same(left, rest)
        assert running.evidence(without=part) == left.evidence()


@pytest.mark.parametrize("basis", DISTANCES)
def test_moments_of_a_device_1e8_times_as_large_do_not_wear_the_sum(basis: Basis) -> None:
    large, small = (moments(basis, device(seed, size, 1.0)) for seed, size in ((1, 1e8), (2, 1.0)))
    running = fresh(basis, [large, small])
    for _ in range(100):
        running.change(large, None)
        assert not running.worn
        require_same(running, fresh(basis, [small]))
        running.change(None, large)


@pytest.mark.parametrize("basis", DISTANCES[:2])
def test_the_sum_of_moments_is_that_of_all_rows_whoever_came_first(basis: Basis) -> None:
    near = [device(seed, 1.0, 10.0 + seed) for seed in range(3)]
    far = 1e8 * (device(9, 1.0, 0.0) + np.array([1.0, -2.0, 3.0]))
    parts = [moments(basis, X) for X in (far, *near)]
    running = fresh(basis, parts)
    running.remove(parts[0])
    given, X = running.evidence(), np.vstack(near)
    Y = X - given.centre
    left = Y if basis.layer.units == 3 else Y @ basis.layer.alpha
    np.testing.assert_allclose(given.C, left.T @ Y, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(given.centre + given.mean, X.mean(axis=0), rtol=1e-14)
    probe = device(11, 1.0, 11.0)
    everything = Distance(moments(basis, X)).score_many(probe)
    np.testing.assert_allclose(Distance(given).score_many(probe), everything, rtol=1e-9)
    # As plain numbers about the first centre, nothing of them would be left.
    plain = Evidence.sum(parts) - parts[0]
    assert not np.allclose(Distance(plain).score_many(probe), everything, rtol=0.1)


def test_a_column_that_never_moved_stays_still_in_the_sum() -> None:
    basis, rows = by_distance(3), device(1, 1.0, 3.0)
    constant = [np.column_stack([rows[:, :2] + n, np.full(5, 0.1)]) for n in range(3)]
    other = np.column_stack([rows[:, :2], np.full(5, 1 / 3)])
    parts = [moments(basis, X) for X in (other, *constant)]
    running = fresh(basis, parts)
    for left in (running.evidence(without=parts[0]), fresh(basis, parts[1:]).evidence()):
        assert left.e[2] == left.s[2] == 0.0
        assert not left.C[2].any()
        assert left.centre[2] == 0.1
        assert left.admissible()
    # With it, the two values differ.
    np.testing.assert_allclose(running.evidence().e[2], 15 * 5 / 20 * (0.1 - 1 / 3) ** 2, rtol=0.5)
    running.remove(parts[0])
    assert running.worn
    running.freshen(parts[1:])
    assert not running.worn


def test_a_device_without_rows_does_not_decide_about_the_centre() -> None:
    basis = by_distance(3)
    rows = device(1, 1e-4, 1e9)
    running = fresh(basis, [moments(basis, rows[:0]), moments(basis, rows)])
    assert not running.worn
    assert running.devices == 2
    np.testing.assert_allclose(Distance(running.evidence()).score_many(rows).mean(), 1.0, atol=0.5)


def test_huge_moments_that_came_and_went_wear_the_sum_even_in_a_column_of_small_units() -> None:
    basis = by_distance(3)
    units = np.array([1e9, 1.0, 1e-9])
    small = moments(basis, device(1, 1.0, 1.0) * units)
    huge = moments(basis, device(2, 1.0, 1.0) * units * [1, 1, 1e15])
    running = fresh(basis, [small, huge])
    assert not running.worn
    running.remove(huge)
    assert running.worn
    running.freshen([small])
    assert not running.worn
    require_same(running, fresh(basis, [small]))
