"""Which devices to merge: each rule against what it promises, on real data where that matters."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from elmgrove import BadInput, Basis, Evidence, HiddenLayer
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import StandingGroups, group
from elmgrove.federation.selection import Everyone, Named, Quality, Rule, SameGroup
from support.factories import DISTANT, cloud, contribution_of, distance_contribution
from support.laws import law_examples

BASIS = Basis(HiddenLayer(64, 16, activation="sigmoid", seed=3), 64)
RIDGE = 0.01
DIGITS, LABELS = load_digits(return_X_y=True)


def images(digit: int, start: int = 0, count: int = 40) -> np.ndarray:
    """Some images of one digit, each value from 0 to 1."""
    found = DIGITS[digit == LABELS][start : start + count] / 16.0
    assert len(found) == count
    return found


def names(chosen: list[Contribution]) -> list[str]:
    return [one.origin for one in chosen]


def chosen(rule: Rule, own: Contribution, others: list[Contribution]) -> list[Contribution]:
    found = rule.choose(own.origin, [own, *others], RIDGE)
    assert all(reason for reason in found.left_out.values())
    if not isinstance(rule, Named):
        assert found.names | found.left_out.keys() == {
            one.origin for one in others if one.evidence.count
        }
    return [one for one in others if one.origin in found.names]


OWN = contribution_of("own", images(0, 160, 10), basis=BASIS)
ZEROS = [contribution_of(f"zero-{n}", images(0, 30 * n, 30), basis=BASIS) for n in range(5)]
ODD = contribution_of("odd", np.random.default_rng(1).uniform(size=(30, 64)), basis=BASIS)


def test_everyone_and_the_devices_that_are_named() -> None:
    assert chosen(Everyone(), OWN, ZEROS) == ZEROS
    assert names(chosen(Named(["zero-3", "zero-1", "nobody"]), OWN, ZEROS)) == ["zero-1", "zero-3"]
    with pytest.raises(BadInput, match="at least one"):
        Named([])


# By quality


@pytest.mark.parametrize("place", [0, 2, 5])
def test_quality_leaves_the_odd_one_out_and_nobody_else(place: int) -> None:
    others = [*ZEROS[:place], ODD, *ZEROS[place:]]
    assert chosen(Quality(), OWN, others) == ZEROS


def test_quality_leaves_poison_out() -> None:
    """Rows of the right pattern, but their targets belong to other rows."""
    X = images(0, 0, 30)
    H = BASIS.layer(X)
    mixed = np.random.default_rng(1).permutation(X)[:, ::-1]
    poison = Evidence(BASIS, H.T @ H, H.T @ mixed, float(np.square(X).sum()), 30)
    assert poison.admissible()
    assert chosen(Quality(), OWN, [*ZEROS, Contribution("poison", 30, (poison,))]) == ZEROS


def test_quality_keeps_all_of_a_fleet_that_is_alike() -> None:
    assert chosen(Quality(), OWN, ZEROS) == ZEROS
    same = [Contribution(name, 30, (ZEROS[0].evidence,)) for name in "abcdef"]
    assert chosen(Quality(), OWN, same) == same


@pytest.mark.parametrize("strict", [0.5, 1.0])
def test_a_lower_limit_leaves_more_out(strict: float) -> None:
    kept = chosen(Quality(strict), OWN, [*ZEROS, ODD])
    assert "odd" not in names(kept)
    assert set(names(kept)) <= set(names(chosen(Quality(), OWN, [*ZEROS, ODD])))


def test_of_three_nobody_is_the_odd_one_out() -> None:
    assert len(chosen(Quality(), OWN, [*ZEROS[:2], ODD])) == 3


@pytest.mark.parametrize("wrong", [-1.0, math.nan])
def test_a_limit_or_a_tolerance_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(BadInput, match="above 0"):
        Quality(wrong)
    with pytest.raises(BadInput, match="tolerance of quality"):
        Quality(tolerance=wrong)


# By distance

ALIKE = [distance_contribution(f"alike-{n}", cloud(0, n)) for n in range(4)]


def test_by_distance_quality_sees_a_device_whose_rows_lie_elsewhere_or_vary_more() -> None:
    own, rows = distance_contribution("own", cloud(0, 20)), cloud(0, 21)
    middle = rows.mean(axis=0)
    moved = distance_contribution("moved", rows + np.array([3.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    wide, narrow = (
        distance_contribution(name, middle + by * (rows - middle))
        for name, by in (("wide", 2), ("narrow", 0.5))
    )
    for odd in (moved, wide, narrow):
        assert chosen(Quality(), own, [*ALIKE, odd]) == ALIKE
    assert chosen(Quality(tolerance=99.0), own, [*ALIKE, moved]) == [*ALIKE, moved]


# Kinds of machines: each rule puts one together, knows two apart, and leaves poison out

RULES = pytest.mark.parametrize("rule", [Quality(), SameGroup()])
#: What is left of each column of kind 0 when the others are known, from very many rows.
RESIDUAL = 1.0 / np.sqrt(np.diag(np.linalg.inv(np.cov(cloud(0, 5, 100_000).T))))


def machine(name: str, kind: int, seed: int, count: int = 150) -> Contribution:
    """A machine of a kind: its levels are off by a sixth of what is left of each column."""
    level = RESIDUAL / 6.0 * np.random.default_rng([9, seed]).normal(size=6)
    return distance_contribution(name, cloud(kind, seed, count) + level)


def faulty(seed: int, count: int = 600) -> np.ndarray:
    """Rows of kind 0 with a fault of the third column in every tenth."""
    rows = cloud(0, seed, count)
    rows[::10, 2] += 6.0 * RESIDUAL[2]
    return rows


def with_weight(one: Contribution, weight: float) -> Contribution:
    evidence = one.evidence.weighted(weight)
    return Contribution(one.origin, int(evidence.count), (evidence,))


MACHINE = machine("own", 0, 1)
MACHINES = [machine(f"alike-{n}", 0, 10 + n) for n in range(5)]
OTHERS = [machine(f"unlike-{n}", 1, 20 + n) for n in range(3)]
HONEST = [machine(f"alike-{n}", 0, 10 + n, 600) for n in range(5)]
POISONED = distance_contribution("poisoned", faulty(40))
COPIED = Evidence.sum(one.evidence for one in HONEST).weighted(3.0) + distance_contribution(
    "x", faulty(41, 6000)[::10]
).evidence.weighted(9000 / 9 / 600)
POISONS = {
    "plain": POISONED,
    "a million times its rows": with_weight(POISONED, 1e6),
    "three times everybody's sums": Contribution("poisoned", 10000, (COPIED,)),
}


@RULES
def test_machines_of_one_kind_with_some_hundred_rows_are_put_together(rule: Rule) -> None:
    assert chosen(rule, MACHINE, MACHINES) == MACHINES


@RULES
def test_machines_of_another_kind_are_left_out(rule: Rule) -> None:
    assert chosen(rule, MACHINE, [*MACHINES, *OTHERS]) == MACHINES
    assert chosen(rule, MACHINE, OTHERS) == []


def test_by_group_a_machine_of_the_smaller_kind_is_given_its_own() -> None:
    assert chosen(SameGroup(), OTHERS[0], [*MACHINES, *OTHERS[1:]]) == OTHERS[1:]


def test_by_quality_a_machine_of_the_smaller_kind_is_given_nobody() -> None:
    assert chosen(Quality(), OTHERS[0], [*MACHINES, *OTHERS[1:]]) == []


@RULES
def test_where_all_are_unlike_nobody_is_taken(rule: Rule) -> None:
    assert chosen(rule, MACHINE, [machine(f"{kind}", kind, kind) for kind in range(1, 6)]) == []


@RULES
@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("count", [150, 600])
def test_a_poisoned_one_is_left_out_and_nobody_else(rule: Rule, poison: str, count: int) -> None:
    own = machine("own", 0, 1, count)
    assert chosen(rule, own, [*HONEST, POISONS[poison]]) == HONEST


def test_a_machine_without_rows_leaves_quality_to_the_others() -> None:
    nobody = distance_contribution("own", cloud(0, 1, 0))
    assert chosen(Quality(), nobody, [*HONEST, POISONED]) == HONEST
    assert chosen(Quality(), nobody, []) == []
    assert chosen(Quality(), nobody, HONEST[:1]) == HONEST[:1]
    empty = distance_contribution("empty", cloud(0, 1, 0))
    assert chosen(Quality(), MACHINE, [*MACHINES, empty]) == MACHINES


@RULES
@settings(max_examples=law_examples(15), deadline=None)
@given(st.permutations([*HONEST[:4], OTHERS[0], POISONED]))
def test_the_order_of_contributions_does_not_matter(rule: Rule, others: list[Contribution]) -> None:
    assert {one.origin for one in chosen(rule, MACHINE, others)} == {f"alike-{n}" for n in range(4)}


@settings(max_examples=law_examples(15), deadline=None)
@given(st.permutations([*MACHINES, *OTHERS]))
def test_groups_are_the_kinds_whoever_comes_first(held: list[Contribution]) -> None:
    found = group(held, RIDGE)
    assert found.labels == (0,) * len(MACHINES) + (1,) * len(OTHERS)
    standing = StandingGroups(DISTANT, RIDGE)
    for one in held:
        standing.take(one)
    for kind in (MACHINES, OTHERS):
        assert standing.partners(kind[0].origin) == {one.origin for one in kind[1:]}
