"""Groups: which patterns the rules put together, and why."""

from typing import Any

import numpy as np
import pytest

from elmgrove import BadInput, Evidence, Mismatch
from elmgrove.algebra.similarity import fit
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import group, returned
from support.factories import (
    RIDGE,
    cloud,
    contribution_of,
    distance_contribution,
    evidence_of,
    near_plane,
)
from support.patterns import PATTERNS, SAID, TRUTH, group_of, literal_loss
from support.serving import fan_evidence


def alike(labels: Any, others: Any) -> bool:
    """Whether both divide the same things in the same way."""
    pairs = set(zip(labels, others, strict=True))
    return len(pairs) == len(set(labels)) == len(set(others))


# By evidence


def test_the_reasons_are_the_losses_of_each_join_and_of_the_next() -> None:
    found = group(SAID, RIDGE, tolerance=0.3)
    assert len(found.steps) == len(SAID) - found.count
    assert found.refused is not None
    for step in (*found.steps, found.refused):
        sides = ([PATTERNS[i] for i in side] for side in (step.first, step.second))
        assert step.loss == pytest.approx(literal_loss(*sides), rel=1e-6)
    assert max(step.loss for step in found.steps) <= 0.3 < found.refused.loss
    for number in range(found.count):
        inside = [s.loss for s in found.steps if found.labels[s.first[0]] == number]
        assert found.loss_within(number) == max(inside)


@pytest.mark.parametrize("count", range(1, len(SAID) + 1))
def test_as_many_groups_as_asked_for(count: int) -> None:
    found = group(SAID, RIDGE, count)
    assert found.count == count
    assert not found.steps or len(found.steps) == len(SAID) - count
    if count == 3:
        assert alike(found.labels, TRUTH)


def test_patterns_of_one_device_are_told_apart_and_those_without_rows_left_out() -> None:
    both = contribution_of("both", near_plane(1, 50), near_plane(2, 51), near_plane(1, 52, 0))
    found = group(
        [
            contribution_of("a", near_plane(1, 53)),
            both,
            contribution_of("none", near_plane(1, 1, 0)),
        ],
        RIDGE,
        2,
    )
    assert [(model.origin, model.pattern) for model in found.models] == [
        ("a", 0),
        ("both", 0),
        ("both", 1),
    ]
    assert found.labels == (0, 0, 1)


# By loss, of many


def test_rows_that_are_all_zero_and_numbers_without_end_are_grouped_too() -> None:
    wild = Evidence(
        evidence_of(near_plane(1, 1)).basis, 1e-100 * np.eye(4), 1e49 * np.eye(4, 6), 1e199, 10
    )
    parts = [contribution_of(f"{n}", np.zeros((5, 6))) for n in range(9)]
    found = group([*parts, Contribution("wild", 10, (wild,)), *SAID[:1]], RIDGE, 1)
    assert found.count == 1
    assert all(np.isfinite(step.loss) for step in found.steps)


def test_what_can_not_be_grouped_is_said() -> None:
    with pytest.raises(BadInput, match="can't make 99 groups"):
        group(SAID, RIDGE, 99)
    with pytest.raises(BadInput, match="groups"):
        group(SAID, RIDGE, 0)
    with pytest.raises(Mismatch):
        group([*SAID, Contribution("other", 9, (fan_evidence(near_plane(1, 1)),))], RIDGE)
    assert group([], RIDGE).count == 0
    assert group(SAID[:1], RIDGE).labels == (0,)


# By distance


def test_by_distance_devices_of_one_kind_are_a_group() -> None:
    """More than are compared without screening by loss."""
    held = [distance_contribution(f"{n:02}", cloud(n % 3, n)) for n in range(12)]
    found = group(held, RIDGE)
    assert found.labels == (0, 1, 2) * 4
    assert found.refused is not None
    assert max(step.loss for step in found.steps) <= 0.1 < found.refused.loss
    assert group(held, RIDGE, 2).count == 2
    assert group(held, RIDGE, tolerance=-1.0).count == 12
    assert group([], RIDGE).count == 0


def test_by_distance_a_join_loses_how_much_farther_the_worse_off_lie() -> None:
    clouds = (cloud(0, 1), cloud(0, 2), cloud(1, 3))
    a, b, c = (fit(distance_contribution("x", X).evidence, 0.0) for X in clouds)
    away = max(a.distance.mean_score(c.distance), c.distance.mean_score(a.distance))
    assert a.loss_with(c) == c.loss_with(a) == pytest.approx(away - 1.0)
    assert abs(a.loss_with(b)) < 0.1 < 1.0 < a.loss_with(c)


# Back matching: the second half of Algorithm 3


def test_with_as_many_models_as_groups_all_come_back_else_ones_own() -> None:
    fleet = [
        contribution_of("a", near_plane(1, 1)),
        contribution_of("b", near_plane(2, 2), near_plane(1, 3)),
        contribution_of("c", near_plane(3, 4, 80), near_plane(2, 5), near_plane(3, 6)),
    ]
    grouping = group(fleet, RIDGE, 3)
    a, b = group_of(grouping, "a"), [group_of(grouping, "b", j) for j in (0, 1)]
    assert a == b[1] != b[0]
    assert returned(grouping) == {"a": (a,), "b": tuple(b), "c": (0, 1, 2)}
    assert returned(group(fleet, RIDGE, 2))["c"] == (0, 1, None)
