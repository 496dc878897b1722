"""Standing groups: against literal transcriptions, and the laws of coming, changing and going."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, Evidence, HiddenLayer, Mismatch
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import Grouping, by_evidence, by_parameters, group, returned
from elmgrove.federation.merged import Merged
from elmgrove.federation.standing import StandingGroups
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
from support.patterns import PATTERNS, SAID, TRUTH, betas, group_of, literal_loss
from support.serving import fan_evidence

DISTANCES = pytest.mark.parametrize("distance", ["evidence", "parameters"])
#: Rows of one group differ by up to a fifth in what one model for all of them loses.
TOLERANCE = 0.3


def standing(grouping: Grouping) -> StandingGroups:
    return StandingGroups(BASIS, RIDGE, grouping, TOLERANCE)


def begun(distance: str, *contributions: Contribution) -> StandingGroups:
    if distance == "evidence":
        return standing(by_evidence(contributions, RIDGE, tolerance=TOLERANCE))
    return standing(by_parameters(contributions, RIDGE))


def alike(one: StandingGroups, other: StandingGroups) -> None:
    """Asserts that two groupings have equal members and give everybody equal sums."""
    assert one.grouping == other.grouping
    for origin in {model.origin for model in one.grouping.models} | {"nobody"}:
        assert one.partners(origin) == other.partners(origin)
        pairs = zip(one.returned(origin), other.returned(origin), strict=True)
        assert all(mine.close_to(theirs, 1e-12) for mine, theirs in pairs)


# Algorithm 2


def literal_algorithm_2(
    W: list[np.ndarray], labels: Sequence[int], new: list[np.ndarray]
) -> list[int]:
    members = {k: [w for w, label in zip(W, labels, strict=True) if label == k] for k in labels}
    C = {k: np.mean(members[k], axis=0) for k in members}
    chosen = []
    for W_t in new:  # 12
        Dist = {k: np.sqrt(np.square(W_t - C[k]).sum()) for k in C}  # 13, 14
        r = min(Dist, key=lambda k: Dist[k])  # 16
        C[r] = C[r] + (W_t - C[r]) / (len(members[r]) + 1)  # 17
        members[r].append(W_t)
        chosen.append(r)
    return chosen


@pytest.mark.parametrize("seed", law_seeds(3))
def test_by_parameters_new_ones_go_to_the_nearest_centre_which_moves(seed: int) -> None:
    first = by_parameters(SAID, RIDGE, 3)
    chance = np.random.default_rng(seed)
    new = [near_plane(int(pattern), 90 + n) for n, pattern in enumerate(chance.integers(1, 9, 20))]
    groups = standing(first)
    chosen = [groups.take(contribution_of(f"new {n}", X))[0] for n, X in enumerate(new)]
    vectors = [evidence_of(X).solve(RIDGE).ravel() for X in new]
    assert chosen == literal_algorithm_2(list(betas()), first.labels, vectors)
    assert len(set(chosen)) > 1
    assert [group_of(groups.grouping, f"new {n}") for n in range(20)] == chosen
    assert groups.grouping.count == 3


def test_the_centre_moves() -> None:
    """Where it stayed, the last one would go elsewhere."""
    scaled = [evidence_of(near_plane(1, 1)).V * size for size in (0.0, 1.0, 0.45, 0.6)]
    parts = [Evidence(BASIS, evidence_of(near_plane(1, 1)).U, V, 1e6, 60) for V in scaled]
    a, b, c, d = (Contribution(name, 60, (part,)) for name, part in zip("abcd", parts, strict=True))
    groups = standing(by_parameters([a, b], RIDGE, 2))
    assert groups.take(c) == (0,)
    # From the centres at 0.225 and 1, 0.6 is nearer to the first; from 0 and 1 it is not.
    assert groups.take(d) == (0,)


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
def test_by_evidence_new_ones_go_where_least_is_lost_or_are_a_group_of_their_own(
    seed: int,
) -> None:
    first = by_evidence(SAID, RIDGE, tolerance=TOLERANCE)
    chance = np.random.default_rng(seed)
    new = [near_plane(int(pattern), 90 + n) for n, pattern in enumerate(chance.integers(1, 7, 20))]
    groups = standing(first)
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


@DISTANCES
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_what_comes_back_is_what_algorithm_3_says_without_ones_own(
    distance: str, count: int
) -> None:
    rows = {
        "a": [near_plane(1, 1)],
        "b": [near_plane(2, 2), near_plane(1, 3)],
        "c": [near_plane(3, 4, 80), near_plane(2, 5), near_plane(3, 6)],
        "d": [near_plane(2, 7)],
    }
    fleet = [contribution_of(origin, *parts) for origin, parts in rows.items()]
    grouping = group(fleet, RIDGE, distance, count)
    groups = standing(grouping)
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
        merged = groups.merged("fans", 7, i)
        assert merged == Merged(
            *("fans", 7, len(partners), found or merged.parts, distance),
            apart=bool(found),
        )
        assert merged.evidence.count == sum(part.count for part in expected)


def test_a_device_that_is_not_there_gets_nothing() -> None:
    for groups in (begun("evidence", *SAID), begun("parameters", *SAID), begun("evidence")):
        assert groups.returned("nobody") == ()
        assert groups.partners("nobody") == frozenset()
        assert groups.merged("fans", 1, "nobody").evidence == Evidence.zero(BASIS)


# Coming, changing, going


@DISTANCES
def test_a_device_takes_its_own_place_again_and_leaves_no_trace(
    distance: str,
) -> None:
    groups, before = begun(distance, *SAID), begun(distance, *SAID)
    device = contribution_of("device", near_plane(1, 70), near_plane(2, 71), near_plane(1, 72, 0))
    once = groups.take(device)
    assert once == tuple(group_of(groups.grouping, str(TRUTH.index(one))) for one in (1, 2))
    after = begun(distance, *SAID)
    after.take(device)
    assert groups.take(device) == once
    alike(groups, after)
    assert groups.take(contribution_of("device", near_plane(3, 72))) == (
        group_of(groups.grouping, "5"),
    )
    groups.leave("device")
    groups.leave("device")
    alike(groups, before)
    assert groups.take(device) == once
    alike(groups, after)


@DISTANCES
def test_the_same_again_stays_where_it_is_even_if_it_would_now_go_elsewhere(distance: str) -> None:
    parts = [contribution_of("a", near_plane(1, 1)), contribution_of("b", near_plane(2, 2))]
    groups = standing(Grouping(distance, tuple(group(parts, RIDGE, distance, 2).models), (0, 0)))
    assert groups.take(parts[1]) == (0,)
    assert groups.returned("a")[0] == parts[1].evidence


def test_by_parameters_a_centre_without_members_stays_where_it_was() -> None:
    two = [contribution_of("a", near_plane(1, 1)), contribution_of("b", near_plane(2, 2))]
    groups = standing(by_parameters(two, RIDGE, 2))
    groups.leave("b")
    assert groups.grouping.count == 1
    assert groups.take(two[1]) == (1,)


def test_groups_keep_their_numbers() -> None:
    fleet = [contribution_of(f"{pattern}", near_plane(pattern, pattern)) for pattern in (1, 2, 3)]
    groups = begun("evidence", *fleet)
    assert groups.grouping.labels == (0, 1, 2)
    groups.leave("2")
    assert (groups.grouping.labels, groups.grouping.numbers) == ((0, 2), [0, 2])
    assert groups.take(contribution_of("3", near_plane(3, 33))) == (2,), "though 1 is free"
    assert returned(groups.grouping) == {"1": (0,), "3": (2,)}
    assert groups.take(contribution_of("4", near_plane(4, 4))) == (1,)
    assert groups.take(contribution_of("5", near_plane(5, 5))) == (3,)


def test_from_nothing_the_first_one_is_a_group() -> None:
    for distance in ("evidence", "parameters"):
        groups = begun(distance)
        assert groups.take(SAID[0]) == (0,)
        assert groups.returned("0") == ()


def test_what_was_learned_in_another_way_is_refused_and_changes_nothing() -> None:
    groups, before = begun("evidence", *SAID), begun("evidence", *SAID)
    with pytest.raises(Mismatch):
        groups.take(Contribution("0", 99, (fan_evidence(near_plane(1, 1)),)))
    alike(groups, before)


def test_something_huge_leaves_no_rounding_behind() -> None:
    groups = standing(Grouping("parameters", by_parameters(SAID, RIDGE).models, (0,) * len(SAID)))
    expected = Evidence.sum(one.evidence for one in SAID[1:])
    # Two sizes: of one alone, a sum in two parts keeps all that is small.
    for name, size in (("huge", 1e30), ("large", 1e20)):
        groups.take(contribution_of(name, near_plane(1, 1) * size))
    assert not groups.returned("0")[0].close_to(expected, 1e-12)
    for name in ("huge", "large"):
        groups.leave(name)
    assert groups.returned("0")[0].close_to(expected, 1e-12)


def test_it_says_what_it_holds() -> None:
    layer = HiddenLayer(6, 4, seed=1)
    groups = StandingGroups(Basis(layer, 6), RIDGE, Grouping("parameters", (), ()))
    assert groups.nbytes == 0
    X = near_plane(1, 1)
    H = layer(X)
    one = Evidence(Basis(layer, 6), H.T @ H, H.T @ X, float(np.square(X).sum()), 60)
    groups.take(Contribution("a", 60, (one,)))
    assert groups.nbytes >= 2 * (one.U.nbytes + one.V.nbytes)


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


def walked(distance: str, way: Sequence[tuple[str, int | None]]) -> StandingGroups:
    groups = begun(distance, *SAID[:6])
    for name, word in way:
        if word is None:
            groups.leave(name)
        else:
            groups.take(WORDS[name][word])
    return groups


@DISTANCES
@settings(max_examples=law_examples(40), deadline=None)
@given(way=steps)
def test_sums_are_those_of_the_members_whatever_came_and_went(
    distance: str, way: list[tuple[str, int | None]]
) -> None:
    groups = walked(distance, way)
    newest = dict(way)
    held = {name: WORDS[name][word] for name, word in newest.items() if word is not None}
    expected = {one.origin: one for one in SAID[:6]} | held
    found = groups.grouping
    parts = {(name, j): part for name in expected for j, part in enumerate(expected[name].parts)}
    assert {model.name: model.evidence for model in found.models} == parts
    computed = StandingGroups(BASIS, RIDGE, found, TOLERANCE)
    alike(groups, computed)


@DISTANCES
@settings(max_examples=law_examples(40), deadline=None)
@given(way=steps, name=st.sampled_from("abc"), word=st.integers(0, 4))
def test_the_same_twice_is_once_and_leaving_and_coming_back_too(
    distance: str, way: list[tuple[str, int | None]], name: str, word: int
) -> None:
    # A device that is not there before can come, go and come again.
    way = [*way, (name, None)]
    once = walked(distance, [*way, (name, word)])
    alike(walked(distance, [*way, (name, word), (name, word)]), once)
    alike(walked(distance, [*way, (name, word), (name, None), (name, word)]), once)


# By distance


def test_by_distance_devices_join_change_and_leave_the_group_of_their_kind() -> None:
    groups = StandingGroups(DISTANT, RIDGE, by_evidence([], RIDGE))
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
    assert groups.merged("fans", 1, "2").devices == 1


def test_by_distance_standing_groups_by_parameters_are_refused() -> None:
    with pytest.raises(BadInput, match="no parameters"):
        StandingGroups(DISTANT, RIDGE, Grouping("parameters", (), ()))
