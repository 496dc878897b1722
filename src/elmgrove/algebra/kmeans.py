"""K-means clusters of rows, and how many there are by the silhouette."""

from typing import NamedTuple

import numpy as np

from elmgrove.algebra.rows import Array

_ROUNDS = 50


class Clustering(NamedTuple):
    """The cluster of each row, and the silhouette of each number of clusters that was tried."""

    labels: Array
    scores: dict[int, float]


def cluster(X: Array, most: int, least_score: float) -> Clustering:
    """Clusters rows, into as many up to ``most`` as the best silhouette says.

    MLMG's Algorithm 1. One cluster where even the best is below ``least_score`` (the paper's λ).
    Equal rows in an equal order give equal clusters: K-means starts from rows that lie far apart.
    """
    labels, scores = {1: np.zeros(len(X), np.intp)}, dict[int, float]()
    D = distances(X, X)
    for count in range(2, min(most, len(X) - 1) + 1):
        labels[count] = k_means(X, count, D)
        # There may not be so many different rows.
        if len(np.unique(labels[count])) == count:
            scores[count] = silhouette(D, labels[count])
    best = max(scores, key=lambda count: scores[count], default=1)
    return Clustering(labels[best if scores.get(best, -1.0) >= least_score else 1], scores)


def k_means(X: Array, count: int, D: Array | None = None) -> Array:
    """Clusters rows by K-means: a number for each; fewer if there are fewer different rows."""
    D = distances(X, X) if D is None else D
    # The row nearest to all, then always the one farthest from those chosen.
    chosen = [int(D.sum(axis=1).argmin())]
    while len(chosen) < count:
        farthest = D[chosen].min(axis=0)
        if farthest.max() == 0.0:
            break
        chosen.append(int(farthest.argmax()))
    centers = X[chosen].astype(np.float64)
    labels: Array = distances(X, centers).argmin(axis=1)
    for _ in range(_ROUNDS):
        for name in np.unique(labels):
            centers[name] = X[labels == name].mean(axis=0, dtype=np.float64)
        before, labels = labels, distances(X, centers).argmin(axis=1)
        if np.array_equal(before, labels):
            break
    return labels


def distances(X: Array, Y: Array) -> Array:
    """Computes the distance of each row of X to each of Y; exactly 0 where they are equal.

    SciPy's ``cdist`` would load half of SciPy with every import of Elmgrove.
    """
    return np.stack([np.sqrt(np.square(X - y).sum(axis=1)) for y in Y], axis=1)


def silhouette(D: Array, labels: Array) -> float:
    """Computes how well clusters are apart: the mean of (b − a) / max(a, b) over rows.

    a is a row's mean distance to its own cluster, b that to the next nearest one. From −1 to 1;
    rows that are alone in their cluster count as 0 (Rousseeuw 1987).
    """
    names, sizes = np.unique(labels, return_counts=True)
    sums = np.stack([D[:, labels == name].sum(axis=1) for name in names], axis=1)
    own = np.searchsorted(names, labels)
    rows = np.arange(len(D))
    a = sums[rows, own] / np.maximum(sizes[own] - 1, 1)
    means = sums / sizes
    means[rows, own] = np.inf
    b = means.min(axis=1)
    widest = np.maximum(a, b)
    score = np.divide(b - a, widest, out=np.zeros(len(D)), where=widest > 0)
    return float(np.where(sizes[own] > 1, score, 0.0).mean())
