"""From a row to a verdict: the detector, its model, thresholds, quarantine and alarms."""

from elmgrove.detector.alarm import AlarmRule, When
from elmgrove.detector.archive import pack_detector, unpack_detector
from elmgrove.detector.detector import Detector
from elmgrove.detector.elsewhere import TRUSTED, Elsewhere, Other
from elmgrove.detector.events import Events
from elmgrove.detector.mixture import ASSIGNMENTS, PatternRule
from elmgrove.detector.model import MOST_PARTS, Part
from elmgrove.detector.news import ENDED, OPENED, Event, News, json_when, when_text
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
from elmgrove.detector.prepared import Prepared
from elmgrove.detector.progress import CHANGING, LEARNING, WATCHING, Flagged, Progress
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.detector.windows import Choice, choose_window, require_window

__all__ = [
    "ASSIGNMENTS",
    "CHANGING",
    "ENDED",
    "LEARNING",
    "MOST_PARTS",
    "OPENED",
    "TIME",
    "TRUSTED",
    "WATCHING",
    "AlarmRule",
    "Cause",
    "Choice",
    "Course",
    "Detector",
    "Elsewhere",
    "Event",
    "Events",
    "FalseAlarmRate",
    "FixedThreshold",
    "Flagged",
    "MeanSigma",
    "News",
    "Other",
    "Part",
    "PatternRule",
    "Prepared",
    "Progress",
    "Spell",
    "Threshold",
    "ToldSensors",
    "Verdict",
    "When",
    "choose_window",
    "course_of",
    "course_of_state",
    "draw",
    "draw_scores",
    "json_when",
    "pack_detector",
    "require_window",
    "save_picture",
    "spells_of",
    "spells_told",
    "title",
    "unpack_detector",
    "when_text",
]
