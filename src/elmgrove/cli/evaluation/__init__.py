"""How well a detector does on labelled rows, beside other detectors in the same run."""

from elmgrove.cli.evaluation.evaluate import evaluate

__all__ = ["evaluate"]
