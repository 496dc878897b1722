"""Elmgrove: small machines that learn what normal looks like, each alone and from each other."""

from elmgrove.alarm import AlarmRule
from elmgrove.basis import Basis
from elmgrove.detector import Detector
from elmgrove.errors import (
    BadFile,
    BadInput,
    ElmgroveError,
    Mismatch,
    MissingExtra,
    NotAdmissible,
    SingularSystem,
)
from elmgrove.evidence import Evidence
from elmgrove.hidden import HiddenLayer
from elmgrove.oselm import OSELM
from elmgrove.pattern import PatternRule
from elmgrove.patterns import PatternDetector
from elmgrove.scaling import Scaling
from elmgrove.threshold import FalseAlarmRate, FixedThreshold, MeanSigma
from elmgrove.verdict import Verdict

__version__ = "0.1.0"

__all__ = [
    "OSELM",
    "AlarmRule",
    "BadFile",
    "BadInput",
    "Basis",
    "Detector",
    "ElmgroveError",
    "Evidence",
    "FalseAlarmRate",
    "FixedThreshold",
    "HiddenLayer",
    "MeanSigma",
    "Mismatch",
    "MissingExtra",
    "NotAdmissible",
    "PatternDetector",
    "PatternRule",
    "Scaling",
    "SingularSystem",
    "Verdict",
]
