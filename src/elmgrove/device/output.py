"""What an agent tells: verdicts and events as lines of JSON, and alarms for recipients."""

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TextIO, cast

from elmgrove.detector import SPIKE, Cause, Drift, News, Verdict, json_when
from elmgrove.device.recipients import Alarms
from elmgrove.device.settings import Settings
from elmgrove.errors import ElmgroveError
from elmgrove.federation import Member

Only = Literal["all", "strange", "anomalies", "alarms", "events"]
#: Seconds between two looks at whether the file was rotated.
_LOOK_EVERY = 1.0


class NobodyReads(ElmgroveError):
    """Says that the program that read the verdicts has ended: a reason to end too, no fault."""


def message(where: str, verdict: Verdict, causes: Sequence[Cause]) -> dict[str, Any]:
    """Makes a verdict an object for JSON, which knows no infinity: such numbers are null."""
    return {
        "where": where,
        "time": None if verdict.time is None else json_when(verdict.time),
        "score": _finite(verdict.score),
        "threshold": _finite(verdict.threshold),
        "state": verdict.state,
        "strange": verdict.strange,
        "known": list(verdict.known),
        "anomalous": verdict.anomalous,
        "learned": verdict.learned,
        "alarm": verdict.alarm,
        "event": verdict.event,
        "promoted": verdict.promoted,
        "pattern": verdict.pattern,
        "flagged": {
            "rows": verdict.flagged.rows,
            "share": verdict.flagged.share,
            "band": list(verdict.flagged.band),
        },
        "causes": _causes(causes),
    }


def event_message(where: str | None, news: News) -> dict[str, Any]:
    """Makes news of an event an object for JSON: its kind, all that is known, and a text."""
    known = {**news.event.fields, "causes": _causes(news.event.causes)}
    return {"kind": news.kind, "where": where, **known, "text": str(news)}


def drift_message(where: str, drift: Drift) -> dict[str, Any]:
    """Makes a drift an object for JSON: its kind, all that is known, and a text."""
    return {"where": where, **drift.fields, "text": str(drift)}


def _causes(causes: Sequence[Cause]) -> list[dict[str, Any]]:
    return [{name: _finite(value) for name, value in cause._asdict().items()} for cause in causes]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Output:
    """Writes the verdicts that are wanted, and passes news of events on to recipients."""

    def __init__(self, settings: Settings, member: Member) -> None:
        self._member = member
        self._verdicts = (
            Verdicts(settings.verdicts, cast(Only, settings.only)) if settings.verdicts else None
        )
        self._alarms = Alarms(settings)

    def tell(
        self, where: str, verdict: Verdict, news: Sequence[News], drift: Drift | None = None
    ) -> None:
        """Tells of a row, and of what is new with it; returns at once."""
        said = [event_message(where, one) for one in news]
        # A spike is an event, or nothing worth telling.
        if drift is not None and drift.kind != SPIKE:
            said.append(drift_message(where, drift))
        self._say(said)
        if self._verdicts is not None and self._verdicts.wants(verdict):
            causes = self._member.detector.causes(verdict) if verdict.strange else []
            self._verdicts.write(self._signed(message(where, verdict, causes)))

    def tell_news(self, where: str | None, news: Sequence[News]) -> None:
        """Tells what is new without a row; ``where`` is the last one, None before there was one."""
        self._say([event_message(where, one) for one in news])

    def _say(self, messages: Sequence[dict[str, Any]]) -> None:
        said = [self._signed(one) for one in messages]
        # First: where nobody reads the lines, recipients are still told.
        for one in said:
            self._alarms.raise_(one)
        if self._verdicts is not None and self._verdicts.wants_events:
            for one in said:
                self._verdicts.write(one)

    def _signed(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"device": self._member.name, **message}

    def close(self, patience: float) -> None:
        """Closes the file, and delivers what waits, as much as it can in so many seconds."""
        if self._verdicts is not None:
            self._verdicts.close()
        self._alarms.close(patience)


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
            "events": False,
        }[self._only]

    @property
    def wants_events(self) -> bool:
        """Says whether lines are events, and not rows."""
        return self._only == "events"

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
