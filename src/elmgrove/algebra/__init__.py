"""Sums over rows are the model: what is computed with U and V, without clock, file or network."""

from elmgrove.algebra.basis import (
    SCORES,
    Basis,
    Categories,
    columns_of,
    default_score,
    features_of,
    word_of,
)
from elmgrove.algebra.classes import ClassEvidence, balance
from elmgrove.algebra.conversion import Conversion
from elmgrove.algebra.covariance import agreed, lent, lent_together, rows_lent
from elmgrove.algebra.cross_validation import (
    LeftOut,
    losses_left_out,
    surprise_left_out,
    typical_loss,
)
from elmgrove.algebra.distance import Bulk, Distance
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.exact import ExactSum, Parts
from elmgrove.algebra.fed_elms import (
    RoundModel,
    RoundUpdate,
    average,
    fedavg,
    first_model,
    trained,
    weighted_mean,
)
from elmgrove.algebra.kmeans import cluster, k_means
from elmgrove.algebra.layer import ACTIVATIONS, DISTRIBUTIONS, HiddenLayer, suggested_units
from elmgrove.algebra.levels import Levels
from elmgrove.algebra.linalg import Blas, Factor, epsilon, mirrored, one_thread, require_ridge
from elmgrove.algebra.moments import (
    Moments,
    centre_near,
    lifted_products,
    lifted_squares,
    mixing,
    rows_at,
    zero_evidence,
)
from elmgrove.algebra.oselm import OSELM, Guess, require_forgetting, weight_of
from elmgrove.algebra.packing import (
    Packed,
    numbers_in,
    pack_evidence,
    pack_part,
    pack_parts,
    unpack_evidence,
    unpack_part,
    unpack_parts,
)
from elmgrove.algebra.rows import Array, Rows, RowStore
from elmgrove.algebra.scaling import OWN, SCALINGS, Scaling
from elmgrove.algebra.similarity import (
    ONE_KIND,
    Fitted,
    Step,
    all_apart,
    apart,
    fit,
    groups,
    join,
    kind_tolerance,
    mean_scores,
    usual_tolerance,
)
from elmgrove.algebra.spectrum import SPECTRA, Frames, Spectrum
from elmgrove.algebra.summing import WAITING, MomentSums
from elmgrove.algebra.unsent import ROWS_ALIKE, Fresh, inputs_withheld

__all__ = [
    "ACTIVATIONS",
    "DISTRIBUTIONS",
    "ONE_KIND",
    "OSELM",
    "OWN",
    "ROWS_ALIKE",
    "SCALINGS",
    "SCORES",
    "SPECTRA",
    "WAITING",
    "Array",
    "Basis",
    "Blas",
    "Bulk",
    "Categories",
    "ClassEvidence",
    "Conversion",
    "Distance",
    "Evidence",
    "ExactSum",
    "Factor",
    "Fitted",
    "Frames",
    "Fresh",
    "Guess",
    "HiddenLayer",
    "LeftOut",
    "Levels",
    "MomentSums",
    "Moments",
    "Packed",
    "Parts",
    "RoundModel",
    "RoundUpdate",
    "RowStore",
    "Rows",
    "Scaling",
    "Spectrum",
    "Step",
    "agreed",
    "all_apart",
    "apart",
    "average",
    "balance",
    "centre_near",
    "cluster",
    "columns_of",
    "default_score",
    "epsilon",
    "features_of",
    "fedavg",
    "first_model",
    "fit",
    "groups",
    "inputs_withheld",
    "join",
    "k_means",
    "kind_tolerance",
    "lent",
    "lent_together",
    "lifted_products",
    "lifted_squares",
    "losses_left_out",
    "mean_scores",
    "mirrored",
    "mixing",
    "numbers_in",
    "one_thread",
    "pack_evidence",
    "pack_part",
    "pack_parts",
    "require_forgetting",
    "require_ridge",
    "rows_at",
    "rows_lent",
    "suggested_units",
    "surprise_left_out",
    "trained",
    "typical_loss",
    "unpack_evidence",
    "unpack_part",
    "unpack_parts",
    "usual_tolerance",
    "weight_of",
    "weighted_mean",
    "word_of",
    "zero_evidence",
]
