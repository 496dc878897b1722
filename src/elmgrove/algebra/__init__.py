"""Sums over rows are the model: what is computed with U and V, without clock, file or network."""

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance, lent
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fed_elms import (
    RoundModel,
    RoundUpdate,
    fedavg,
    first_model,
    trained,
    weighted_mean,
)
from elmgrove.algebra.layer import HiddenLayer, suggested_units
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import Scaling
from elmgrove.algebra.similarity import fit, groups, join, usual_tolerance
from elmgrove.algebra.spectrum import Spectrum
from elmgrove.algebra.summing import WAITING, MomentSums
from elmgrove.algebra.unsent import ROWS_ALIKE, Fresh, inputs_held_back

__all__ = [
    "OSELM",
    "ROWS_ALIKE",
    "WAITING",
    "Array",
    "Basis",
    "Distance",
    "Evidence",
    "Fresh",
    "HiddenLayer",
    "MomentSums",
    "RoundModel",
    "RoundUpdate",
    "Scaling",
    "Spectrum",
    "fedavg",
    "first_model",
    "fit",
    "groups",
    "inputs_held_back",
    "join",
    "lent",
    "suggested_units",
    "trained",
    "usual_tolerance",
    "weighted_mean",
]
