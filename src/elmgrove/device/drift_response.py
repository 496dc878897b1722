"""What an agent does by itself when rows have changed for good, if it was set to."""

import logging

from elmgrove.detector.decision import LEARNING
from elmgrove.detector.drift import SPIKE, Drift
from elmgrove.detector.feedback import accept
from elmgrove.detector.history import Span, fade
from elmgrove.errors import BadInput
from elmgrove.federation.member import Member

log = logging.getLogger("elmgrove.device")

#: The member's note of what is still left to forget, while it adapts.
ADAPTING = "adapting"


class DriftResponse:
    """Reacts to a lasting change or a slow drift once there are enough rows of it.

    ``relearn`` begins again with the rows since the change, ``pattern`` makes them one more
    pattern. ``adapt`` learns them and fades what was learned before; meanwhile there are no alarms.
    None of them can tell a new normal from a fault that stays, so none is the default.
    """

    def __init__(self, on_change: str, member: Member) -> None:
        self._on_change, self._member = on_change, member
        patterns = member.detector.patterns
        if on_change == "pattern" and patterns is None:
            raise BadInput(
                "on_change = pattern: this device has one model for all that is normal; make a "
                "new one with patterns = auto, or choose ask, adapt or relearn"
            )
        if on_change == "adapt" and patterns is not None:
            raise BadInput(
                "on_change = adapt: a device with patterns would forget those that are not at "
                "work; choose pattern, ask or relearn"
            )
        inputs = member.detector.basis.inputs
        # Rows of the new normal to wait for, and rows from one step of adapting to the next.
        self._enough = min(max(64, 2 * inputs), member.detector.quarantine.capacity)
        self._step_rows = max(64, inputs)
        report = member.detector.drift.report
        self._since = None if report is None else report.since

    def follow(self, drift: Drift | None) -> None:
        """Takes in what a verdict says of drift, mostly nothing, and reacts if it is time."""
        if (adapting := self._member.notes.get(ADAPTING)) is not None:
            adapting["rows"] += 1
            if adapting["rows"] >= self._step_rows:
                self._forget()
        elif "settling" in self._member.notes:
            self._settle()
        if drift is not None and drift.kind != SPIKE:
            self._since = drift.since
        if self._since is not None:
            self._react(self._since)

    def _react(self, since: float) -> None:
        detector = self._member.detector
        watch, waiting = detector.drift, detector.quarantine.waiting
        if not watch.found or detector.quarantine.rejected:
            # It went away by itself, or a person has answered.
            self._since = None
            return
        if sum(one.time is not None and one.time >= since for one in waiting) < self._enough:
            return
        self._since = None
        watch.restart()
        known = detector.evidence.count
        by = f"on_change = {self._on_change}"
        told = accept(detector, Span(since), instead=self._on_change == "relearn", by=by)
        if self._on_change == "adapt":
            self._member.notes[ADAPTING] = {"left": known, "rows": 0}
            # So often it may begin its scores again.
            self._member.notes["settling"] = 10
            self._forget()
            log.warning(
                "on_change = adapt: %d rows were learned as a new normal, and all before are "
                "forgotten step by step",
                told.rows,
            )
        else:
            log.warning("on_change = %s: %s", self._on_change, told)

    def _forget(self) -> None:
        """Fades what was learned; once little is left of what was learned before, no more."""
        noted = self._member.notes[ADAPTING]
        fade(self._member.detector, 0.25)
        noted["left"], noted["rows"] = 0.25 * noted["left"], 0
        # A few rows that are far away would still make room for faults.
        if noted["left"] < 1e-4 * self._step_rows:
            del self._member.notes[ADAPTING]
            log.info("what was learned before the change is forgotten")

    def _settle(self) -> None:
        """Begins the scores again where the threshold is far above most of them.

        While it is learning all rows are learned, also those at a switch between two regimes: their
        scores would be the threshold for long.
        """
        notes, gate = self._member.notes, self._member.detector.gate
        recent, needed = gate.recent, gate.policy.minimum
        # A threshold that was stated needs no scores.
        ready = needed and not recent.missing(needed)
        # Such a threshold comes from rows at another change, not from the normal ones since.
        if ready and gate.limit() > 20.0 * recent.median:
            gate.begin()
            notes["settling"] -= 1
        if notes["settling"] == 0 or self._member.detector.state != LEARNING:
            del notes["settling"]
