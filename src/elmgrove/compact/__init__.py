"""Models in 8 bits, for wires and machines that are narrow: messages, and a predictor."""

from elmgrove.compact.classifier import CompactClassifier
from elmgrove.compact.model import CompactModel
from elmgrove.compact.quantized import Quantized

__all__ = ["CompactClassifier", "CompactModel", "Quantized"]
