"""Groups: which patterns the rules put together, and why."""

from typing import Any

import numpy as np
import pytest

from elmgrove import BadInput, Evidence, Mismatch
from elmgrove.algebra.similarity import fit
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import by_evidence, by_parameters, group
from support.factories import (
    RIDGE,
    cloud,
    contribution_of,
    distance_contribution,
    evidence_of,
    near_plane,
)
from support.patterns import PATTERNS, SAID, TRUTH, betas, literal_loss
from support.serving import fan_evidence


def alike(labels: Any, others: Any) -> bool:
    """Whether both divide the same things in the same way."""
    pairs = set(zip(labels, others, strict=True))
    return len(pairs) == len(set(labels)) == len(set(others))


# By evidence


def test_patterns_of_one_group_are_found() -> None:
    found = by_evidence(SAID, RIDGE, tolerance=0.3)
    assert alike(found.labels, TRUTH)
    assert found.labels[0] == 0, "numbered in the order of their first members"


def test_the_reasons_are_the_losses_of_each_join_and_of_the_next() -> None:
    found = by_evidence(SAID, RIDGE, tolerance=0.3)
    assert len(found.steps) == len(SAID) - found.count
    assert found.refused is not None
    for step in (*found.steps, found.refused):
        sides = ([PATTERNS[i] for i in side] for side in (step.first, step.second))
        assert step.loss == pytest.approx(literal_loss(*sides), rel=1e-6)
    assert max(step.loss for step in found.steps) <= 0.3 < found.refused.loss
    for number in range(found.count):
        inside = [s.loss for s in found.steps if found.labels[s.first[0]] == number]
        assert found.loss_within(number) == max(inside)


@pytest.mark.parametrize("rule", [by_evidence, by_parameters])
@pytest.mark.parametrize("count", range(1, len(SAID) + 1))
def test_as_many_groups_as_asked_for(rule: Any, count: int) -> None:
    found = rule(SAID, RIDGE, count)
    assert found.count == count
    assert not found.steps or len(found.steps) == len(SAID) - count
    if count == 3:
        assert alike(found.labels, TRUTH)


def test_the_order_of_contributions_does_not_matter() -> None:
    for rule in (by_evidence, by_parameters):
        assert rule(SAID[::-1], RIDGE) == rule(SAID, RIDGE)


def test_patterns_of_one_device_are_told_apart_and_those_without_rows_left_out() -> None:
    both = contribution_of("both", near_plane(1, 50), near_plane(2, 51), near_plane(1, 52, 0))
    found = by_evidence(
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
    found = by_evidence([*parts, Contribution("wild", 10, (wild,)), *SAID[:1]], RIDGE, 1)
    assert found.count == 1
    assert all(np.isfinite(step.loss) for step in found.steps)


# By parameters


def literal_silhouette(X: np.ndarray, labels: tuple[int, ...]) -> float:
    scores = []
    for i, x in enumerate(X):
        of = {
            name: [np.linalg.norm(x - y) for j, y in enumerate(X) if labels[j] == name and j != i]
            for name in set(labels)
        }
        own = of.pop(labels[i])
        if not own:
            scores.append(0.0)
            continue
        a, b = np.mean(own), min(np.mean(d) for d in of.values())
        scores.append((b - a) / max(a, b))
    return float(np.mean(scores))


def test_algorithm_1_takes_the_number_of_groups_with_the_best_silhouette() -> None:
    found = by_parameters(SAID, RIDGE)
    assert alike(found.labels, TRUTH)
    assert list(found.silhouettes) == list(range(2, len(SAID)))
    assert max(found.silhouettes, key=lambda k: found.silhouettes[k]) == 3
    for count, score in found.silhouettes.items():
        labels = by_parameters(SAID, RIDGE, count).labels
        assert score == pytest.approx(literal_silhouette(betas(), labels), rel=1e-6)


def test_what_has_no_structure_is_one_group_unless_the_paper_is_taken_at_its_word() -> None:
    same = [contribution_of(f"{n}", near_plane(1, n)) for n in range(8)]
    assert by_parameters(same, RIDGE, silhouette=0.9).count == 1
    assert by_parameters(same, RIDGE, silhouette=-1.0).count > 1


def test_what_can_not_be_grouped_is_said() -> None:
    with pytest.raises(BadInput, match="distance"):
        group(SAID, RIDGE, "looks")
    for rule in (by_evidence, by_parameters):
        with pytest.raises(BadInput, match="can't make 99 groups"):
            rule(SAID, RIDGE, 99)
        with pytest.raises(BadInput, match="groups"):
            rule(SAID, RIDGE, 0)
        with pytest.raises(Mismatch):
            rule([*SAID, Contribution("other", 9, (fan_evidence(near_plane(1, 1)),))], RIDGE)
        assert rule([], RIDGE).count == 0
        assert rule(SAID[:1], RIDGE).labels == (0,)


# By distance


def test_by_distance_devices_of_one_kind_are_a_group() -> None:
    """More than are compared without screening by loss."""
    held = [distance_contribution(f"{n:02}", cloud(n % 3, n)) for n in range(12)]
    found = by_evidence(held, RIDGE)
    assert found.labels == (0, 1, 2) * 4
    assert found.refused is not None
    assert max(step.loss for step in found.steps) <= 0.1 < found.refused.loss
    assert by_evidence(held, RIDGE, 2).count == 2
    assert by_evidence(held, RIDGE, tolerance=-1.0).count == 12
    assert by_evidence([], RIDGE).count == 0


def test_by_distance_a_join_loses_how_much_farther_the_worse_off_lie() -> None:
    clouds = (cloud(0, 1), cloud(0, 2), cloud(1, 3))
    a, b, c = (fit(distance_contribution("x", X).evidence, 0.0) for X in clouds)
    away = max(a.distance.mean_score(c.distance), c.distance.mean_score(a.distance))
    assert a.loss_with(c) == c.loss_with(a) == pytest.approx(away - 1.0)
    assert abs(a.loss_with(b)) < 0.1 < 1.0 < a.loss_with(c)


def test_by_distance_there_are_no_parameters_to_group_by() -> None:
    held = [distance_contribution(f"{n}", cloud(0, n)) for n in range(3)]
    with pytest.raises(BadInput, match="no parameters β to be grouped by: group them by evidence"):
        by_parameters(held, RIDGE)
