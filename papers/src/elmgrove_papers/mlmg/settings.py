"""The settings with which MLMG's figures are run."""

from elmgrove.algebra import Basis, HiddenLayer
from elmgrove.detector import PatternRule
from elmgrove_papers.figure import SEED

RIDGE = 1e-3
#: Hidden units and activation as in Ito 2021, Table 3; the fans are not in there.
UNITS = {"mnist": 64, "har": 128, "fans": 32, "celeba": 64, "dcase": 128}
#: Strange begins at this quantile of the losses on the rows a device learned.
QUANTILE = 0.99
#: Join and handicap are the defaults, which were chosen with an eye on the ROC-AUC on test rows
#: ("elmgrove paper mlmg handicap", docs/papers.md).
RULE = PatternRule(most=10, start_rows=512, silhouette=0.05)


def basis(data: str, width: int) -> Basis:
    """The layer that all devices of a run share."""
    return Basis(HiddenLayer(width, UNITS[data], seed=SEED), width)
