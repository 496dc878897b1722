"""What an agent shows of a row: its messages, its log and the file of verdicts."""

import json
import logging
import math
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from elmgrove.detector.decision import CHANGING, LEARNING, WATCHING
from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import SPIKE
from elmgrove.detector.events import ENDED, EventUpdate
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.device.input_health import Outage
from elmgrove.federation.comparison import compare_used, notable, unlike_used
from elmgrove.federation.member import Member
from elmgrove.reading.line_protocol import Point
from elmgrove.reading.times import json_when
from elmgrove.storage.disk import takes_nothing

log = logging.getLogger("elmgrove.device")


def message(where: str | None, verdict: Verdict, causes: Sequence[Cause]) -> dict[str, Any]:
    """Makes a verdict an object for JSON, which knows no infinity: such numbers are null."""
    return {
        "where": where,
        "time": None if verdict.time is None else json_when(verdict.time),
        "score": _finite(verdict.score),
        "threshold": _finite(verdict.threshold),
        "state": verdict.state,
        "anomalous": verdict.anomalous,
        "known": list(verdict.known),
        "learned": verdict.learned,
        "alarm": verdict.alarm,
        "event": verdict.event,
        "pattern": verdict.pattern,
        "flagged": {
            "rows": verdict.flagged.rows,
            "share": verdict.flagged.share,
            "band": list(verdict.flagged.band),
        },
        "causes": [cause.fields for cause in causes],
    }


def wants(only: str, verdict: Verdict) -> bool:
    if only == "anomalies":
        return verdict.anomalous
    return only == "all" or (only == "alarms" and verdict.alarm)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Observation:
    """What observers of an agent see: a verdict and what is new with it, or news without a row.

    ``updates`` are of events; without a verdict somebody has said what an event was. What an
    observer writes or sends of it is made once for all of them.
    """

    member: Member
    where: str | None
    verdict: Verdict | None
    updates: Sequence[EventUpdate]
    point: Point | None = None

    @cached_property
    def message(self) -> dict[str, Any]:
        """The verdict for JSON; for anomalous rows, with their causes."""
        assert self.verdict is not None
        verdict, name = self.verdict, self.member.name
        causes = verdict.explain() if verdict.anomalous else []
        return {"device": name, **message(self.where, verdict, causes)}

    @cached_property
    def news(self) -> list[dict[str, Any]]:
        """Event updates and drift for JSON."""
        found = [
            {"kind": one.kind, "where": self.where, **one.event.fields, "text": str(one)}
            for one in self.updates
        ]
        drift = None if self.verdict is None else self.verdict.drift
        # A spike is an event, or nothing worth a message.
        if drift is not None and drift.kind != SPIKE:
            found.append({"where": self.where, **drift.fields, "text": str(drift)})
        return [{"device": self.member.name, **one} for one in found]


class Observer(Protocol):
    """Part of an agent that sees each verdict once, and changes nothing."""

    def observe(self, seen: Observation) -> None: ...


class StateLog:
    """Logs events, drift and the device's state, and how many rows are missing before alarms."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._state = detector.state
        self._restarts = detector.progress.restarts
        self._missing = 0
        self._raised = detector.gate.raised
        self._anomalous: deque[bool] = deque(maxlen=100)
        self._log_state()
        if detector.events.open is not None:
            log.warning("still open, %s", detector.events.open)
        if detector.drift.report is not None:
            log.warning("still: %s", detector.drift.report)

    def observe(self, seen: Observation) -> None:
        for update in seen.updates:
            level = logging.INFO if update.kind == ENDED else logging.WARNING
            log.log(level, "%s", update, extra={"news": update.kind, "event": update.event.fields})
        verdict = seen.verdict
        if verdict is None:
            return
        self._anomalous.append(verdict.anomalous)
        state, restarts = self._detector.state, self._detector.progress.restarts
        if state != self._state:
            if state == LEARNING:
                log.warning("no alarms for now: learning what changed (on_change = adapt)")
            self._state = state
            self._log_state()
        elif restarts != self._restarts and state == LEARNING:
            log.info("still learning: more were anomalous than stated; counting begins again")
        self._restarts = restarts
        raised = self._detector.gate.raised
        if raised != self._raised and raised and verdict.raised is None:
            log.info("the threshold follows anomalous rows that come one by one, to %.4g", raised)
        self._raised = raised
        if verdict.drift is not None:
            level = logging.INFO if verdict.drift.kind == SPIKE else logging.WARNING
            log.log(level, "%s", verdict.drift, extra={"drift": verdict.drift.fields})
        elif self._detector.drift.ended:
            log.info("what had changed is over: rows are normal again")

    def log_missing(self) -> None:
        missing = self._detector.rows_missing
        if missing and missing != self._missing:
            more = f"{missing} more {self._detector.basis.counted}"
            # Where nothing need be shown, that is what was asked for.
            sooner = " (sooner with --watch-now)" if self._detector.progress.confidence else ""
            log.info("learning: %s without an anomalous one until there are alarms%s", more, sooner)
        self._missing = missing

    def _log_state(self) -> None:
        if self._state == WATCHING:
            log.info("watching: scores above %.4g are anomalous", self._detector.threshold)
        elif self._state == CHANGING:
            anomalous, last = sum(self._anomalous), len(self._anomalous)
            # Right after a restart there are no last rows.
            rows = f"the last {last} {self._detector.basis.counted}"
            some = f"{anomalous} of {rows} were" if last else "far more than stated is"
            log.warning("changing: %s anomalous", some)
        else:
            self.log_missing()


class PeerLog:
    """Logs which other devices differ from this one, once for each until it is similar again."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._unlike: set[str | None] = set()

    def compare(self) -> None:
        member = self._member
        unlike = notable(compare_used(member))
        new = [one for one in unlike if one.name not in self._unlike]
        for one in new[:3]:
            log.warning("not alike: %s", one.warning(member.detector.basis, merges=member.merges))
        if len(new) > 3:
            log.warning("not alike: %d more devices", len(new) - 3)
        self._unlike = {one.name for one in unlike}
        sensors = unlike_used(member)
        if sensors and not unlike and "unlike" not in member.notes:
            log.warning("unlike all others: %s", sensors)
        member.notes.pop("unlike", None)
        if sensors:
            # For the status.
            member.notes["unlike"] = sensors


