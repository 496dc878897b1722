"""What two sets of rows lose with each other: how much of it is chance, and what is beyond."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, HiddenLayer
from elmgrove.algebra import similarity as module
from elmgrove.algebra.similarity import (
    FEW,
    ONE_KIND,
    Fitted,
    FittedDistance,
    all_apart,
    all_chances,
    all_losses,
    apart,
    groups,
    join,
    kind_tolerance,
)
from support.factories import evidence_of, near_plane
from support.laws import law_examples
from support.moments import moments_of


def basis_of(columns: int, window: int = 1) -> Basis:
    inputs = columns * window
    return Basis(HiddenLayer(columns, min(inputs, 40)), inputs, score="distance", window=window)


def drawn(seed: int, rows: int, columns: int = 8) -> np.ndarray:
    """Rows of one law, the same for all seeds."""
    mixing = np.random.default_rng(7).normal(size=(2, columns))
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 2)) @ mixing + 0.3 * rng.normal(size=(rows, columns))


def known(seed: int, rows: int, columns: int = 8) -> FittedDistance:
    return FittedDistance(moments_of(basis_of(columns), drawn(seed, rows, columns)), 0.0)


@pytest.mark.parametrize("columns", [4, 8, 38])
@pytest.mark.parametrize("rows", [100, 300, 1000])
def test_rows_of_one_law_are_mostly_no_farther_apart_than_by_chance(
    columns: int, rows: int
) -> None:
    pairs = [(known(2 * n, rows, columns), known(2 * n + 1, rows, columns)) for n in range(100)]
    beyond = np.array([apart(one, other) for one, other in pairs])
    assert np.mean(beyond <= 0.0) >= 0.75
    assert beyond.max() < ONE_KIND
    assert np.median(beyond) > -0.5, "a chance that excuses everything would pass"


def test_chance_is_less_the_more_rows_there_are_and_is_that_of_the_fewer() -> None:
    few, some, many = known(1, 50), known(2, 500), known(3, 5000)
    assert 1.0 > few.chance_with(many) > some.chance_with(many) > many.chance_with(many) > 0.0
    assert few.chance_with(many) == many.chance_with(few)
    assert known(4, 2).chance_with(many) == 1.0


def test_of_windows_as_many_rows_as_one_holds_count_for_one() -> None:
    rows, law = drawn(1, 1000, 2), basis_of(2, 10)
    inputs = np.hstack([rows[n : n + 991] for n in range(10)])
    window = FittedDistance(moments_of(law, inputs), 0.0)
    single = FittedDistance(moments_of(basis_of(20), inputs), 0.0)
    tenth = FittedDistance(moments_of(basis_of(20), inputs[::10]), 0.0)
    assert window.chance_with(window) == pytest.approx(tenth.chance_with(tenth), rel=0.02)
    assert window.chance_with(window) > 3.0 * single.chance_with(single)


@settings(max_examples=law_examples(20), deadline=None)
@given(st.lists(st.integers(2, 400), min_size=1, max_size=5))
def test_all_pairs_at_once_are_each_pair(sizes: list[int]) -> None:
    sets = [known(seed, rows) for seed, rows in enumerate(sizes)]
    for i, one in enumerate(sets):
        for j, other in enumerate(sets):
            assert all_losses(sets)[i, j] == pytest.approx(one.loss_with(other), abs=1e-9)
            assert all_chances(sets)[i, j] == one.chance_with(other)
            assert all_apart(sets)[i, j] == pytest.approx(apart(one, other), abs=1e-9)


def test_by_loss_nothing_is_chance() -> None:
    one, other = (Fitted(evidence_of(near_plane(1, seed)), 0.05) for seed in (1, 2))
    assert apart(one, other) == one.loss_with(other)
    assert kind_tolerance(one.evidence.basis) == 0.02
    assert kind_tolerance(basis_of(4)) == ONE_KIND


@pytest.fixture(name="computed")
def computed_fixture(monkeypatch: pytest.MonkeyPatch) -> list[Fitted]:
    """What pairs were computed for, one of each, from a memory that is empty."""
    monkeypatch.setattr(module, "_REMEMBERED", module._Remembered(1000))
    made, compute = list[Fitted](), Fitted._computed_loss

    def noted(one: Fitted, other: Fitted) -> float:
        made.append(one)
        return compute(one, other)

    monkeypatch.setattr(Fitted, "_computed_loss", noted)
    return made


def test_what_a_pair_loses_is_computed_once_for_both_ways(computed: list[Fitted]) -> None:
    first, second = evidence_of(near_plane(1, 1)), evidence_of(near_plane(2, 2))
    one, other = Fitted(first, 0.05), Fitted(second, 0.05)
    loss = one.loss_with(other)
    assert one.known_loss_with(other) == other.known_loss_with(one) == loss
    assert Fitted(second, 0.05).loss_with(Fitted(first, 0.05)) == loss
    assert len(computed) == 1
    assert other._computed_loss(one) == loss, "to the last bit"


@pytest.mark.parametrize("changed", ["U", "V", "energy", "count", "ridge"])
def test_sums_that_differ_in_a_bit_are_others(computed: list[Fitted], changed: str) -> None:
    first, second = evidence_of(near_plane(1, 1)), Fitted(evidence_of(near_plane(2, 2)), 0.05)
    Fitted(first, 0.05).loss_with(second)
    if changed == "ridge":
        other = Fitted(first, np.nextafter(0.05, 1.0))
    else:
        value = np.array(getattr(first, changed))
        value.flat[0] = np.nextafter(value.flat[0], np.inf)
        other = Fitted(replace(first, **{changed: value}), 0.05)
    assert other.known_loss_with(second) is None


def test_what_was_remembered_makes_the_same_groups_and_costs_the_new_pairs(
    computed: list[Fitted], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [evidence_of(near_plane(1 + seed % 3, seed, 60)) for seed in range(3 * FEW)]
    for one, other in combinations(parts, 2):
        Fitted(one, 0.05).loss_with(Fitted(other, 0.05))
    parts[5] = evidence_of(near_plane(1, 77, 60))
    computed.clear()
    fits = [Fitted(part, 0.05) for part in parts]
    # Of a limit below all losses, none is left out and none joined.
    assert len(groups(fits, -1.0)) == len(parts)
    assert len(computed) == len(parts) - 1
    remembered = join(fits, 0.1)
    monkeypatch.setattr(module, "_REMEMBERED", module._Remembered(1000))
    assert join([Fitted(part, 0.05) for part in parts], 0.1) == remembered
    assert 1 < len(remembered.groups) < len(parts)


def test_as_many_numbers_are_remembered_as_may_be() -> None:
    memory = module._Remembered(2)
    for key in (b"a", b"b", b"c"):
        assert memory.number(key, lambda: 1.5) == 1.5
    assert memory.get(b"c") == 1.5
    assert memory.get(b"a") is None
