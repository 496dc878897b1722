"""MLMG's Algorithm 1 as printed: local models in groups by their parameters β."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from elmgrove.algebra import Array, Evidence
from elmgrove.algebra.kmeans import cluster, k_means
from elmgrove.federation import Contribution, Grouping
from elmgrove.federation.groups import in_order, local_models

# What the algorithm tries unless a number of groups is asked for.
_MOST_GROUPS = 16


class ByParameters(NamedTuple):
    """Groups, and the silhouette of each number of them that was tried."""

    grouping: Grouping
    silhouettes: dict[int, float]


def by_parameters(
    contributions: Iterable[Contribution],
    ridge: float,
    count: int | None = None,
    *,
    silhouette: float = 0.1,
) -> ByParameters:
    """Groups patterns by K-means on β, as many as the silhouette says, or ``count``.

    Close parameters do not mean that one model serves both: the distance knows nothing of where the
    rows lie. A weaker structure than ``silhouette`` is none; the paper's has no such limit (−1).
    """
    models = tuple(local_models(contributions))
    if not models:
        return ByParameters(Grouping(), {})
    X = _coordinates(np.array([parameters(model.evidence, ridge) for model in models]))
    if count is not None:
        return ByParameters(Grouping(models, in_order(k_means(X, count))), {})
    found = cluster(X, _MOST_GROUPS, silhouette)
    return ByParameters(Grouping(models, in_order(found.labels)), found.scores)


def parameters(evidence: Evidence, ridge: float) -> Array:
    """Solves for β as one vector, which the paper compares models by."""
    beta: Array = np.asarray(evidence.solve(ridge), np.float64).ravel()
    return beta


def _coordinates(X: Array) -> Array:
    """Points that lie as far from each other, with as few numbers as there are points."""
    if X.shape[0] >= X.shape[-1]:
        return X
    return np.asarray(np.linalg.qr(X.T, mode="r")).T
