"""Into how many clusters rows fall."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from elmgrove.algebra.kmeans import cluster, k_means, silhouette
from support.laws import law_examples
from support.literal import initialized_clustering

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=law_examples(60), deadline=None)
@given(SEEDS, st.integers(4, 40), st.integers(2, 5))
def test_the_silhouette_is_that_of_scikit_learn(seed: int, count: int, clusters: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(count, 3)).astype(float)
    labels = rng.integers(0, min(clusters, count - 1), size=count) * 7
    labels[:2] = 0, 7
    expected = silhouette_score(X, labels)
    assert silhouette(cdist(X, X), labels) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=law_examples(60), deadline=None)
@given(SEEDS, st.integers(3, 60), st.integers(1, 6))
def test_k_means_ends_where_each_row_is_nearest_to_its_own_mean(
    seed: int, count: int, clusters: int
) -> None:
    X = np.random.default_rng(seed).normal(size=(count, 2))
    labels = k_means(X, clusters)
    names = np.unique(labels)
    means = np.stack([X[labels == name].mean(axis=0) for name in names])
    assert len(names) <= clusters
    np.testing.assert_array_equal(names[cdist(X, means).argmin(axis=1)], labels)
    np.testing.assert_array_equal(k_means(X, clusters), labels)


@settings(max_examples=law_examples(40), deadline=None)
@given(SEEDS, st.integers(4, 50), st.floats(0.0, 0.9), st.integers(1, 6))
def test_the_number_is_that_of_algorithm_1(seed: int, count: int, least: float, most: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 2)) + 4.0 * rng.integers(0, 2, size=(count, 2))
    found = cluster(X, most, least)
    assert list(found.scores) == list(range(2, min(most, count - 1) + 1))
    if not found.scores:
        assert not found.labels.any()
        return
    scores = {k: float(silhouette_score(X, k_means(X, k))) for k in found.scores}
    assert found.scores == pytest.approx(scores, abs=1e-9)
    number = initialized_clustering(found.scores, least)
    expected = k_means(X, number) if number > 1 else np.zeros(count)
    np.testing.assert_array_equal(found.labels, expected)


@pytest.mark.parametrize("seed", range(5))
def test_three_speeds_with_outliers_are_found_as_well_as_by_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed = np.repeat([1.0, 1.6, 2.4], 200)
    X = np.stack([speed, speed**2, speed**3], axis=1) + 0.08 * rng.normal(size=(600, 3))
    X[rng.choice(600, 4, replace=False)] += 6.0 * rng.normal(size=(4, 3))
    labels = k_means(X, 3)
    inertia = sum(np.square(X[labels == k] - X[labels == k].mean(axis=0)).sum() for k in range(3))
    theirs = KMeans(3, n_init=10, random_state=0).fit(X).inertia_
    assert inertia <= theirs * (1.0 + 1e-9)
