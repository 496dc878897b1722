"""Rows, evidence, contributions and trained detectors: what most tests begin with."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove import Basis, Detector, Evidence, HiddenLayer
from elmgrove.federation.aggregation import StandingOthers
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.storage.disk import load
from support.moments import moments_of

# Rows


def normal_rows(seed: int, count: int = 20, columns: int = 6) -> np.ndarray:
    """Rows of independent numbers around zero."""
    return np.random.default_rng(seed).normal(size=(count, columns))


def correlated_rows(seed: int, count: int, mixing: np.ndarray, noise: float = 0.1) -> np.ndarray:
    """Rows that a few hidden numbers explain, each through its line of ``mixing``."""
    rng = np.random.default_rng(seed)
    hidden, columns = mixing.shape
    made: np.ndarray = rng.normal(size=(count, hidden)) @ mixing
    return made + noise * rng.normal(size=(count, columns))


def write_rows(path: Path, X: np.ndarray, names: list[str] | None = None) -> Path:
    """A CSV file that holds every bit of these rows."""
    lines = [",".join(names)] if names else []
    lines += [",".join(map(repr, row)) for row in X.tolist()]
    path.write_text("\n".join(lines) + "\n")
    return path


# Detectors


def trained(detector: Detector, X: Any, times: Any = None) -> Detector:
    """The detector, after it learned these rows."""
    detector.learn_many(X, times)
    return detector


def detector_for(data: Any, **settings: Any) -> Detector:
    """A detector with the layer that suits this data, which it has learned."""
    return trained(Detector.for_data(data, **settings), data)


def trained_member(member: Member, X: Any, times: Any = None) -> Member:
    """The device, after its detector learned these rows."""
    trained(member.detector, X, times)
    return member


def member_in(path: str | Path) -> Member:
    """The device whose state a file holds."""
    return load(Path(path), Member.from_bytes)


def detector_in(path: str | Path) -> Detector:
    return member_in(path).detector


# Evidence and contributions

BASIS = Basis(HiddenLayer(6, 4, activation="tanh", seed=2), 6)
SMALL = Basis(HiddenLayer(3, 2, activation="tanh", seed=1), 3)
RIDGE = 0.05


def evidence_of(X: np.ndarray, basis: Basis = BASIS) -> Evidence:
    """The sums over these rows, as their definition has them."""
    H = basis.layer(X)
    return Evidence(basis, H.T @ H, H.T @ X, float(np.square(X).sum()), len(X))


def contribution_of(origin: str, *patterns: np.ndarray, basis: Basis = BASIS) -> Contribution:
    """The contribution of a device that learned these rows, pattern by pattern."""
    parts = tuple(evidence_of(X, basis) for X in patterns)
    return Contribution(origin, sum(map(len, patterns)), parts)


def contribution_from(
    origin: str, count: int = 5, epoch: int | None = None, basis: Basis = SMALL
) -> Contribution:
    """The contribution of a device that learned so many rows of its own."""
    X = normal_rows(sum(origin.encode()), count, basis.inputs)
    return Contribution(origin, count if epoch is None else epoch, (evidence_of(X, basis),))


# Rows near planes, as models that score by loss learn them


def plane_rows(seed: int, count: int = 40) -> np.ndarray:
    """Rows near a plane of three dimensions that only this seed has."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(count, 3)) @ rng.normal(size=(3, 6))
    return 0.3 * mixed + 0.01 * rng.normal(size=(count, 6))


def near_plane(seed: int, noise: int, count: int = 60) -> np.ndarray:
    """Rows near the plane of this seed; a pattern like it has other noise."""
    mixing = np.random.default_rng(seed).normal(size=(3, 6))
    return 0.3 * correlated_rows(1000 + noise, count, mixing, 0.01 / 0.3)


# By distance

#: Six columns as they come, for which all products are held.
DISTANT = Basis(HiddenLayer(6, 6), 6, score="distance")


def cloud(kind: int, noise: int, count: int = 600) -> np.ndarray:
    """Rows of one kind: they lie where, and vary together as, only that kind does."""
    shape, rng = np.random.default_rng(50 + kind), np.random.default_rng([kind, noise])
    middle, mixing = 5.0 * shape.normal(size=6), shape.normal(size=(3, 6))
    return middle + rng.normal(size=(count, 3)) @ mixing + 0.3 * rng.normal(size=(count, 6))


def distance_contribution(origin: str, *patterns: np.ndarray) -> Contribution:
    """The contribution of a device that scores by distance, pattern by pattern."""
    parts = tuple(moments_of(DISTANT, X).about_mean() for X in patterns)
    return Contribution(origin, sum(map(len, patterns)), parts)


def standing_others(charter: Charter, contributions: Iterable[Contribution]) -> StandingOthers:
    """What a server keeps ready of these devices."""
    made = StandingOthers(charter)
    for one in contributions:
        made.take(one)
    return made
