"""A running sum is the sum of what is in it, however it came about."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Evidence, HiddenLayer, Mismatch
from elmgrove.algebra import zero_evidence
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
