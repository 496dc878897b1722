"""The demo's data: handwritten digits, one for each device."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmgrove.algebra import Array
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
        bunch = require_extra("sklearn.datasets", "demo").load_digits()
        order = np.random.default_rng(seed).permutation(len(bunch.data))
        rows, digits = bunch.data[order] / 16.0, bunch.target[order]
        cut = len(rows) // 5
        return cls(rows[cut:], digits[cut:], rows[:cut], digits[:cut])

    def rows_of(self, digit: int) -> Array:
        """Gives the training rows of one digit, which one device learns."""
        rows: Array = self.train[self.train_digit == digit]
        return rows

    def write(self, digit: int, path: Path) -> None:
        """Writes the training rows of one digit as a CSV file."""
        names = ",".join(f"pixel {index}" for index in range(PIXELS))
        np.savetxt(path, self.rows_of(digit), "%.4f", ",", header=names, comments="")
