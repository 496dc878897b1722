"""From a row to a verdict: the detector, its model, thresholds, quarantine and alarms."""

from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.archive import pack_detector, unpack_detector, upgraded
from elmgrove.detector.detector import LEARNING, WATCHING, Detector
from elmgrove.detector.mixture import ASSIGNMENTS, PatternRule
from elmgrove.detector.model import MOST_PARTS, Part
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.detector.verdict import Cause, Verdict

__all__ = [
    "ASSIGNMENTS",
    "LEARNING",
    "MOST_PARTS",
    "WATCHING",
    "AlarmRule",
    "Cause",
    "Detector",
    "FalseAlarmRate",
    "FixedThreshold",
    "MeanSigma",
    "Part",
    "PatternRule",
    "Threshold",
    "Verdict",
    "pack_detector",
    "unpack_detector",
    "upgraded",
]
