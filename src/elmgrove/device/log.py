"""What an agent logs: its state, events and drift, and which other devices are unlike it."""

import logging
from collections import deque

from elmgrove.detector.decision import CHANGING, LEARNING, WATCHING
from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import SPIKE
from elmgrove.detector.events import ENDED
from elmgrove.device.output import Observation
from elmgrove.device.status import UNLIKE
from elmgrove.federation.member import Member
from elmgrove.federation.similarity import compare_used, unlike_used, worth_telling

log = logging.getLogger("elmgrove.device")


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
        """Logs events, drift, and the state if it is another one than before."""
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
        """Logs how many rows are missing before there are alarms, if that has changed."""
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
        """Compares the device with those that it uses now, and logs what is new."""
        member = self._member
        unlike = worth_telling(compare_used(member))
        new = [one for one in unlike if one.name not in self._unlike]
        for one in new[:3]:
            log.warning("not alike: %s", one.warning(member.detector.basis, merges=member.merges))
        if len(new) > 3:
            log.warning("not alike: %d more devices", len(new) - 3)
        self._unlike = {one.name for one in unlike}
        sensors = unlike_used(member)
        if sensors and not unlike and UNLIKE not in member.notes:
            log.warning("unlike all others: %s", sensors)
        member.notes.pop(UNLIKE, None)
        if sensors:
            # For the status.
            member.notes[UNLIKE] = sensors
