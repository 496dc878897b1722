"""Maps of several models over trials: their means, how far apart they are, which is best."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from elmgrove.algebra import Array
from elmgrove_papers.figure import Numbers

#: The maps of each model, one for each trial.
Trials = Mapping[str, Sequence[Array]]


def mean(maps: ArrayLike) -> float:
    """Averages a map, or several, over all pairs of different patterns."""
    return float(_different(np.array(maps)).mean())


def means(trials: Trials, models: Sequence[str]) -> dict[str, Numbers]:
    """Gives each model's means; "same trials" are those that all models have."""
    same = min(map(len, trials.values()))
    return {
        model: {
            "auc": mean(trials[model]),
            "auc, same trials": mean(trials[model][:same]),
            "worst pair": float(_different(np.mean(trials[model], axis=0)).min()),
            "trials": len(trials[model]),
        }
        for model in models
    }


def difference(trials: Trials, above: str, below: str) -> Numbers:
    """Says how far one model is above another, on the trials that both have.

    The error is that of the mean over these trials, from how much it differs between them; they
    share most of their rows, so it is rather too small. Pairs are of different patterns, and each
    counts in both orders.
    """
    parts = zip(trials[above], trials[below], strict=False)
    apart = np.array([_different(one - other) for one, other in parts])
    several, pairs = apart.mean(axis=1), apart.mean(axis=0)
    spread = float(several.std(ddof=1) / np.sqrt(len(several))) if len(several) > 1 else None
    return {
        "mean": float(several.mean()),
        "standard error": spread,
        "trials": len(several),
        "lowest": float(pairs.min()),
        "highest": float(pairs.max()),
        "pairs above": int((pairs > 0).sum()),
        "pairs": len(pairs),
    }


def best(maps: Mapping[str, Array], names: Sequence[str]) -> dict[str, Numbers]:
    """Names the models that no other is above, in each cell."""
    highest = np.max(list(maps.values()), axis=0)
    found = np.empty(highest.shape, object)
    for cell in np.ndindex(found.shape):
        found[cell] = [model for model, one in maps.items() if one[cell] == highest[cell]]
    return named(found, names)


def named(matrix: Array, names: Sequence[str]) -> dict[str, Numbers]:
    """Names rows by device A's patterns, and columns by device B's."""
    return {
        name: dict(zip(names, row, strict=True))
        for name, row in zip(names, matrix.tolist(), strict=True)
    }


def _different(maps: Array) -> Array:
    """What is beside the diagonal, in one dimension for each map."""
    return maps[..., ~np.eye(maps.shape[-1], dtype=bool)]
