"""Kinds of machines: each rule puts one kind together, knows two apart, and leaves poison out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Evidence
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import StandingGroups, group
from elmgrove.federation.selection import Quality, Rule, SameGroup
from support.factories import DISTANT, RIDGE, cloud, distance_contribution
from support.laws import law_examples

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


def chosen(rule: Rule, own: Contribution, others: list[Contribution]) -> list[Contribution]:
    names = rule.choose(own.origin, [own, *others], RIDGE).names
    return [one for one in others if one.origin in names]


def with_weight(one: Contribution, weight: float) -> Contribution:
    evidence = one.evidence.weighted(weight)
    return Contribution(one.origin, int(evidence.count), (evidence,))


OWN = machine("own", 0, 1)
ALIKE = [machine(f"alike-{n}", 0, 10 + n) for n in range(5)]
UNLIKE = [machine(f"unlike-{n}", 1, 20 + n) for n in range(3)]
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
    assert chosen(rule, OWN, ALIKE) == ALIKE


@RULES
def test_machines_of_another_kind_are_left_out(rule: Rule) -> None:
    assert chosen(rule, OWN, [*ALIKE, *UNLIKE]) == ALIKE
    assert chosen(rule, OWN, UNLIKE) == []


def test_by_group_a_machine_of_the_smaller_kind_is_given_its_own() -> None:
    assert chosen(SameGroup(), UNLIKE[0], [*ALIKE, *UNLIKE[1:]]) == UNLIKE[1:]


def test_by_quality_a_machine_of_the_smaller_kind_is_given_nobody() -> None:
    assert chosen(Quality(), UNLIKE[0], [*ALIKE, *UNLIKE[1:]]) == []


@RULES
def test_where_all_are_unlike_nobody_is_taken(rule: Rule) -> None:
    assert chosen(rule, OWN, [machine(f"{kind}", kind, kind) for kind in range(1, 6)]) == []


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
    assert chosen(Quality(), OWN, [*ALIKE, empty]) == ALIKE


@RULES
@settings(max_examples=law_examples(15), deadline=None)
@given(st.permutations([*HONEST[:4], UNLIKE[0], POISONED]))
def test_the_order_of_contributions_does_not_matter(rule: Rule, others: list[Contribution]) -> None:
    assert {one.origin for one in chosen(rule, OWN, others)} == {f"alike-{n}" for n in range(4)}


@settings(max_examples=law_examples(15), deadline=None)
@given(st.permutations([*ALIKE, *UNLIKE]))
def test_groups_are_the_kinds_whoever_comes_first(held: list[Contribution]) -> None:
    found = group(held, RIDGE)
    assert found.labels == (0,) * len(ALIKE) + (1,) * len(UNLIKE)
    standing = StandingGroups(DISTANT, RIDGE)
    for one in held:
        standing.take(one)
    for kind in (ALIKE, UNLIKE):
        assert standing.partners(kind[0].origin) == {one.origin for one in kind[1:]}
