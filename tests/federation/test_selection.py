"""Which devices to merge: each rule against what it promises, on real data where that matters."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from elmgrove import BadInput, Basis, Evidence, HiddenLayer
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.selection import Everyone, Named, Quality, Rule
from support.factories import cloud, contribution_of, distance_contribution

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
        assert found.names | found.left_out.keys() == {one.origin for one in others}
    return [one for one in others if one.origin in found.names]


OWN = contribution_of("own", images(0, 160, 10), basis=BASIS)
ZEROS = [contribution_of(f"zero-{n}", images(0, 30 * n, 30), basis=BASIS) for n in range(5)]
ODD = contribution_of("odd", np.random.default_rng(1).uniform(size=(30, 64)), basis=BASIS)


def test_everyone_and_the_devices_that_are_named() -> None:
    assert chosen(Everyone(), OWN, ZEROS) == ZEROS
    assert names(chosen(Named(["zero-3", "zero-1", "nobody"]), OWN, ZEROS)) == [
        "zero-1",
        "zero-3",
    ]
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
