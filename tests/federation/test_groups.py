"""Groups: which patterns the rules put together, and why."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Evidence, Mismatch
from elmgrove.algebra.similarity import fit
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import Grouping, StandingGroups, group, local_models, returned
from support.factories import (
    BASIS,
    DISTANT,
    RIDGE,
    cloud,
    contribution_of,
    distance_contribution,
    evidence_of,
    near_plane,
)
from support.laws import law_examples, law_seeds
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
    for step in (*found.steps, found.refused):
        sides = ([PATTERNS[i] for i in side] for side in (step.first, step.second))
        assert step.loss == pytest.approx(literal_loss(*sides), rel=1e-6)
    assert max(step.loss for step in found.steps) <= 0.3 < found.refused.loss


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


# Kept up to date: against literal transcriptions, and the laws of coming, changing and going

#: Rows of one group differ by up to a fifth in what one model for all of them loses.
TOLERANCE = 0.3


def standing_of(grouping: Grouping) -> StandingGroups:
    return StandingGroups(BASIS, RIDGE, grouping, tolerance=TOLERANCE)


def begun(*contributions: Contribution) -> StandingGroups:
    return standing_of(group(contributions, RIDGE, tolerance=TOLERANCE))


def require_alike(one: StandingGroups, other: StandingGroups) -> None:
    """Asserts that two groupings have equal members and give everybody equal sums."""
    assert one.grouping == other.grouping
    for origin in {model.origin for model in one.grouping.models} | {"nobody"}:
        assert one.partners(origin) == other.partners(origin)
        pairs = zip(one.returned(origin), other.returned(origin), strict=True)
        assert all(mine.close_to(theirs, 1e-12) for mine, theirs in pairs)


# Algorithm 2


def literal_by_evidence(
    groups: dict[int, list[np.ndarray]], new: list[np.ndarray]
) -> tuple[list[int], dict[int, list[np.ndarray]]]:
    chosen = []
    for X in new:
        losses = {k: literal_loss(members, [X]) for k, members in groups.items()}
        least = min(losses, key=lambda k: losses[k])
        if losses[least] > TOLERANCE:
            least = len(groups)
        groups.setdefault(least, []).append(X)
        chosen.append(least)
    return chosen, groups


@pytest.mark.parametrize("seed", law_seeds(3))
def test_by_evidence_new_ones_go_where_least_is_lost_or_are_a_group_of_their_own(seed: int) -> None:
    first = group(SAID, RIDGE, tolerance=TOLERANCE)
    chance = np.random.default_rng(seed)
    new = [near_plane(int(pattern), 90 + n) for n, pattern in enumerate(chance.integers(1, 7, 20))]
    groups = standing_of(first)
    chosen = [groups.take(contribution_of(f"new {n}", X))[0] for n, X in enumerate(new)]
    known = {
        number: [PATTERNS[int(model.origin)] for model in first.members(number)]
        for number in first.numbers
    }
    expected, members = literal_by_evidence(known, new)
    assert chosen == expected
    assert len(members) > first.count, "some were of no group that was known"
    assert min(chosen) < first.count, "and some were"


# Algorithm 3


def literal_return(members: dict[tuple[str, int], tuple[int, np.ndarray]], i: str) -> list[int]:
    """Lines 10 to 22 for one client: the global models that it gets."""
    clusters = sorted({cluster for cluster, _ in members.values()})
    own = [cluster for (origin, _), (cluster, _) in sorted(members.items()) if origin == i]
    got = []
    for k in clusters:  # 10
        if len(own) >= len(clusters):  # 12
            got.append(k)  # 13
        elif k in own:  # 16
            got.append(k)  # 17
    return got


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_what_comes_back_is_what_algorithm_3_says_without_ones_own(count: int) -> None:
    rows = {
        "a": [near_plane(1, 1)],
        "b": [near_plane(2, 2), near_plane(1, 3)],
        "c": [near_plane(3, 4, 80), near_plane(2, 5), near_plane(3, 6)],
        "d": [near_plane(2, 7)],
    }
    fleet = [contribution_of(origin, *parts) for origin, parts in rows.items()]
    grouping = group(fleet, RIDGE, count)
    groups = standing_of(grouping)
    members = {(i, j): (group_of(grouping, i, j), X) for i in rows for j, X in enumerate(rows[i])}
    for i in rows:
        expected, partners = [], set()
        for k in literal_return(members, i):
            others = {name: X for name, (its, X) in members.items() if its == k and name[0] != i}
            partners |= {origin for origin, _ in others}
            if others:
                expected.append(evidence_of(np.vstack(list(others.values()))))
        found = groups.returned(i)
        assert len(found) == len(expected)
        for part in expected:
            assert any(part.close_to(one, 1e-9) for one in found)
        assert groups.partners(i) == partners


# Coming, changing, going


def test_the_same_again_stays_where_it_is_even_if_it_would_now_go_elsewhere() -> None:
    parts = [contribution_of("a", near_plane(1, 1)), contribution_of("b", near_plane(2, 2))]
    groups = standing_of(Grouping(group(parts, RIDGE, 2).models, (0, 0)))
    assert groups.take(parts[1]) == (0,)
    assert groups.returned("a")[0] == parts[1].evidence


def test_groups_keep_their_numbers() -> None:
    fleet = [contribution_of(f"{pattern}", near_plane(pattern, pattern)) for pattern in (1, 2, 3)]
    groups = begun(*fleet)
    assert groups.grouping.labels == (0, 1, 2)
    groups.leave("2")
    assert (groups.grouping.labels, groups.grouping.numbers) == ((0, 2), [0, 2])
    assert groups.take(contribution_of("3", near_plane(3, 33))) == (2,), "though 1 is free"
    assert returned(groups.grouping) == {"1": (0,), "3": (2,)}
    assert groups.take(contribution_of("4", near_plane(4, 4))) == (1,)
    assert groups.take(contribution_of("5", near_plane(5, 5))) == (3,)


def test_what_was_learned_in_another_way_is_refused_and_changes_nothing() -> None:
    groups, before = begun(*SAID), begun(*SAID)
    with pytest.raises(Mismatch):
        groups.take(Contribution("0", 99, (fan_evidence(near_plane(1, 1)),)))
    require_alike(groups, before)


def test_something_huge_leaves_no_rounding_behind() -> None:
    # Two sizes: of one alone, a sum in two parts keeps all that is small.
    sizes = {"huge": 1e30, "large": 1e20}
    fleet = [*SAID, *(contribution_of(n, near_plane(1, 1) * size) for n, size in sizes.items())]
    groups = standing_of(Grouping(tuple(local_models(fleet)), (0,) * len(fleet)))
    expected = Evidence.sum(one.evidence for one in SAID[1:])
    assert not groups.returned("0")[0].close_to(expected, 1e-12)
    for name in sizes:
        groups.leave(name)
    assert groups.returned("0")[0].close_to(expected, 1e-12)


#: What three devices may have to say: one or two patterns, of three groups.
WORDS = {
    name: [
        contribution_of(
            name,
            *(
                near_plane(pattern, 100 * seed + n, 40 + 5 * n)
                for n, pattern in enumerate(patterns)
            ),
        )
        for seed, patterns in enumerate(((1,), (2,), (1, 2), (3, 1), (2, 2)), start=10 * place)
    ]
    for place, name in enumerate(("a", "b", "c"), start=1)
}
steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 4)), min_size=1, max_size=8
)


def walked(way: Sequence[tuple[str, int | None]]) -> StandingGroups:
    groups = begun(*SAID[:6])
    for name, word in way:
        if word is None:
            groups.leave(name)
        else:
            groups.take(WORDS[name][word])
    return groups


@settings(max_examples=law_examples(40), deadline=None)
@given(way=steps)
def test_sums_are_those_of_the_members_whatever_came_and_went(
    way: list[tuple[str, int | None]],
) -> None:
    groups = walked(way)
    newest = dict(way)
    held = {name: WORDS[name][word] for name, word in newest.items() if word is not None}
    expected = {one.origin: one for one in SAID[:6]} | held
    found = groups.grouping
    parts = {(name, j): part for name in expected for j, part in enumerate(expected[name].parts)}
    assert {model.name: model.evidence for model in found.models} == parts
    computed = standing_of(found)
    require_alike(groups, computed)


@settings(max_examples=law_examples(40), deadline=None)
@given(way=steps, name=st.sampled_from("abc"), word=st.integers(0, 4))
def test_the_same_twice_is_once_and_leaving_and_coming_back_too(
    way: list[tuple[str, int | None]], name: str, word: int
) -> None:
    # A device that is not there before can come, go and come again.
    way = [*way, (name, None)]
    once = walked([*way, (name, word)])
    require_alike(walked([*way, (name, word), (name, word)]), once)
    require_alike(walked([*way, (name, word), (name, None), (name, word)]), once)


# By distance


def test_by_distance_devices_join_change_and_leave_the_group_of_their_kind() -> None:
    groups = StandingGroups(DISTANT, RIDGE)
    held = [distance_contribution(f"{n}", cloud(n % 2, n)) for n in range(6)]
    assert [groups.take(one) for one in held] == [(0,), (1,)] * 3
    assert groups.partners("0") == {"2", "4"}
    # The first, about whose centre all were added up, becomes another kind, far away.
    groups.take(distance_contribution("0", 1e6 + cloud(3, 9)))
    assert groups.grouping.count == 3
    assert groups.partners("2") == {"4"}
    groups.leave("2")
    assert groups.returned("4") == ()
    groups.take(held[2])
    [back] = groups.returned("2")
    assert back.close_to(held[4].evidence, 1e-12)
