"""Several normal patterns: a model for each, and for those that others know."""

from elmgrove.detector.mixture.mixture import Mixture
from elmgrove.detector.mixture.rule import ASSIGNMENTS, COMPARISONS, OTHERS, RAW, PatternRule

__all__ = ["ASSIGNMENTS", "COMPARISONS", "OTHERS", "RAW", "Mixture", "PatternRule"]
