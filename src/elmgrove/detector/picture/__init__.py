"""Pictures of what a detector says: scores, events, and the sensors behind them."""

from elmgrove.detector.picture.course import (
    TIME,
    Course,
    Spell,
    course_of,
    course_of_state,
    spells_of,
    spells_told,
)
from elmgrove.detector.picture.drawing import draw, draw_scores
from elmgrove.detector.picture.figure import plotted, save_picture
from elmgrove.detector.picture.sensors import Sensors, ToldSensors
from elmgrove.detector.picture.words import title

__all__ = [
    "TIME",
    "Course",
    "Sensors",
    "Spell",
    "ToldSensors",
    "course_of",
    "course_of_state",
    "draw",
    "draw_scores",
    "plotted",
    "save_picture",
    "spells_of",
    "spells_told",
    "title",
]
