"""Federated averaging of evidence, for comparison with its sum."""

from collections.abc import Sequence

from elmgrove.cooperation.fed_elms import State, Update, fedavg
from elmgrove.evidence import Evidence
from elmgrove.solver import mirrored


def average(parts: Sequence[Evidence], ridge: float) -> State:
    """FedAvg (MLMG, equation (4)): β = Σ |Dᵢ|/|D| βᵢ and P = Σ |Dᵢ|/|D| Pᵢ, by ``fedavg``.

    The sum of evidence gives the model of all rows instead, and costs less; this is for
    comparison.
    """
    return fedavg(_solved(part, parts[0], ridge) for part in parts)


def _solved(part: Evidence, first: Evidence, ridge: float) -> Update:
    first.basis.require(part.basis)
    factor = part.factor(ridge)
    return Update(factor.solve(part.V), mirrored(factor.inverse()), part.count)
