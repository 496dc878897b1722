"""The single model that a basis asks for, by its score."""

from typing import Any

from elmgrove.algebra import Basis, Evidence, typical_loss
from elmgrove.detector.autoencoder import Autoencoder
from elmgrove.detector.gaussian import Gaussian


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
