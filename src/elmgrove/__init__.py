"""Elmgrove: small machines that learn what normal looks like, each alone and from each other."""

from elmgrove.algebra import OSELM, Basis, Evidence, HiddenLayer, Scaling, Spectrum
from elmgrove.detector import (
    AlarmRule,
    Detector,
    FalseAlarmRate,
    FixedThreshold,
    MeanSigma,
    PatternRule,
    Verdict,
)
from elmgrove.errors import (
    BadFile,
    BadInput,
    ElmgroveError,
    Mismatch,
    MissingExtra,
    NotAdmissible,
    SingularSystem,
)

__version__ = "0.2.0"

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
    "PatternRule",
    "Scaling",
    "SingularSystem",
    "Spectrum",
    "Verdict",
]
