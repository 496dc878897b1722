"""What a model sees in an input, also in one of fewer rows than a window has."""

from typing import Any

import numpy as np

from elmgrove.algebra import Array, Bulk
from elmgrove.detector.model import Model


def score_of(model: Model, x: Array) -> float:
    """Scores an input by the rows that there are of it.

    A distance leaves the missing ones open. A loss can't: there they are 0, which is nothing out
    of the ordinary where rows are scaled.
    """
    if len(x) == model.basis.inputs:
        return model.score_one(x)
    if model.basis.score == "loss":
        return model.score_one(_padded(model, x))
    views = (single.explainer(x)[1] for single in model.models)
    return min(float(view.last(len(x)).score_one(x)) for view in views)


def view_of(model: Model, x: Array) -> tuple[Array, Any]:
    """Gives an input, as long as what explains it needs it, and what explains it."""
    missing = len(x) < model.basis.inputs
    whole = _padded(model, x) if missing else x
    _, view = model.explainer(whole)
    if missing and model.basis.score == "distance":
        return x, view.last(len(x))
    return whole, view


def bulk_of(model: Model) -> Bulk | None:
    """Finds what scores rows as they come, for a model without patterns; None if nothing can."""
    basis = model.basis
    if basis.score == "loss" or basis.spectrum is not None:
        return None
    bulk: Bulk | None = model.explainer(np.zeros(basis.inputs))[1].of_rows
    return bulk


def _padded(model: Model, x: Array) -> Array:
    return np.concatenate([np.zeros(model.basis.inputs - len(x), x.dtype), x])
