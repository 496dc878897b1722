"""Handwritten digits, as rows for those who have none of their own."""

from dataclasses import dataclass

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.errors import require_extra

PIXELS = 64


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits, 8 × 8 pixels in [0, 1]; one row in five is for tests."""

    train: Array
    train_digit: Array
    test: Array
    test_digit: Array

    @classmethod
    def load(cls, seed: int) -> "Digits":
        """Loads the digits, in an order that the seed decides."""
        bunch = require_extra("sklearn.datasets", "sklearn").load_digits()
        order = np.random.default_rng(seed).permutation(len(bunch.data))
        rows, digits = bunch.data[order] / 16.0, bunch.target[order]
        cut = len(rows) // 5
        return cls(rows[cut:], digits[cut:], rows[:cut], digits[:cut])
