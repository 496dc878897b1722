"""Elmgrove: small machines that learn what normal looks like, each alone and from each other."""

from elmgrove.alarm import AlarmRule
from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.scaling import Scaling
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
from elmgrove.pattern import PatternRule
from elmgrove.patterns import PatternDetector
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
