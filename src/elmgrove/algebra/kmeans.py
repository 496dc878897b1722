"""K-means clusters of rows, and how many there are by the silhouette."""

from typing import NamedTuple

import numpy as np

from elmgrove.algebra.rows import Array


class Clustering(NamedTuple):
    """The cluster of each row, and the silhouette of each number of clusters that was tried."""

    labels: Array
    scores: dict[int, float]


def cluster(X: Array, most: int, least_score: float) -> Clustering:
    """Clusters rows, into as many up to ``most`` as the best silhouette says.

    MLMG's Algorithm 1. One cluster where even the best is below ``least_score`` (the paper's λ).
    Equal rows in an equal order give equal clusters: the draws are those of a fixed seed.
    """
    labels, scores = {1: np.zeros(len(X), np.intp)}, dict[int, float]()
    D = distances(X, X)
    for count in range(2, min(most, len(X) - 1) + 1):
        labels[count] = k_means(X, count)
        # There may not be so many different rows.
        if len(np.unique(labels[count])) == count:
            scores[count] = silhouette(D, labels[count])
    best = max(scores, key=lambda count: scores[count], default=1)
    return Clustering(labels[best if scores.get(best, -1.0) >= least_score else 1], scores)


def k_means(X: Array, count: int) -> Array:
    """Clusters rows by K-means: a number for each; fewer if there are fewer different rows.

    The best of ten starts, each by k-means++ (Arthur and Vassilvitskii 2007).
    """
    draw = np.random.Generator(np.random.PCG64(0))
    best, least = np.zeros(len(X), np.intp), np.inf
    for _ in range(10):
        centers = _far_apart(X, count, draw)
        D = distances(X, centers)
        for _ in range(50):
            labels = D.argmin(axis=1)
            for name in np.unique(labels):
                centers[name] = X[labels == name].mean(axis=0, dtype=np.float64)
            D = distances(X, centers)
            if np.array_equal(D.argmin(axis=1), labels):
                break
        inertia = float(np.square(D.min(axis=1)).sum())
        if inertia < least:
            best, least = D.argmin(axis=1), inertia
    # Numbered as they come in the rows, whatever the draws were.
    _, first, numbers = np.unique(best, return_index=True, return_inverse=True)
    numbered: Array = first.argsort().argsort()[numbers]
    return numbered


def _far_apart(X: Array, count: int, draw: np.random.Generator) -> Array:
    """Draws rows to start from, each with a probability by its square distance to those before."""
    chosen = [int(draw.integers(len(X)))]
    away = np.square(distances(X, X[chosen])[:, 0])
    while len(chosen) < count and away.max() > 0.0:
        # Of a few draws the one that leaves the least, as scikit-learn does.
        cumulative = np.cumsum(away)
        places = np.searchsorted(cumulative, draw.random(2 + int(np.log(count))) * cumulative[-1])
        left = np.minimum(away[:, np.newaxis], np.square(distances(X, X[places])))
        least = int(left.sum(axis=0).argmin())
        chosen.append(int(places[least]))
        away = left[:, least]
    return X[chosen].astype(np.float64)


def distances(X: Array, Y: Array) -> Array:
    """Computes the distance of each row of X to each of Y; exactly 0 where they are equal."""
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
