"""Sums over rows are the model: what is computed with U and V, without clock, file or network."""

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fed_elms import (
    RoundModel,
    fedavg,
    first_model,
    trained,
    weighted_mean,
)
from elmgrove.algebra.layer import HiddenLayer, suggested_units
from elmgrove.algebra.moment_sums import WAITING, MomentSums
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import Scaling
from elmgrove.algebra.similarity import fit, groups, usual_tolerance
from elmgrove.algebra.spectrum import Spectrum

__all__ = [
    "OSELM",
    "WAITING",
    "Array",
    "Basis",
    "Distance",
    "Evidence",
    "HiddenLayer",
    "MomentSums",
    "RoundModel",
    "Scaling",
    "Spectrum",
    "fedavg",
    "first_model",
    "fit",
    "groups",
    "suggested_units",
    "trained",
    "usual_tolerance",
    "weighted_mean",
]
