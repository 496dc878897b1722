"""Elmgrove: small machines that learn what normal looks like, each alone and from each other."""

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.scaling import Scaling
from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.detector import Detector
from elmgrove.detector.mixture.pattern import PatternRule
from elmgrove.detector.patterns import PatternDetector
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma
from elmgrove.detector.verdict import Verdict
from elmgrove.errors import (
    BadFile,
    BadInput,
    ElmgroveError,
    Mismatch,
    MissingExtra,
    NotAdmissible,
    SingularSystem,
)

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
