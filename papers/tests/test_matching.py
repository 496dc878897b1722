"""Algorithm 3 against a literal transcription, in all its settings."""

from collections.abc import Sequence

import numpy as np
import pytest

from elmgrove.federation import Contribution, Grouping, group
from elmgrove_papers.mlmg.matching import Aggregation, averaged, global_models, matched, summed
from elmgrove_papers.mlmg.parameters import by_parameters
from support.factories import BASIS, RIDGE, contribution_of, near_plane, plane_rows
from support.patterns import group_of

AGGREGATIONS = pytest.mark.parametrize("aggregation", [summed, averaged])


#: a: one pattern, b: two, c: three, of three groups in all.
FLEET = {
    "a": [near_plane(1, 1)],
    "b": [near_plane(2, 2), near_plane(1, 3)],
    "c": [near_plane(3, 4, 80), near_plane(2, 5), near_plane(3, 6)],
}
SAID = [contribution_of(origin, *parts) for origin, parts in FLEET.items()]


def literal_global(rows_of: Sequence[np.ndarray], aggregation: Aggregation) -> np.ndarray:
    """Equations (4) and (5), from rows. The ridge is once in the sum, and in each average."""
    if aggregation is summed:
        H = BASIS.layer(np.vstack(rows_of))
        P = np.linalg.inv(H.T @ H + RIDGE * np.eye(4))
        return P @ H.T @ np.vstack(rows_of)
    size = sum(map(len, rows_of))
    return sum(len(X) / size * literal_global([X], summed) for X in rows_of)


def literal_matching(grouping: Grouping, aggregation: Aggregation) -> dict[str, list[np.ndarray]]:
    """Algorithm 3, line by line, on the rows."""
    K_g = grouping.count
    cluster = {i: [group_of(grouping, i, j) for j in range(len(FLEET[i]))] for i in FLEET}
    fed: list[list[np.ndarray]] = [[] for _ in range(K_g)]
    for i in FLEET:  # 2
        for j, X in enumerate(FLEET[i]):  # 3
            for k in range(K_g):
                if cluster[i][j] == k:  # 4
                    fed[k].append(X)  # 5
    What = [literal_global(parts, aggregation) for parts in fed]
    W = {i: [literal_global([X], summed) for X in FLEET[i]] for i in FLEET}
    for k in range(K_g):  # 10
        for i in FLEET:  # 11
            K_l = len(FLEET[i])
            if K_l >= K_g:  # 12
                W[i][k] = What[k]  # 13
            else:
                for j in range(K_l):  # 15
                    if cluster[i][j] == k:  # 16
                        W[i][j] = What[k]  # 17
    return W


@AGGREGATIONS
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_algorithm_3(count: int, aggregation: Aggregation) -> None:
    grouping = group(SAID, RIDGE, count)
    assert grouping.count == count
    expected = literal_matching(grouping, aggregation)
    found = matched(grouping, RIDGE, aggregation)
    assert found.keys() == expected.keys()
    for origin, models in expected.items():
        np.testing.assert_allclose(found[origin], models, rtol=1e-7, atol=1e-9)


# Three settings of the same functions


def whole(origin: str) -> Contribution:
    """A device with one model of all it has."""
    return contribution_of(origin, np.vstack(FLEET[origin]))


@AGGREGATIONS
def test_single_is_ordinary_federated_learning(aggregation: Aggregation) -> None:
    grouping = group([whole(origin) for origin in FLEET], RIDGE, 1)
    expected = literal_global([np.vstack(FLEET[origin]) for origin in FLEET], aggregation)
    found = matched(grouping, RIDGE, aggregation)
    assert list(found) == list(FLEET)
    for (beta,) in found.values():
        np.testing.assert_allclose(beta, expected, rtol=1e-7, atol=1e-9)


@AGGREGATIONS
def test_multi_global_gives_each_client_its_groups_model(aggregation: Aggregation) -> None:
    fleet = [
        contribution_of(f"{one}{n}", near_plane(one, 10 * one + n))
        for one in (1, 2)
        for n in range(3)
    ]
    grouping = by_parameters(fleet, RIDGE, 2).grouping
    models = global_models(grouping, RIDGE, aggregation)
    for one in (1, 2):
        alike = [near_plane(one, 10 * one + n) for n in range(3)]
        expected = literal_global(alike, aggregation)
        for n in range(3):
            (beta,) = matched(grouping, RIDGE, aggregation)[f"{one}{n}"]
            np.testing.assert_allclose(beta, expected, rtol=1e-7, atol=1e-9)
            assert (beta == models[group_of(grouping, f"{one}{n}")]).all()


def test_by_sum_a_groups_model_is_that_of_all_its_rows() -> None:
    grouping = group(SAID, RIDGE, 3)
    beta = global_models(grouping, RIDGE)[group_of(grouping, "a")]
    X = np.vstack([FLEET["a"][0], FLEET["b"][1]])
    assert {(m.origin, m.pattern) for m in grouping.members(group_of(grouping, "a"))} == {
        ("a", 0),
        ("b", 1),
    }
    np.testing.assert_allclose(beta, literal_global([X], summed), rtol=1e-7, atol=1e-9)


def test_different_rows_of_the_fleet_make_different_models() -> None:
    """The comparisons above would notice a model that is not that of its group."""
    betas = [literal_global([plane_rows(seed)], summed) for seed in (1, 2)]
    assert not np.allclose(*betas, rtol=0.1)
