"""Rows with labels, split into those to learn from and those to test with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from elmgrove.algebra import Array


@dataclass(frozen=True)
class Labelled:
    """A data set with its official split; ``names`` are those of the labels 0, 1, 2, …"""

    train: Array
    train_label: Array
    test: Array
    test_label: Array
    names: tuple[str, ...]

    @classmethod
    def loaded(
        cls,
        train: Array,
        train_label: Array,
        test: Array,
        test_label: Array,
        names: tuple[str, ...],
    ) -> "Labelled":
        """Makes a data set of what files hold; ``ValueError`` says why no figure could run on it.

        For loaders alone: parts that are taken from a data set later may lack a label.
        """
        for part, rows, labels in (("train", train, train_label), ("test", test, test_label)):
            _require_rows(part, rows, labels)
            _require_names(part, labels, names)
        if train.shape[1] != test.shape[1]:
            raise ValueError(f"{train.shape[1]} features in train, {test.shape[1]} in test")
        return cls(train, train_label.astype(np.intp), test, test_label.astype(np.intp), names)

    @property
    def width(self) -> int:
        """The number of a row's columns."""
        return int(self.train.shape[1])

    def thinned(self, step: int) -> "Labelled":
        """Keeps every ``step``-th test row, and all rows to learn from."""
        return replace(self, test=self.test[::step], test_label=self.test_label[::step])

    def only(self, names: Sequence[str]) -> "Labelled":
        """Keeps the rows of some labels alone, which count from 0 in this order."""
        numbers = {self.names.index(name): number for number, name in enumerate(names)}

        def part(rows: Array, labels: Array) -> tuple[Array, Array]:
            mine = np.isin(labels, list(numbers))
            return rows[mine], np.array([numbers[label] for label in labels[mine]], np.intp)

        train, test = part(self.train, self.train_label), part(self.test, self.test_label)
        return Labelled(*train, *test, tuple(names))

    def first(self, labels: int) -> "Labelled":
        """Keeps the rows of the first few labels alone."""
        return self.only(self.names[:labels])

    def rescaled(self, low: float, high: float) -> "Labelled":
        """Scales values that are from ``low`` to ``high`` here to [0, 1]."""
        train, test = ((rows - low) / (high - low) for rows in (self.train, self.test))
        return replace(self, train=train, test=test)

    def shuffled(self, share: float, rng: np.random.Generator) -> "Labelled":
        """Splits all rows in another way: this share of them, at random, to learn from."""
        rows = np.vstack([self.train, self.test])
        labels = np.concatenate([self.train_label, self.test_label])
        order = rng.permutation(len(rows))
        first, rest = np.split(order, [round(share * len(rows))])
        return Labelled(rows[first], labels[first], rows[rest], labels[rest], self.names)


def _require_rows(part: str, rows: Array, labels: Array) -> None:
    if rows.ndim != 2:
        raise ValueError(f"the {part} rows have {rows.ndim} dimensions instead of 2")
    if labels.shape != rows.shape[:1]:
        raise ValueError(f"{part} has not as many labels as rows")
    if not np.isfinite(rows).all():
        raise ValueError(f"{part} has values that are no finite numbers")


def _require_names(part: str, labels: Array, names: tuple[str, ...]) -> None:
    """Each label has a name, and each name has rows: a mean over none would be no number."""
    known = np.arange(len(names))
    if not np.isin(labels, known).all():
        raise ValueError(f"{part} has labels without a name")
    lacking = [name for name, found in zip(names, np.isin(known, labels), strict=True) if not found]
    if lacking:
        raise ValueError(f"{part} has no rows of {', '.join(lacking)}")