class Verdicts:
    """Writes verdicts, a line each, at once; ``-`` is standard output.

    When log rotation has renamed or removed the file, a new one is begun. What the disk took of a
    line that it had no room for is taken back, and where that is impossible the next line begins
    behind a line feed. How many lines got lost is told when it works again.
    """

    def __init__(self, where: str, only: str = "all") -> None:
        self._only = only
        self._path = None if where == "-" else Path(where)
        name = "standard output" if self._path is None else str(self._path)
        meanwhile = "watching and alarms go on, these lines are lost"
        self._outage = Outage(name, "takes no verdicts", meanwhile, "takes verdicts again")
        self._lost = 0
        # Whether the last line there has no end.
        self._torn = False
        self._out: int | None = None
        self._looked = time.monotonic()
        try:
            self._open()
        except OSError as error:
            if not takes_nothing(error):
                raise
            self._outage.begin(error)

    def observe(self, seen: Observation) -> None:
        if self._only == "events":
            for one in seen.news:
                self.write(one, seen.point)
        elif seen.verdict is not None and wants(self._only, seen.verdict):
            self.write(seen.message, seen.point)

    def write(self, message: dict[str, Any], point: Point | None = None) -> None:
        """Writes a message as a line of JSON, or about a point as one with its tags and time."""
        if point is None:
            text = json.dumps(message, ensure_ascii=False, allow_nan=False) + "\n"
        else:
            beside = ("device", "where", "time", "flagged")
            fields = {key: value for key, value in message.items() if key not in beside}
            text = point.line("elmgrove_event" if "kind" in message else "elmgrove", fields)
        # The name of a file may hold bytes that are no text.
        self.put(text.encode(errors="backslashreplace"))

    def put(self, line: bytes) -> None:
        """Writes a line if that is possible; raises ``BrokenPipeError`` where nobody ever will."""
        try:
            self._append(self._followed(), line)
        except BrokenPipeError as error:
            raise BrokenPipeError("verdicts: the program that read them has ended") from error
        except OSError as error:
            self._lost += 1
            self._outage.begin(error)
        else:
            if self._lost:
                self._outage.end(f"; {self._lost} were lost")
                self._lost = 0

    def close(self) -> None:
        if self._lost:
            log.warning("verdicts: %d were not written", self._lost)
        if self._path is not None and self._out is not None:
            with suppress(OSError):
                os.close(self._out)
            self._out = None

    def _open(self) -> int:
        if self._path is None:
            sys.stdout.flush()
            self._out = sys.stdout.fileno()
        else:
            self._out = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            self._torn = _is_torn(self._path)
        return self._out

    def _followed(self) -> int:
        if self._out is None:
            return self._open()
        now = time.monotonic()
        if self._path is None or now - self._looked < 1.0:
            return self._out
        self._looked = now
        if _same(self._path, self._out):
            return self._out
        old, self._out = self._out, None
        with suppress(OSError):
            os.close(old)
        return self._open()

    def _append(self, out: int, line: bytes) -> None:
        line, done = b"\n" * self._torn + line, 0
        try:
            while done < len(line):
                done += os.write(out, line[done:])
        except OSError:
            self._torn = self._torn or (done > 0 and not _taken_back(out, done))
            raise
        self._torn = False


def _taken_back(out: int, count: int) -> bool:
    """Removes the last bytes of a file that were just written; False where that is impossible."""
    try:
        end = os.lseek(out, 0, os.SEEK_CUR)
        if os.fstat(out).st_size != end:
            # A pipe, or another program has written since.
            return False
        os.ftruncate(out, end - count)
        os.lseek(out, end - count, os.SEEK_SET)
    except OSError:
        return False
    return True


def _is_torn(path: Path) -> bool:
    try:
        if not stat.S_ISREG(path.stat().st_mode) or not path.stat().st_size:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False


def _same(path: Path, out: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(out))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
