"""Rows with labels, split into those to learn from and those to test with."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Labelled:
    """A data set with its official split; ``names`` are those of the labels 0, 1, 2, …"""

    train: Array
    train_label: Array
    test: Array
    test_label: Array
    names: tuple[str, ...]

    @property
    def width(self) -> int:
        """Columns of a row."""
        return int(self.train.shape[1])

    def thinned(self, step: int) -> "Labelled":
        """The same with every so many-th test row."""
        return replace(self, test=self.test[::step], test_label=self.test_label[::step])

    def first(self, labels: int) -> "Labelled":
        """The same with the rows of the first few labels alone."""
        train, test = self.train_label < labels, self.test_label < labels
        return Labelled(
            *(self.train[train], self.train_label[train]),
            *(self.test[test], self.test_label[test]),
            self.names[:labels],
        )

    def rescaled(self, low: float, high: float) -> "Labelled":
        """The same with values in [0, 1] that are from ``low`` to ``high`` here.

        HAR's lie in [−1, 1]: a network that ends in a sigmoid could not give those back.
        """
        train, test = ((rows - low) / (high - low) for rows in (self.train, self.test))
        return replace(self, train=train, test=test)

    def shuffled(self, share: float, rng: np.random.Generator) -> "Labelled":
        """The same rows in another split: this share of all, at random, to learn from."""
        rows = np.vstack([self.train, self.test])
        labels = np.concatenate([self.train_label, self.test_label])
        order = rng.permutation(len(rows))
        first, rest = np.split(order, [round(share * len(rows))])
        return Labelled(rows[first], labels[first], rows[rest], labels[rest], self.names)
