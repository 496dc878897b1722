"""What devices say whose rows lie near planes: their evidence as its definition has it."""

import numpy as np

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.federation.contribution import Contribution
from support.moments import moments_of

BASIS = Basis(HiddenLayer(6, 4, activation="tanh", seed=2), 6)
RIDGE = 0.05


def rows(seed: int, count: int = 40) -> np.ndarray:
    """Rows near a plane of three dimensions that only this seed has."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(count, 3)) @ rng.normal(size=(3, 6))
    return 0.3 * mixed + 0.01 * rng.normal(size=(count, 6))


def near(seed: int, noise: int, count: int = 60) -> np.ndarray:
    """Rows near the plane of this seed; a pattern like it has other noise."""
    mixing = np.random.default_rng(seed).normal(size=(3, 6))
    rng = np.random.default_rng(1000 + noise)
    X = rng.normal(size=(count, 3)) @ mixing
    return 0.3 * X + 0.01 * rng.normal(size=X.shape)


def evidence(X: np.ndarray, basis: Basis = BASIS) -> Evidence:
    H = basis.layer(X)
    return Evidence(basis, H.T @ H, H.T @ X, float(np.square(X).sum()), len(X))


def said(origin: str, *patterns: np.ndarray) -> Contribution:
    """What a device says that has these patterns."""
    parts = tuple(evidence(X) for X in patterns)
    return Contribution(origin, sum(map(len, patterns)), parts)


# By distance

#: Six columns as they come, for which all products are held.
DISTANT = Basis(HiddenLayer(6, 6), 6, score="distance")


def cloud(kind: int, noise: int, count: int = 600) -> np.ndarray:
    """Rows of one kind: they lie where, and vary together as, only that kind does."""
    shape, rng = np.random.default_rng(50 + kind), np.random.default_rng([kind, noise])
    middle, mixing = 5.0 * shape.normal(size=6), shape.normal(size=(3, 6))
    return middle + rng.normal(size=(count, 3)) @ mixing + 0.3 * rng.normal(size=(count, 6))


def distant(origin: str, *patterns: np.ndarray) -> Contribution:
    """What a device says that scores by distance and has these patterns."""
    parts = tuple(moments_of(DISTANT, X).about_mean() for X in patterns)
    return Contribution(origin, sum(map(len, patterns)), parts)
