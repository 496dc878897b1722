"""Several normal patterns, a model for each."""

from elmgrove.detector.mixture.mixture import Mixture
from elmgrove.detector.mixture.pattern import (
    ASSIGNMENTS,
    MOST_PARTS,
    Joined,
    Part,
    Pattern,
    PatternRule,
)
from elmgrove.detector.mixture.received import Place

__all__ = [
    "ASSIGNMENTS",
    "MOST_PARTS",
    "Joined",
    "Mixture",
    "Part",
    "Pattern",
    "PatternRule",
    "Place",
]
