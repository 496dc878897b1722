"""Federated averaging: models as averages of models, for comparison with sums of evidence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput
from elmgrove.evidence import Evidence
from elmgrove.solver import mirrored

Array = NDArray[Any]


class Averaged(NamedTuple):
    """What FedAvg makes of several OS-ELMs: output weights and P, each an average."""

    beta: Array
    P: Array


def average(parts: Sequence[Evidence], ridge: float) -> Averaged:
    """FedAvg (MLMG, equation (4)): β = Σ |Dᵢ|/|D| βᵢ and P = Σ |Dᵢ|/|D| Pᵢ.

    The averaged model is that of nobody's rows: the more the parts differ, the worse it explains
    each. The sum of evidence gives the model of all rows instead, and costs less; this is for
    comparison. Of parts that all have no rows there is no average.
    """
    rows = np.array([part.count for part in parts])
    if not rows.sum() > 0:
        raise BadInput("the average of no rows is no model; leave out parts without any")
    beta, P = 0.0, 0.0
    for part, share in zip(parts, rows / rows.sum(), strict=True):
        parts[0].basis.require(part.basis)
        factor = part.factor(ridge)
        beta = beta + share * factor.solve(part.V)
        P = P + share * mirrored(factor.inverse())
    return Averaged(np.asarray(beta), np.asarray(P))
