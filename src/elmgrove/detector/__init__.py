"""From a row to a verdict: the detector, its model, thresholds, quarantine and alarms."""

from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import SPIKE, Drift
from elmgrove.detector.events import WORSENED, AlarmRule, Event
from elmgrove.detector.feedback import Feedback, accept, reject, undo
from elmgrove.detector.history import Span
from elmgrove.detector.model import Part
from elmgrove.detector.patterns import PatternRule
from elmgrove.detector.peers import TRUSTED, Peers
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.self_test import errors_in_words, smallest_errors
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold
from elmgrove.detector.tuning import tune
from elmgrove.detector.verdict import Cause, Verdict

__all__ = [
    "SPIKE",
    "TRUSTED",
    "WORSENED",
    "AlarmRule",
    "Cause",
    "Detector",
    "Drift",
    "Event",
    "FalseAlarmRate",
    "Feedback",
    "FixedThreshold",
    "Part",
    "PatternRule",
    "Peers",
    "Span",
    "Verdict",
    "Waiting",
    "accept",
    "errors_in_words",
    "reject",
    "smallest_errors",
    "tune",
    "undo",
]
