"""Rows of several kinds, each with a structure of its own and a place where it lies."""

import numpy as np

from elmgrove.federation import Grouping

INPUTS = 6


def rows_of(kind: int, seed: int, count: int, inputs: int = INPUTS) -> np.ndarray:
    """Rows of one kind: two hidden numbers each, mixed in the kind's own way, and some noise."""
    shape, rng = np.random.default_rng(1000 + kind), np.random.default_rng([kind, seed])
    mixing, middle = shape.normal(size=(2, inputs)), 8.0 * shape.choice([-1.0, 1.0], size=inputs)
    noise = 0.05 * rng.normal(size=(count, inputs))
    return middle * (kind > 0) + rng.normal(size=(count, 2)) @ mixing + noise


def mixed(seed: int, count: int, kinds: int = 2) -> np.ndarray:
    """As many rows of each kind, in any order."""
    rows = np.vstack([rows_of(kind, seed, -(-count // kinds)) for kind in range(kinds)])
    return np.random.default_rng(seed).permutation(rows)[:count]


def group_of(grouping: Grouping, origin: str, pattern: int = 0) -> int:
    """The group of a device's pattern."""
    pairs = zip(grouping.models, grouping.labels, strict=True)
    return {model.name: label for model, label in pairs}[origin, pattern]
