"""From a row to a verdict."""

from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.archive import pack_detector, unpack_detector
from elmgrove.detector.detector import Detector
from elmgrove.detector.mixture import ASSIGNMENTS, MOST_PARTS, Part, PatternRule
from elmgrove.detector.patterns import PatternDetector
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.detector.watcher import Watcher

__all__ = [
    "ASSIGNMENTS",
    "MOST_PARTS",
    "AlarmRule",
    "Cause",
    "Detector",
    "FalseAlarmRate",
    "FixedThreshold",
    "MeanSigma",
    "Part",
    "PatternDetector",
    "PatternRule",
    "Threshold",
    "Verdict",
    "Watcher",
    "pack_detector",
    "unpack_detector",
]
