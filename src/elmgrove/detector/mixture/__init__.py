"""Several normal patterns: a model for each, and for those that others know."""

from elmgrove.detector.mixture.mixture import Mixture
from elmgrove.detector.mixture.pattern import ASSIGNMENTS, PatternRule

__all__ = ["ASSIGNMENTS", "Mixture", "PatternRule"]
