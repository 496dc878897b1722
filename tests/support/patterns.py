"""Rows of several patterns, each with a structure of its own and a place where it lies."""

import numpy as np

from elmgrove.federation.groups import Grouping
from support.factories import RIDGE, contribution_of, evidence_of, near_plane

INPUTS = 6


def rows_of(pattern: int, seed: int, count: int, inputs: int = INPUTS) -> np.ndarray:
    """Rows of one pattern: two hidden numbers each, mixed in the pattern's own way, and noise."""
    shape, rng = np.random.default_rng(1000 + pattern), np.random.default_rng([pattern, seed])
    mixing, middle = shape.normal(size=(2, inputs)), 8.0 * shape.choice([-1.0, 1.0], size=inputs)
    noise = 0.05 * rng.normal(size=(count, inputs))
    return middle * (pattern > 0) + rng.normal(size=(count, 2)) @ mixing + noise


def mixed(seed: int, count: int, patterns: int = 2) -> np.ndarray:
    """As many rows of each pattern, in any order."""
    rows = np.vstack([rows_of(each, seed, -(-count // patterns)) for each in range(patterns)])
    return np.random.default_rng(seed).permutation(rows)[:count]


# Patterns of several devices in three groups, and what joining them loses.


#: The rows of two to four patterns a group.
PATTERNS = [near_plane(one, 10 * one + n, 60 + 7 * n) for one in (1, 2, 3) for n in range(one + 1)]
#: The group of each.
TRUTH = [group for group in (1, 2, 3) for _ in range(group + 1)]
#: A device with each pattern.
SAID = [contribution_of(f"{n}", X) for n, X in enumerate(PATTERNS)]


def literal_loss(parts: list[np.ndarray], others: list[np.ndarray]) -> float:
    """From rows: the growth of the worse off's error under one model of both."""
    X, Y = np.vstack(parts), np.vstack(others)
    joint = evidence_of(np.vstack([X, Y])).solve(RIDGE)
    growth = []
    for Z in (X, Y):
        H = evidence_of(Z).basis.layer(Z)
        after, before = (
            np.square(Z - H @ beta).sum() for beta in (joint, evidence_of(Z).solve(RIDGE))
        )
        growth.append(after / before - 1)
    return float(max(growth))


def betas() -> np.ndarray:
    """The model of each pattern, one a row."""
    return np.array([evidence_of(X).solve(RIDGE).ravel() for X in PATTERNS])


def group_of(grouping: Grouping, origin: str, pattern: int = 0) -> int:
    """The group of a device's pattern."""
    pairs = zip(grouping.models, grouping.labels, strict=True)
    return {model.name: label for model, label in pairs}[origin, pattern]
