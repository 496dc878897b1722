"""Which devices to merge: each rule against what it promises, on real data where that matters."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from elmgrove import BadInput, Basis, Evidence, HiddenLayer
from elmgrove.algebra import apart, fit
from elmgrove.federation import (
    Benefit,
    Contribution,
    Cost,
    Everyone,
    Named,
    Quality,
    SameGroup,
    within,
)
from support.contributions import cloud, distant
from support.laws import law_examples

BASIS = Basis(HiddenLayer(64, 16, activation="sigmoid", weights="normal", seed=3), 64)
RIDGE = 0.01
DIGITS, LABELS = load_digits(return_X_y=True)


def images(digit: int, start: int = 0, count: int = 40) -> np.ndarray:
    """Some images of one digit, each value from 0 to 1."""
    found = DIGITS[digit == LABELS][start : start + count] / 16.0
    assert len(found) == count
    return found


def evidence(X: np.ndarray) -> Evidence:
    H = BASIS.layer(X)
    return Evidence(BASIS, H.T @ H, H.T @ X, float(np.square(X).sum()), len(X))


def said(origin: str, X: np.ndarray) -> Contribution:
    return Contribution(origin, len(X), (evidence(X),))


def names(chosen: list[Contribution]) -> list[str]:
    return [one.origin for one in chosen]


OWN = said("own", images(0, 160, 10))
ZEROS = [said(f"zero-{n}", images(0, 30 * n, 30)) for n in range(5)]
ODD = said("odd", np.random.default_rng(1).uniform(size=(30, 64)))


def test_everyone_and_the_devices_that_are_named() -> None:
    assert Everyone().choose(OWN, RIDGE, ZEROS) == ZEROS
    assert names(Named(["zero-3", "zero-1", "nobody"]).choose(OWN, RIDGE, ZEROS)) == [
        "zero-1",
        "zero-3",
    ]
    with pytest.raises(BadInput, match="at least one"):
        Named([])


# By quality


@pytest.mark.parametrize("place", [0, 2, 5])
def test_quality_leaves_the_odd_one_out_and_nobody_else(place: int) -> None:
    others = [*ZEROS[:place], ODD, *ZEROS[place:]]
    assert Quality().choose(OWN, RIDGE, others) == ZEROS


def test_quality_leaves_poison_out() -> None:
    """Rows of the right pattern, but their targets belong to other rows."""
    X = images(0, 0, 30)
    H = BASIS.layer(X)
    mixed = np.random.default_rng(1).permutation(X)[:, ::-1]
    poison = Evidence(BASIS, H.T @ H, H.T @ mixed, float(np.square(X).sum()), 30)
    assert poison.admissible()
    assert Quality().choose(OWN, RIDGE, [*ZEROS, Contribution("poison", 30, (poison,))]) == ZEROS


def test_quality_keeps_all_of_a_fleet_that_is_alike() -> None:
    assert Quality().choose(OWN, RIDGE, ZEROS) == ZEROS
    same = [Contribution(name, 30, (ZEROS[0].evidence,)) for name in "abcdef"]
    assert Quality().choose(OWN, RIDGE, same) == same


@pytest.mark.parametrize("strict", [0.5, 1.0])
def test_a_lower_limit_leaves_more_out(strict: float) -> None:
    kept = Quality(strict).choose(OWN, RIDGE, [*ZEROS, ODD])
    assert "odd" not in names(kept)
    assert set(names(kept)) <= set(names(Quality().choose(OWN, RIDGE, [*ZEROS, ODD])))


def test_of_three_nobody_is_the_odd_one_out() -> None:
    assert len(Quality().choose(OWN, RIDGE, [*ZEROS[:2], ODD])) == 3


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
def test_a_limit_that_leaves_nobody_is_refused(limit: float) -> None:
    with pytest.raises(BadInput, match="above 0"):
        Quality(limit)


# By benefit


def error_on(held_out: np.ndarray, parts: list[Contribution]) -> float:
    beta = Evidence.sum(part.evidence for part in parts).solve(RIDGE)
    return float(np.square(held_out - BASIS.layer(held_out) @ beta).mean())


def test_with_few_rows_ones_like_is_taken_and_helps_on_rows_never_seen() -> None:
    """An estimate from ten rows, so not always: for eight digits of ten at the least."""
    taken = 0
    for digit in range(10):
        own, like = said("own", images(digit, 0, 10)), said("like", images(digit, 20, 60))
        taken += Benefit().choose(own, RIDGE, [like]) == [like]
        held_out = images(digit, 100, 70)
        assert error_on(held_out, [own, like]) < error_on(held_out, [own])
    assert taken >= 8


def test_with_many_rows_a_stranger_is_left_out_and_would_mostly_have_done_harm() -> None:
    harmful = []
    for digit, other in permutations(range(10), 2):
        own, stranger = said("own", images(digit, 0, 80)), said("stranger", images(other, 0, 120))
        assert Benefit().choose(own, RIDGE, [stranger]) == []
        held_out = images(digit, 100, 70)
        merged = error_on(held_out, [own, stranger])
        harmful.append(merged > error_on(held_out, [own]))
    assert np.mean(harmful) > 0.8


def test_of_a_mixed_fleet_the_choice_is_better_than_all_and_than_none() -> None:
    errors = []
    for digit in range(10):
        own, held_out = said("own", images(digit, 0, 15)), images(digit, 100, 70)
        others = [said("like", images(digit, 30, 60))]
        others += [said(f"other-{n}", images((digit + n) % 10, 0, 100)) for n in (1, 4, 7)]
        groups = ([], Benefit().choose(own, RIDGE, others), others)
        errors.append([error_on(held_out, [own, *chosen]) for chosen in groups])
    none, chosen, all_of_them = np.mean(errors, axis=0)
    assert chosen < none
    assert chosen < all_of_them


def test_a_device_without_rows_takes_everyone() -> None:
    assert Benefit().choose(said("own", images(0, 0, 0)), RIDGE, [*ZEROS, ODD]) == [*ZEROS, ODD]


# Within a budget

whole_costs = st.lists(st.integers(0, 12), max_size=7)


@pytest.mark.parametrize("kind", ["seconds", "bytes"])
@settings(max_examples=law_examples(200), deadline=None)
@given(whole_costs, st.integers(0, 30))
def test_no_choice_within_one_limit_has_more_devices(
    kind: str, costs: list[int], limit: int
) -> None:
    priced = {f"d{n}": Cost(**{kind: cost}) for n, cost in enumerate(costs)}
    chosen = within(Cost(**{kind: limit}), priced)
    assert sum(costs[int(name[1:])] for name in chosen) <= limit
    best = max(
        size
        for size in range(len(costs) + 1)
        for some in combinations(costs, size)
        if sum(some) <= limit
    )
    assert len(chosen) == best
    assert chosen == sorted(chosen)


@settings(max_examples=law_examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=7))
def test_both_limits_are_kept_and_a_device_that_fits_is_taken(
    pairs: list[tuple[int, int]],
) -> None:
    costs = {f"d{n}": Cost(*pair) for n, pair in enumerate(pairs)}
    budget = Cost(20, 15)
    chosen = within(budget, costs)
    spent = sum((costs[name] for name in chosen), Cost(0, 0))
    assert spent.share(budget) <= 1
    assert all((spent + costs[name]).share(budget) > 1 for name in costs if name not in chosen)


def test_without_limits_everything_is_affordable() -> None:
    assert within(Cost(), {"a": Cost(), "b": Cost(5, 5)}) == ["a", "b"]


@pytest.mark.parametrize("wrong", [-1.0, math.nan])
def test_a_negative_cost_is_refused(wrong: float) -> None:
    for cost in ({"seconds": wrong}, {"bytes": wrong}):
        with pytest.raises(BadInput, match="negative"):
            Cost(**cost)


# By distance

ALIKE = [distant(f"alike-{n}", cloud(0, n)) for n in range(4)]
UNLIKE = [distant(f"unlike-{n}", cloud(n, 9)) for n in (1, 2)]


def test_by_distance_benefit_takes_those_alike_and_nobody_else() -> None:
    own = distant("own", cloud(0, 20))
    for others in permutations([*ALIKE[:2], *UNLIKE]):
        assert names(Benefit().choose(own, RIDGE, others)) == ["alike-0", "alike-1"]
    assert Benefit().choose(own, RIDGE, UNLIKE) == []
    assert Benefit().choose(own, RIDGE, []) == []


def test_by_distance_benefit_sees_a_peer_whose_rows_lie_elsewhere_or_vary_more() -> None:
    own, rows = distant("own", cloud(0, 20)), cloud(0, 21)
    middle = rows.mean(axis=0)
    moved = distant("moved", rows + np.array([3.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    wide, narrow = (
        distant(name, middle + by * (rows - middle)) for name, by in (("wide", 2), ("narrow", 0.5))
    )
    assert Benefit().choose(own, RIDGE, [moved, wide, narrow]) == []
    assert names(Benefit(99.0).choose(own, RIDGE, [moved])) == ["moved"]


def test_by_distance_benefit_stops_where_many_small_steps_lead_away() -> None:
    """Each is near enough by itself; all together, with many more rows, are not."""
    own = distant("own", cloud(0, 20))
    steps = np.array([0.2, 0.0, 0.0, 0.0, 0.0, 0.0])
    rows = [cloud(0, 30 + n) + n * steps for n in range(6)]
    others = [distant(f"{n}", X) for n, X in enumerate(rows)]
    chosen = Benefit(0.3).choose(own, RIDGE, others)
    assert 0 < len(chosen) < len(others)
    together = Evidence.sum([one.evidence for one in chosen])
    assert apart(fit(own.evidence, 0.0), fit(together, 0.0)) <= 0.3


def test_by_distance_benefit_with_few_rows_takes_those_alike_as_well() -> None:
    own = distant("own", cloud(0, 20, 50))
    assert names(Benefit().choose(own, RIDGE, [*ALIKE, *UNLIKE])) == names(ALIKE)
    nobody = distant("nobody", cloud(0, 1, 0))
    assert Benefit().choose(nobody, RIDGE, UNLIKE) == UNLIKE
    assert Benefit().choose(own, RIDGE, [nobody]) == []


@pytest.mark.parametrize("tolerance", [-0.1, math.nan])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(BadInput, match="tolerance of benefit"):
        Benefit(tolerance)
    with pytest.raises(BadInput, match="tolerance of quality"):
        Quality(tolerance=tolerance)


@pytest.mark.parametrize("place", [0, 2, 5])
def test_by_distance_quality_leaves_the_odd_one_out_and_nobody_else(place: int) -> None:
    own, alike = distant("own", cloud(0, 20)), [distant(f"{n}", cloud(0, n)) for n in range(5)]
    others = [*alike[:place], UNLIKE[0], *alike[place:]]
    assert Quality().choose(own, RIDGE, others) == alike
    assert Quality().choose(own, RIDGE, alike) == alike


def test_by_distance_the_same_group_is_those_alike() -> None:
    own = distant("own", cloud(0, 20))
    assert SameGroup().choose(own, RIDGE, [*ALIKE, *UNLIKE]) == ALIKE
    with pytest.raises(BadInput, match="no parameters"):
        SameGroup("parameters").choose(own, RIDGE, ALIKE)
