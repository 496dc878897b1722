"""Evidence by class: what the rows of each class say, so that classes are weighed after merging."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput


@dataclass(frozen=True, eq=False)
class ClassEvidence:
    """The evidence of each class by itself: a part for each output, in their order.

    Adding two equals having seen the rows of both. Counts add too, and what a class weighs follows
    from them alone: so the balanced model is the same for any split and order of the rows, where
    weights that each device chose by its own counts would give another one for each split. It
    takes memory for a U of each class. A target has a 1 in the column of the row's class, and 0 in
    the others. A class without rows has a part without rows.

    >>> from elmgrove import HiddenLayer
    >>> basis = Basis(HiddenLayer(inputs=1, units=2, seed=1), outputs=2)
    >>> here = ClassEvidence.of(basis, [[0.0], [1.0], [2.0]], [[1, 0], [1, 0], [1, 0]])
    >>> there = ClassEvidence.of(basis, [[9.0]], [[0, 1]])
    >>> (here + there).counts.tolist(), balance((here + there).counts).round(2).tolist()
    ([3.0, 1.0], [0.67, 2.0])
    """

    parts: tuple[Evidence, ...]

    def __post_init__(self) -> None:
        if not self.parts or len(self.parts) != self.basis.outputs:
            raise BadInput(f"{len(self.parts)} parts, where each output is that of a class")
        for part in self.parts:
            self.basis.require(part.basis)

    @property
    def basis(self) -> Basis:
        """What all parts were learned with."""
        return self.parts[0].basis

    @property
    def counts(self) -> Array:
        """The number of rows of each class."""
        return np.array([part.count for part in self.parts])

    @classmethod
    def zero(cls, basis: Basis) -> "ClassEvidence":
        """Makes the evidence of no rows, which changes nothing when it is added."""
        return cls((Evidence.zero(basis),) * basis.outputs)

    @classmethod
    def of(cls, basis: Basis, X: Array, T: Array) -> "ClassEvidence":
        """Learns rows, scaled already, with their targets; ``BadInput`` unless each has a class."""
        X, T = np.asarray(X), np.asarray(T)
        if len(X) != len(T):
            raise BadInput(f"{len(X)} rows of inputs, but {len(T)} rows of targets")
        _require_one_class(T)
        return cls(tuple(_learned(basis, X[rows], T[rows]) for rows in (T == 1).T))

    def __add__(self, other: "ClassEvidence") -> "ClassEvidence":
        """Adds the other's rows, class by class."""
        return self.sum((self, other))

    @staticmethod
    def sum(several: Iterable["ClassEvidence"]) -> "ClassEvidence":
        """Adds all in the order given, class by class."""
        several = list(several)
        if not several:
            raise BadInput("the sum of no evidence has no basis; start from ClassEvidence.zero")
        for one in several:
            several[0].basis.require(one.basis)
        columns = zip(*(one.parts for one in several), strict=True)
        return ClassEvidence(tuple(map(Evidence.sum, columns)))

    def weighed(self, weights: Sequence[float] | Array) -> Evidence:
        """Gives the evidence in which a row of each class counts so many times as much."""
        pairs = zip(self.parts, weights, strict=True)
        return Evidence.sum(part.weighted(float(weight)) for part, weight in pairs)

    @property
    def balanced(self) -> Evidence:
        """The evidence in which all classes that have rows count alike, by ``balance``."""
        return self.weighed(balance(self.counts))


def balance(counts: Sequence[float] | Array) -> Array:
    """Computes what a row of each class weighs so that classes count alike: w_c = N/(C·N_c).

    The weights of all rows still add up to N. Classes without rows weigh nothing, and C counts
    the others: what was never seen can't be made up for.

    >>> balance([60, 30, 0]).tolist()
    [0.75, 1.5, 0.0]
    """
    N = np.asarray(counts, np.float64)
    seen = N > 0.0
    weights: Array = np.divide(N.sum(), seen.sum() * N, out=np.zeros_like(N), where=seen)
    return weights


def _require_one_class(T: Array) -> None:
    if T.ndim != 2 or not ((T == 0) | (T == 1)).all() or not (T.sum(axis=1) == 1).all():
        raise BadInput("targets of classes have one 1 in each row, and 0 elsewhere")


def _learned(basis: Basis, X: Array, T: Array) -> Evidence:
    model = OSELM(basis.layer, basis.outputs, basis=basis)
    if len(X):
        model.learn_many(X, T)
    return model.evidence
