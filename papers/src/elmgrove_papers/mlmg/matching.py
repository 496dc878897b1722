"""MLMG's Algorithm 3: local models make global ones, which come back to the clients."""

from collections.abc import Callable, Sequence

import numpy as np

from elmgrove.algebra import Array, Evidence, weighted_mean
from elmgrove.federation import Grouping, returned

#: Makes one global model's β of the evidence of its local models, given the ridge.
Aggregation = Callable[[Sequence[Evidence], float], Array]


def summed(parts: Sequence[Evidence], ridge: float) -> Array:
    """Computes E²LM's global model, equation (5): from the sum of evidence, the ridge once."""
    return Evidence.sum(parts).solve(ridge)


def averaged(parts: Sequence[Evidence], ridge: float) -> Array:
    """Computes FedAvg's global model, equation (4): the average of the β's, weighted by rows."""
    for part in parts:
        parts[0].basis.require(part.basis)
    (beta,) = weighted_mean((part.count, [part.solve(ridge)]) for part in parts)
    return beta


def global_models(
    grouping: Grouping, ridge: float, aggregation: Aggregation = summed
) -> dict[int, Array]:
    """Makes the global model of each group of the local models in it: forward matching."""
    return {
        group: aggregation([model.evidence for model in grouping.members(group)], ridge)
        for group in grouping.numbers
    }


def matched(
    grouping: Grouping, ridge: float, aggregation: Aggregation = summed
) -> dict[str, list[Array]]:
    """Gives each client its models after one exchange: Algorithm 3 as a whole.

    One group and one local model each is ordinary federated learning; several groups and one
    local model each is multi-global; several of both is MLMG.
    """
    models = global_models(grouping, ridge, aggregation)
    own: dict[str, list[Evidence]] = {}
    for model in grouping.models:
        own.setdefault(model.origin, []).append(model.evidence)
    return {
        origin: [
            np.asarray(evidence.solve(ridge) if group is None else models[group])
            for evidence, group in zip(own[origin], groups, strict=True)
        ]
        for origin, groups in returned(grouping).items()
    }
