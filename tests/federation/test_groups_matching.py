"""Which global model comes back to which local model: the second half of Algorithm 3."""

from elmgrove.federation.groups import by_evidence, returned
from support.factories import RIDGE, contribution_of, near_plane
from support.patterns import group_of

#: a: one pattern, b: two, c: three, of three groups in all.
FLEET = {
    "a": [near_plane(1, 1)],
    "b": [near_plane(2, 2), near_plane(1, 3)],
    "c": [near_plane(3, 4, 80), near_plane(2, 5), near_plane(3, 6)],
}
SAID = [contribution_of(origin, *parts) for origin, parts in FLEET.items()]


def test_with_as_many_models_as_groups_all_come_back_else_ones_own() -> None:
    grouping = by_evidence(SAID, RIDGE, 3)
    a, b = group_of(grouping, "a"), [group_of(grouping, "b", j) for j in (0, 1)]
    assert a == b[1] != b[0]
    assert returned(grouping) == {"a": (a,), "b": tuple(b), "c": (0, 1, 2)}
    assert returned(by_evidence(SAID, RIDGE, 2))["c"] == (0, 1, None)
