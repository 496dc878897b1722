"""Matching: which local model feeds which global one, and which come back (MLMG, Algorithm 3)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fed_elms import average
from elmgrove.cooperation.groups import Grouping

Array = NDArray[Any]

#: Makes one global model's β of the evidence of its local models, given the ridge.
Aggregation = Callable[[Sequence[Evidence], float], Array]


def summed(parts: Sequence[Evidence], ridge: float) -> Array:
    """E²LM, equation (5): β = U⁻¹V with U = Σ Uᵢ, V = Σ Vᵢ, and the ridge once."""
    return Evidence.sum(parts).solve(ridge)


def averaged(parts: Sequence[Evidence], ridge: float) -> Array:
    """FedAvg, equation (4): the average of the β's, weighted by rows."""
    return average(parts, ridge).beta


def global_models(
    grouping: Grouping, ridge: float, aggregation: Aggregation = summed
) -> dict[int, Array]:
    """Forward matching: each local model feeds the global model of its group. One β a group."""
    return {
        group: aggregation([model.evidence for model in grouping.members(group)], ridge)
        for group in grouping.numbers
    }


def returned(grouping: Grouping) -> dict[str, tuple[int | None, ...]]:
    """Back matching: for each client, the group whose global model replaces each of its models.

    A client with at least as many local models as there are groups gets all of them, the k-th in
    the place of its k-th model, and keeps what it has beyond that (None). Another gets, for
    each of its models, the one that this model belongs to. Where the rows of a device are of few
    groups only, the first case replaces what it knew by what others know: that is the paper's.
    """
    own: dict[str, list[int]] = {}
    for model, group in zip(grouping.models, grouping.labels, strict=True):
        own.setdefault(model.origin, []).append(group)
    return {origin: _places(groups, grouping.numbers) for origin, groups in own.items()}


def matched(
    grouping: Grouping, ridge: float, aggregation: Aggregation = summed
) -> dict[str, list[Array]]:
    """The models of each client after one exchange: Algorithm 3 as a whole.

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


def _places(groups: Sequence[int], numbers: Sequence[int]) -> tuple[int | None, ...]:
    if len(groups) >= len(numbers):
        return (*numbers, *[None] * (len(groups) - len(numbers)))
    return tuple(groups)
