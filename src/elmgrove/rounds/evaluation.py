"""Evaluation: how well the global model does on rows that the server keeps for that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput
from elmgrove.federation.merged import Merged


class GlobalModel(NamedTuple):
    """What a rule has made of the replies so far: β, and how many rows went in."""

    beta: Array
    rows: float


def models_of(merged: Merged, ridge: float) -> tuple[GlobalModel, ...]:
    """Solve for the global model, or that of each group, by (6) with a ridge."""
    return tuple(GlobalModel(part.solve(ridge), part.count) for part in merged.parts)


@dataclass(frozen=True)
class Evaluation:
    """How well the global model does on the server's test rows, after a round.

    ``value`` is the share of rows whose class has the largest output (``measure`` is accuracy), or
    the mean squared error in the units that were learned (error). Where a rule has a model for
    each group, ``groups`` has the value of each, and ``value`` is their mean, weighted by rows.
    """

    measure: str
    value: float
    rows: int
    groups: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Exam:
    """The rows on which a server tests the global model: nobody learns them.

    ``X`` has the rows as clients have them, before scaling, and ``T`` their targets as clients
    learn them: with ``classes`` a 1 in the column of the row's class. Without ``T`` the model is a
    detector's, whose targets are the scaled rows themselves.
    """

    X: Array
    T: Array | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = [self.X] if self.T is None else [self.X, self.T]
        if not all(part.ndim == 2 and np.isfinite(part).all() for part in given):
            raise BadInput("the rows and targets of an exam must be matrices of finite numbers")
        if not len(self.X) or len(given[-1]) != len(self.X):
            raise BadInput(f"{len(self.X)} test rows with {len(given[-1])} targets are no exam")
        if self.classes and (self.T is None or self.T.shape[1] != len(self.classes)):
            raise BadInput("an exam with classes needs a column of targets for each")

    def targets(self, basis: Basis) -> Array:
        return basis.scaling(self.X) if self.T is None else self.T

    def baseline(self, basis: Basis) -> float:
        """What the best constant answer reaches: the commonest class, or the mean."""
        T = self.targets(basis)
        return float(T.mean(axis=0).max() if self.classes else T.var(axis=0).mean())

    def evaluate(self, basis: Basis, models: Sequence[GlobalModel]) -> Evaluation | None:
        """Test the models; None if there are none yet.

        Of a detector's groups, the model that explains a row best answers it. Which group is to
        answer a row with a target nobody can tell, so there all models are tested on all rows.
        """
        if not models:
            return None
        H, T = basis.layer(basis.scaling(self.X)), self.targets(basis)
        outputs = [H @ model.beta for model in models]
        if self.classes:
            points = np.array([Y.argmax(axis=1) == T.argmax(axis=1) for Y in outputs], np.float64)
        else:
            points = np.array([np.square(Y - T).mean(axis=1) for Y in outputs])
        if self.T is None:
            return Evaluation("error", float(points.min(axis=0).mean()), len(T))
        each = points.mean(axis=1)
        value = float(np.average(each, weights=[model.rows for model in models]))
        groups = tuple(each.tolist()) if len(models) > 1 else ()
        return Evaluation("accuracy" if self.classes else "error", value, len(T), groups)
