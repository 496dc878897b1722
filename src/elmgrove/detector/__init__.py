"""From a row to a verdict: the detector, its model, thresholds, quarantine and alarms."""

from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.archive import pack_detector, unpack_detector
from elmgrove.detector.detector import Detector
from elmgrove.detector.elsewhere import TRUSTED, Elsewhere, Other
from elmgrove.detector.feedback import Feedback, accept, listed, reject
from elmgrove.detector.mixture import ASSIGNMENTS, PatternRule
from elmgrove.detector.model import MOST_PARTS, Part
from elmgrove.detector.pieces import Span
from elmgrove.detector.progress import CHANGING, LEARNING, WATCHING, Flagged, Progress
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.detector.windows import Choice, choose_window, require_window

__all__ = [
    "ASSIGNMENTS",
    "CHANGING",
    "LEARNING",
    "MOST_PARTS",
    "TRUSTED",
    "WATCHING",
    "AlarmRule",
    "Cause",
    "Choice",
    "Detector",
    "Elsewhere",
    "FalseAlarmRate",
    "Feedback",
    "FixedThreshold",
    "Flagged",
    "MeanSigma",
    "Other",
    "Part",
    "PatternRule",
    "Progress",
    "Span",
    "Threshold",
    "Verdict",
    "Waiting",
    "accept",
    "choose_window",
    "listed",
    "pack_detector",
    "reject",
    "require_window",
    "unpack_detector",
]
