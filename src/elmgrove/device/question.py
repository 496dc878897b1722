"""The one question about a change: an event that lasts, and what the watch over drift found."""

import logging
from collections.abc import Sequence

from elmgrove.detector import (
    CHANGING,
    ENDED,
    LEARNING,
    SPIKE,
    Detector,
    Drift,
    DriftWatch,
    News,
    Verdict,
)
from elmgrove.device.reaction import Reaction

log = logging.getLogger("elmgrove.device")

# Rows that are waited for what a change is; then it is asked about without.
_PATIENCE = 200


class Question:
    """Lets the watch over drift follow verdicts, and puts what it finds into the news of events.

    That an event lasts is known before it is known what changed: the question waits for that, and
    is asked once. It is dropped with the end of the event, and asked without an event of a drift so
    slow that rows are strange one at a time.
    """

    def __init__(self, detector: Detector, reaction: Reaction) -> None:
        self._detector, self._watch = detector, DriftWatch.of(detector)
        self._reaction = reaction
        self._asked: int | None = None
        self._held: News | None = None
        self._rows = 0
        if self._watch.report is not None:
            log.warning("still: %s", self._watch.report)

    def follow(self, verdict: Verdict, news: Sequence[News]) -> list[News]:
        """Takes in a verdict and the news of events with it; gives the news to tell."""
        drift = self._lasting(verdict)
        told = [one for one in news if one.kind != CHANGING]
        for one in news:
            if one.kind == CHANGING and one.event is not None and one.event.number != self._asked:
                self._held, self._rows = one, 0
            if one.kind == ENDED:
                self._held = None
        if drift is not None:
            event, self._held = self._detector.events.open, None
            self._asked = None if event is None else event.number
            told.append(News(CHANGING, event, drift))
        elif self._held is not None:
            self._rows += 1
            if self._rows >= _PATIENCE:
                told.append(self._held)
                self._held = None
        self._reaction.follow(drift)
        return told

    def _lasting(self, verdict: Verdict) -> Drift | None:
        """What was found out with a row: a change or a slow drift, and mostly nothing."""
        was_found = self._watch.found
        found = self._watch.follow(verdict)
        if found is not None and found.kind == SPIKE:
            log.info("%s", found)
            return None
        if was_found and not self._watch.found and verdict.state != LEARNING:
            log.info("what had changed is over: rows are normal again")
        return found
