"""Passes verdicts and events on to the log, programs, recipients, a broker and metrics."""

import logging
from collections import deque
from collections.abc import Sequence

from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import SPIKE
from elmgrove.detector.events import ENDED, EventUpdate
from elmgrove.detector.false_alarms import CHANGING, LEARNING, WATCHING
from elmgrove.detector.verdict import Verdict
from elmgrove.device.metrics import AgentMetrics
from elmgrove.device.mqtt import Sink
from elmgrove.device.output import Output
from elmgrove.device.settings import Settings
from elmgrove.device.status import UNLIKE
from elmgrove.federation.member import Member
from elmgrove.federation.similarity import compare_used, unlike_used, worth_telling
from elmgrove.reading.line_protocol import Point

log = logging.getLogger("elmgrove.device")

# Other devices that are named when many are unlike this one.
_NAMED = 3
#: The last rows, of which the log says how many were anomalous.
LAST = 100


class StateLog:
    """Logs what the device's state is, when it changes, and what is missing before alarms."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._state = detector.state
        self._restarts = detector.progress.restarts
        self._missing = 0
        self._anomalous: deque[bool] = deque(maxlen=LAST)
        self._tell()
        if detector.events.open is not None:
            log.warning("still open, %s", detector.events.open)
        if detector.drift.report is not None:
            log.warning("still: %s", detector.drift.report)

    def follow(self, verdict: Verdict, news: Sequence[EventUpdate] = ()) -> None:
        """Logs what is new with a verdict: events, drift, and the state if it is another one."""
        self._anomalous.append(verdict.anomalous)
        self.tell(news)
        state, restarts = self._detector.state, self._detector.progress.restarts
        if state != self._state:
            if state == LEARNING:
                log.warning("no alarms for now: learning what changed (on_change = adapt)")
            self._state = state
            self._tell()
        elif restarts != self._restarts and state == LEARNING:
            log.info("still learning: more were anomalous than stated; counting begins again")
        self._restarts = restarts
        if verdict.drift is not None:
            level = logging.INFO if verdict.drift.kind == SPIKE else logging.WARNING
            log.log(level, "%s", verdict.drift, extra={"drift": verdict.drift.fields})
        elif self._detector.drift.ended:
            log.info("what had changed is over: rows are normal again")

    def tell(self, news: Sequence[EventUpdate]) -> None:
        """Tells what is new of events."""
        for one in news:
            level = logging.INFO if one.kind == ENDED else logging.WARNING
            log.log(level, "%s", one, extra={"news": one.kind, "event": one.event.fields})

    def tell_missing(self) -> None:
        """Tells how many rows are missing before there are alarms, if that is another number."""
        missing = self._detector.rows_missing
        if missing and missing != self._missing:
            more = f"{missing} more {self._detector.basis.counted}"
            # Where nothing need be shown, that is what was asked for.
            sooner = " (sooner with --watch-now)" if self._detector.progress.confidence else ""
            log.info("learning: %s without an anomalous one until there are alarms%s", more, sooner)
        self._missing = missing

    def _tell(self) -> None:
        if self._state == WATCHING:
            log.info("watching: scores above %.4g are anomalous", self._detector.threshold)
        elif self._state == CHANGING:
            anomalous, last = sum(self._anomalous), len(self._anomalous)
            # Right after a restart there are no last rows.
            rows = f"the last {last} {self._detector.basis.counted}"
            some = f"{anomalous} of {rows} were" if last else "far more than stated is"
            log.warning("changing: %s anomalous", some)
        else:
            self.tell_missing()


class PeerLog:
    """Logs which other devices are not alike, once for each until it is alike again."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._unlike: set[str | None] = set()

    def tell(self) -> None:
        """Compares the device with those that it uses now, and tells what it did not tell yet."""
        member = self._member
        unlike = worth_telling(compare_used(member))
        new = [one for one in unlike if one.name not in self._unlike]
        for one in new[:_NAMED]:
            log.warning("not alike: %s", one.warning(member.detector.basis, merges=member.merges))
        if len(new) > _NAMED:
            log.warning("not alike: %d more devices", len(new) - _NAMED)
        self._unlike = {one.name for one in unlike}
        sensors = unlike_used(member)
        if sensors and not unlike and UNLIKE not in member.notes:
            log.warning("unlike all others: %s", sensors)
        member.notes.pop(UNLIKE, None)
        if sensors:
            # For the status.
            member.notes[UNLIKE] = sensors


class Reporter:
    """Tells of each row, and of what is new without one: somebody said what an event was."""

    def __init__(
        self,
        settings: Settings,
        member: Member,
        metrics: AgentMetrics | None = None,
        sink: Sink | None = None,
    ) -> None:
        self._member = member
        self._metrics = metrics
        self._sink = sink
        self._output = Output(settings, member, sink)
        self._outlook = StateLog(member.detector)

    def go_on_with(self, detector: Detector) -> None:
        """Tells of another detector from now on."""
        self._outlook = StateLog(detector)

    def tell(self, where: str, verdict: Verdict, point: Point | None = None) -> None:
        """Tells of a row and of what is new with it."""
        news = self._member.detector.events.take_updates()
        if self._metrics is not None:
            self._metrics.follow(verdict, news)
        if self._sink is not None:
            self._sink.follow(verdict)
        self._outlook.follow(verdict, news)
        self._output.tell(where, verdict, news, verdict.drift, point)

    def log_updates(self, where: str | None) -> bool:
        """Tells what nobody has told yet; says whether there was anything."""
        news = self._member.detector.events.take_updates()
        self._outlook.tell(news)
        self._output.log_updates(where, news)
        return bool(news)

    def tell_missing(self) -> None:
        """Tells how many rows are missing before there are alarms, if that is another number."""
        self._outlook.tell_missing()

    def close(self, patience: float) -> None:
        """Closes the file, and delivers what waits, as much as it can in so many seconds."""
        self._output.close(patience)
