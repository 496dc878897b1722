"""Which devices to merge: each rule against what it promises, on real data where that matters."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from elmgrove import BadInput, Basis, Evidence, HiddenLayer
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.similarity import mean_scores
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import StandingGroups, group
from elmgrove.federation.selection import Everyone, Named, Quality, Rule, SameGroup, judge
from support.factories import (
    BASIS,
    DISTANT,
    RIDGE,
    cloud,
    contribution_of,
    distance_contribution,
    evidence_of,
    plane_rows,
)
from support.laws import law_examples
from support.moments import distance_basis, moments_of

IMAGES = Basis(HiddenLayer(64, 16, activation="sigmoid", seed=3), 64)
IMAGES_RIDGE = 0.01
DIGITS, LABELS = load_digits(return_X_y=True)


def images(digit: int, start: int = 0, count: int = 40) -> np.ndarray:
    """Some images of one digit, each value from 0 to 1."""
    found = DIGITS[digit == LABELS][start : start + count] / 16.0
    assert len(found) == count
    return found


def names(chosen: list[Contribution]) -> list[str]:
    return [one.origin for one in chosen]


def chosen(rule: Rule, own: Contribution, others: list[Contribution]) -> list[Contribution]:
    found = rule.choose(own.origin, [own, *others], IMAGES_RIDGE)
    assert all(reason for reason in found.left_out.values())
    if not isinstance(rule, Named):
        assert found.names | found.left_out.keys() == {
            one.origin for one in others if one.evidence.count
        }
    return [one for one in others if one.origin in found.names]


OWN = contribution_of("own", images(0, 160, 10), basis=IMAGES)
ZEROS = [contribution_of(f"zero-{n}", images(0, 30 * n, 30), basis=IMAGES) for n in range(5)]
ODD = contribution_of("odd", np.random.default_rng(1).uniform(size=(30, 64)), basis=IMAGES)


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
    H = IMAGES.layer(X)
    mixed = np.random.default_rng(1).permutation(X)[:, ::-1]
    poison = Evidence(IMAGES, H.T @ H, H.T @ mixed, float(np.square(X).sum()), 30)
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
    found = group(held, IMAGES_RIDGE)
    assert found.labels == (0,) * len(MACHINES) + (1,) * len(OTHERS)
    standing = StandingGroups(DISTANT, IMAGES_RIDGE)
    for one in held:
        standing.take(one)
    for kind in (MACHINES, OTHERS):
        assert standing.partners(kind[0].origin) == {one.origin for one in kind[1:]}


# Judging each by the others: errors that are computed from sums equal those of the rows


def literal_beta(X: np.ndarray) -> np.ndarray:
    H = BASIS.layer(X)
    return np.linalg.solve(H.T @ H + RIDGE * np.eye(4), H.T @ X)


def test_each_model_on_each_others_rows() -> None:
    X = [plane_rows(seed, count) for seed, count in ((1, 40), (2, 25), (3, 3))]
    parts = [contribution_of(name, part) for name, part in zip("abc", X, strict=True)]
    judgement = judge(parts, RIDGE)
    assert judgement.names == ("a", "b", "c")
    for i, mine in enumerate(X):
        for j, theirs in enumerate(X):
            residual = theirs - BASIS.layer(theirs) @ literal_beta(mine)
            from_sums = parts[j].evidence.error_of(parts[i].evidence.solve(RIDGE)) / theirs.size
            assert judgement.error[i, j] == pytest.approx(np.square(residual).mean(), rel=1e-9)
            assert judgement.error[i, j] == pytest.approx(from_sums, rel=1e-9)


def test_a_device_without_rows_can_not_be_judged_on_them() -> None:
    judgement = judge(
        [
            contribution_of("a", plane_rows(1)),
            contribution_of("b", plane_rows(1, 0)),
            contribution_of("c", plane_rows(2)),
        ],
        RIDGE,
    )
    assert np.isnan(judgement.error[:, 1]).all()
    assert np.isfinite(np.delete(judgement.error, 1, axis=1)).all()
    assert np.isfinite(judgement.strangeness).all()


def test_strangeness_is_the_median_of_how_much_worse_others_are_explained() -> None:
    judgement = judge([contribution_of(str(seed), plane_rows(seed)) for seed in range(5)], RIDGE)
    for i, strangeness in enumerate(judgement.strangeness):
        ratios = [judgement.error[i, j] / judgement.error[j, j] for j in range(5) if j != i]
        assert strangeness == pytest.approx(np.median(ratios), rel=1e-12)


@pytest.mark.parametrize("count", [0, 1])
def test_alone_or_without_rows_nobody_is_anomalous(count: int) -> None:
    names = "a" if count else "abc"
    found = judge([contribution_of(name, plane_rows(1, count)) for name in names], RIDGE)
    assert found.strangeness.tolist() == [1.0] * len(names)


def test_rows_that_are_all_zero_leave_no_error_and_no_warning() -> None:
    zeros = judge([contribution_of(name, np.zeros((5, 6))) for name in "abc"], RIDGE)
    assert np.isfinite(zeros.strangeness).all()


def test_a_model_beyond_all_numbers_is_anomalous_without_end() -> None:
    """Admissible, each value finite, and its errors are not."""
    linear = Basis(HiddenLayer(6, 4, seed=2), 6)
    wild = Evidence(linear, 1e-100 * np.eye(4), 1e49 * np.eye(4, 6), 1e199, 10)
    large = Evidence(linear, 1e150 * np.eye(4), np.zeros((4, 6)), 1e190, 10)
    assert wild.admissible()
    assert large.admissible()
    honest = [Contribution(name, 40, (evidence_of(plane_rows(1), linear),)) for name in "abc"]
    parts = [*honest, Contribution("large", 10, (large,)), Contribution("wild", 10, (wild,))]
    judgement = judge(parts, 1e-30)
    assert judgement.error[4, 3] == np.inf
    assert judgement.strangeness[:3].tolist() == pytest.approx([1.0] * 3)
    assert judgement.strangeness[4] > 1e100


# By distance


def test_by_distance_each_is_judged_by_how_far_its_rows_lie_from_each() -> None:
    X = [cloud(0, 1), cloud(0, 2, 40), cloud(1, 3), cloud(2, 4, 5)]
    judgement = judge([distance_contribution(f"{n}", part) for n, part in enumerate(X)], RIDGE)
    models = [Distance(moments_of(DISTANT, part)) for part in X]
    for i, model in enumerate(models):
        assert judgement.error[i, i] == pytest.approx(1.0)
        for j, other in enumerate(models):
            assert judgement.error[i, j] == pytest.approx(model.mean_score(other), rel=1e-9)
    # From rows: the mean of the squared distances, before anything is damped or counted twice.
    for i in (0, 2):
        for j in (0, 2):
            model, there = models[i], X[j]
            Z = (there - model.mean) / model.deviation
            far = (np.square(Z).sum(axis=1) - np.square(Z @ model.K.T).sum(axis=1)).mean() / 6
            assert judgement.error[i, j] == pytest.approx(model.times_typical(far), rel=0.05)
    assert judgement.error[0, 1] < 1.3
    assert min(judgement.error[0, 2], judgement.error[2, 0]) > 5


def test_by_distance_a_device_without_rows_explains_nothing_and_can_not_be_judged() -> None:
    empty = distance_contribution("b", cloud(0, 1, 0))
    judgement = judge(
        [distance_contribution("a", cloud(0, 1)), empty, distance_contribution("c", cloud(0, 2))],
        RIDGE,
    )
    assert np.isnan(judgement.error[:, 1]).all()
    assert np.isinf(judgement.error[1, [0, 2]]).all()
    assert judgement.strangeness[0] == pytest.approx(1.0, abs=0.2)
    assert judge([empty], RIDGE).strangeness.tolist() == [1.0]


@pytest.mark.parametrize("columns", [3, 7])
def test_all_pairs_at_once_are_what_one_after_the_other_is(columns: int) -> None:
    """More than are taken at once, some of them far away or wide."""
    basis = distance_basis(columns, 3)
    rng = np.random.default_rng(columns)
    models = [
        Distance(
            moments_of(
                basis, 10.0 ** rng.integers(-3, 4) * rng.normal(rng.normal(), 1, (30, columns))
            )
        )
        for _ in range(40)
    ]
    together = mean_scores(models)
    for i, j in ((0, 0), (0, 39), (39, 0), (12, 33), (33, 12), (31, 32)):
        assert together[i, j] == pytest.approx(models[i].mean_score(models[j]), rel=1e-9)
    assert mean_scores([]).shape == (0, 0)
