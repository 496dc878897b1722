"""From a row to a verdict: the detector, its model, thresholds, quarantine and alarms."""

from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.archive import pack_detector, unpack_detector
from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import CHANGE, SLOW, SPIKE, Drift, Relation, Shift
from elmgrove.detector.drift_search import drift_in
from elmgrove.detector.drift_watch import DriftWatch
from elmgrove.detector.elsewhere import TRUSTED, Elsewhere, Other
from elmgrove.detector.mixture import ASSIGNMENTS, PatternRule
from elmgrove.detector.model import MOST_PARTS, Part
from elmgrove.detector.progress import CHANGING, LEARNING, WATCHING, Flagged, Progress
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.detector.windows import Choice, choose_window, require_window

__all__ = [
    "ASSIGNMENTS",
    "CHANGE",
    "CHANGING",
    "LEARNING",
    "MOST_PARTS",
    "SLOW",
    "SPIKE",
    "TRUSTED",
    "WATCHING",
    "AlarmRule",
    "Cause",
    "Choice",
    "Detector",
    "Drift",
    "DriftWatch",
    "Elsewhere",
    "FalseAlarmRate",
    "FixedThreshold",
    "Flagged",
    "MeanSigma",
    "Other",
    "Part",
    "PatternRule",
    "Progress",
    "Relation",
    "Shift",
    "Threshold",
    "Verdict",
    "choose_window",
    "drift_in",
    "pack_detector",
    "require_window",
    "unpack_detector",
]
