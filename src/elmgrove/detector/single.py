"""The single model that a basis asks for, by its score."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Basis, Evidence, typical_loss
from elmgrove.detector.autoencoder import Autoencoder
from elmgrove.detector.gaussian import Gaussian
from elmgrove.detector.model import Model


def single_model(basis: Basis, **settings: Any) -> Autoencoder | Gaussian:
    """Makes one model of rows that are alike: a Gaussian for a distance, else an autoencoder."""
    if basis.score == "distance":
        return Gaussian(basis, **settings)
    return Autoencoder(basis, **settings)


def typical_score(evidence: Evidence, ridge: float) -> float:
    """Gives the score of a typical row like these: 1 for a distance, else a loss to be expected."""
    if evidence.basis.score == "distance":
        return 1.0
    return typical_loss(evidence, ridge) / evidence.basis.inputs


def summed(model: Model, inputs: Sequence[tuple[Array, float]]) -> Evidence:
    """Sums inputs up as a model does that learns them, each with its weight."""
    by_weight = dict[float, list[Array]]()
    for x, weight in inputs:
        by_weight.setdefault(weight, []).append(x)
    parts = list[Evidence]()
    for weight, rows in by_weight.items():
        made = single_model(model.basis, dtype=model.dtype)
        made.learn_all(np.array(rows, model.dtype))
        parts.append(made.evidence.weighted(weight))
    return Evidence.sum(parts)
