"""Verdicts as lines of JSON, in a file or on standard output."""

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

from elmgrove.detector import Cause, Verdict
from elmgrove.errors import ElmgroveError

Only = Literal["all", "strange", "anomalies", "alarms"]
#: Seconds between two looks at whether the file was rotated.
_LOOK_EVERY = 1.0


class NobodyReads(ElmgroveError):
    """Says that the program that read the verdicts has ended: a reason to end too, no fault."""


def message(where: str, verdict: Verdict, causes: Sequence[Cause]) -> dict[str, Any]:
    """Makes a verdict an object for JSON, which knows no infinity: such numbers are null."""
    return {
        "where": where,
        "score": _finite(verdict.score),
        "threshold": _finite(verdict.threshold),
        "state": verdict.state,
        "strange": verdict.strange,
        "known": list(verdict.known),
        "anomalous": verdict.anomalous,
        "learned": verdict.learned,
        "alarm": verdict.alarm,
        "promoted": verdict.promoted,
        "pattern": verdict.pattern,
        "flagged": {
            "rows": verdict.flagged.rows,
            "share": verdict.flagged.share,
            "band": list(verdict.flagged.band),
        },
        "causes": [
            {name: _finite(value) for name, value in cause._asdict().items()} for cause in causes
        ],
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Verdicts:
    """Writes one object a line, each at once; ``-`` is standard output.

    Lines are appended to a file. When log rotation has renamed or removed it, a new one is begun,
    with the first verdict that comes a second or more after the last look. Lines can get lost
    where rotation copies the file and cuts the original.
    """

    def __init__(self, where: str, only: Only = "all") -> None:
        self._path = None if where == "-" else Path(where)
        self._only = only
        self._out = _opened(self._path)
        self._looked = time.monotonic()

    def wants(self, verdict: Verdict) -> bool:
        """Says whether a verdict is one to write; causes of others need not be looked for."""
        return {
            "all": True,
            "strange": verdict.strange,
            "anomalies": verdict.anomalous,
            "alarms": verdict.alarm,
        }[self._only]

    def write(self, message: dict[str, Any]) -> None:
        """Writes a line, or raises ``NobodyReads``."""
        self._follow_rotation()
        try:
            self._out.write(json.dumps(message, ensure_ascii=False, allow_nan=False) + "\n")
            self._out.flush()
        except BrokenPipeError as error:
            self._discard()
            raise NobodyReads("verdicts: the program that read them has ended") from error

    def close(self) -> None:
        """Closes the file; standard output stays open."""
        if self._path is not None:
            self._out.close()

    def _follow_rotation(self) -> None:
        now = time.monotonic()
        if self._path is None or now - self._looked < _LOOK_EVERY:
            return
        self._looked = now
        if not _same(self._path, self._out):
            self._out.close()
            self._out = _opened(self._path)

    def _discard(self) -> None:
        """Drops what is buffered, which Python would else try to write again at its end."""
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), self._out.fileno())


def _opened(path: Path | None) -> TextIO:
    return sys.stdout if path is None else path.open("a", encoding="utf-8", buffering=1)


def _same(path: Path, file: TextIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
