"""Elmgrove: small machines that learn what normal looks like, each alone and from each other."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmgrove.errors import (
    BadFile,
    BadInput,
    ElmgroveError,
    Mismatch,
    MissingExtra,
    NotAdmissible,
    SingularSystem,
)

if TYPE_CHECKING:
    from elmgrove.algebra import OSELM, Basis, Evidence, HiddenLayer, Scaling, Spectrum
    from elmgrove.detector import (
        AlarmRule,
        Detector,
        FalseAlarmRate,
        FixedThreshold,
        PatternRule,
        Verdict,
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
    "Mismatch",
    "MissingExtra",
    "NotAdmissible",
    "PatternRule",
    "Scaling",
    "SingularSystem",
    "Spectrum",
    "Verdict",
]

#: The chapters that names above come from. They load NumPy and SciPy, half a second of a core,
#: which nobody waits for who asks for the version, for help or for another chapter.
_CHAPTERS = ("algebra", "detector")


if not TYPE_CHECKING:  # so that a checker of types knows which names there are

    def __getattr__(name: str) -> Any:
        """Gives what is loaded when it is first asked for, and keeps it."""
        if name in _CHAPTERS:
            return import_module(f"{__name__}.{name}")
        if name in __all__:
            for chapter in _CHAPTERS:
                found = getattr(import_module(f"{__name__}.{chapter}"), name, None)
                if found is not None:
                    globals()[name] = found
                    return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_CHAPTERS})
