"""From a row to a verdict: the detector, its model, thresholds, quarantine and alarms."""

from elmgrove.detector.answers import Answer
from elmgrove.detector.change_test import DriftDetector
from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import CHANGE, SCATTERED, SLOW, SPIKE, Drift, Relation, Shift
from elmgrove.detector.drift_search import drift_in
from elmgrove.detector.events import (
    ENDED,
    OPENED,
    WORSENED,
    AlarmRule,
    Event,
    Events,
    EventUpdate,
    When,
    json_when,
    normal_at,
    when_text,
)
from elmgrove.detector.feedback import Feedback, accept, listed, reject, undo
from elmgrove.detector.gaussian import summed
from elmgrove.detector.history import Span
from elmgrove.detector.model import MOST_PARTS, Part, SingleModel
from elmgrove.detector.patterns import ASSIGNMENTS, COMPARISONS, OTHERS, Matching, PatternRule
from elmgrove.detector.peers import TRUSTED, Other, Peers
from elmgrove.detector.plot import draw, draw_scores, save_picture, title
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.rate_test import CHANGING, LEARNING, WATCHING, Flagged, RateTest
from elmgrove.detector.removal import fade
from elmgrove.detector.replay import (
    TIME,
    Course,
    Prepared,
    Spell,
    ToldSensors,
    course_of,
    course_of_state,
    spells_of,
    spells_told,
)
from elmgrove.detector.self_test import SmallestError, errors_in_words, smallest_errors
from elmgrove.detector.state import (
    STATE_FORMAT,
    converted,
    pack_detector,
    pack_state,
    unpack_detector,
)
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.detector.tuning import TUNABLE, too_few_scores, tune
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.detector.windows import Choice, choose_window, require_window, rows_to_decide

__all__ = [
    "ASSIGNMENTS",
    "CHANGE",
    "CHANGING",
    "COMPARISONS",
    "ENDED",
    "LEARNING",
    "MOST_PARTS",
    "OPENED",
    "OTHERS",
    "SCATTERED",
    "SLOW",
    "SPIKE",
    "STATE_FORMAT",
    "TIME",
    "TRUSTED",
    "TUNABLE",
    "WATCHING",
    "WORSENED",
    "AlarmRule",
    "Answer",
    "Cause",
    "Choice",
    "Course",
    "Detector",
    "Drift",
    "DriftDetector",
    "Event",
    "EventUpdate",
    "Events",
    "FalseAlarmRate",
    "Feedback",
    "FixedThreshold",
    "Flagged",
    "Matching",
    "MeanSigma",
    "Other",
    "Part",
    "PatternRule",
    "Peers",
    "Prepared",
    "RateTest",
    "Relation",
    "Shift",
    "SingleModel",
    "SmallestError",
    "Span",
    "Spell",
    "Threshold",
    "ToldSensors",
    "Verdict",
    "Waiting",
    "When",
    "accept",
    "choose_window",
    "converted",
    "course_of",
    "course_of_state",
    "draw",
    "draw_scores",
    "drift_in",
    "errors_in_words",
    "fade",
    "json_when",
    "listed",
    "normal_at",
    "pack_detector",
    "pack_state",
    "reject",
    "require_window",
    "rows_to_decide",
    "save_picture",
    "smallest_errors",
    "spells_of",
    "spells_told",
    "summed",
    "title",
    "too_few_scores",
    "tune",
    "undo",
    "unpack_detector",
    "when_text",
]
