"""Rows of several patterns, each with a structure of its own and a place where it lies."""

import numpy as np

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
