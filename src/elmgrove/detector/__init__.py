"""From a row to a verdict: the detector, its model, thresholds, quarantine and alarms."""

from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.answers import Answer
from elmgrove.detector.archive import (
    STATE_FORMAT,
    pack_detector,
    pack_state,
    unpack_detector,
)
from elmgrove.detector.conversion import converted
from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import CHANGE, SCATTERED, SLOW, SPIKE, Drift, Relation, Shift
from elmgrove.detector.drift_search import drift_in
from elmgrove.detector.drift_watch import DriftWatch
from elmgrove.detector.elsewhere import TRUSTED, Elsewhere, Other
from elmgrove.detector.events import Events
from elmgrove.detector.fading import fade
from elmgrove.detector.feedback import Feedback, accept, listed, reject, undo
from elmgrove.detector.matching import Matching
from elmgrove.detector.mixture import ASSIGNMENTS, COMPARISONS, OTHERS, PatternRule
from elmgrove.detector.model import MOST_PARTS, Part, SingleModel
from elmgrove.detector.news import ENDED, OPENED, WORSENED, Event, News, normal_at
from elmgrove.detector.picture import (
    TIME,
    Course,
    Spell,
    ToldSensors,
    course_of,
    course_of_state,
    draw,
    draw_scores,
    save_picture,
    spells_of,
    spells_told,
    title,
)
from elmgrove.detector.pieces import Span
from elmgrove.detector.prepared import Prepared
from elmgrove.detector.progress import CHANGING, LEARNING, WATCHING, Flagged, Progress
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.retune import TUNABLE, too_few_scores, tune
from elmgrove.detector.self_test import Noticed, errors_in_words, smallest_errors
from elmgrove.detector.single import summed
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.detector.when import When, json_when, when_text
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
    "DriftWatch",
    "Elsewhere",
    "Event",
    "Events",
    "FalseAlarmRate",
    "Feedback",
    "FixedThreshold",
    "Flagged",
    "Matching",
    "MeanSigma",
    "News",
    "Noticed",
    "Other",
    "Part",
    "PatternRule",
    "Prepared",
    "Progress",
    "Relation",
    "Shift",
    "SingleModel",
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
