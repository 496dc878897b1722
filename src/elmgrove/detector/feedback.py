"""Feedback: what a person says of strange rows, and of what was learned in a time span."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.detector import Detector
from elmgrove.detector.pieces import Span
from elmgrove.detector.preparation import Preparation
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.taking_out import TakenOut, take_out, take_out_all
from elmgrove.detector.verdict import Cause, explained
from elmgrove.detector.views import view_of
from elmgrove.reading import time_told

ACCEPT, REJECT = "accept", "reject"
# Errors that must be so many times as large as before to show are worth a word.
_BLUNT = 2.0


@dataclass(frozen=True)
class Feedback:
    """What came of an accept or a reject.

    ``rows`` waited or were given, and are learned or dropped now. ``taken`` were learned before
    and taken out; ``exact`` says whether all of those had to do with the span that was named, which
    is not so where only whole increments are known: they lasted from ``first`` to ``last``.
    ``blunter`` names the feature whose errors show least now, and how many times as large they must
    be as before; None if that is less than twice. ``raised`` is the threshold before, if it is less
    than half of what it is now.
    """

    action: str
    rows: int
    taken: int
    exact: bool
    first: float | None
    last: float | None
    state: str
    threshold: float | None
    blunter: tuple[str, float] | None = None
    raised: float | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """All of it as JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        said = [self._of_rows]
        if self.taken and self.action == ACCEPT:
            said.append(f"all {_counted(self.taken)} learned before {_were(self.taken)} taken out")
        elif self.taken:
            said.append(f"{_counted(self.taken)} learned {_were(self.taken)} taken out{self._how}")
        elif self.action == REJECT:
            said.append("nothing learned was taken out")
        limit = "" if self.threshold is None else f", strange above {self.threshold:.3g}"
        limit += "" if self.raised is None else f" ({self.raised:.3g} before: smaller faults pass)"
        return f"{'; '.join(said)}. Now {self.state}{limit}.{self._warning}"

    @property
    def _warning(self) -> str:
        if self.blunter is None:
            return ""
        feature, times = self.blunter
        return (
            f" One model of both normals: an error of {feature} must be {times:.1f} times as "
            "large as before to show. reject --to takes the old one out; accept --instead does so "
            "at once."
        )

    @property
    def _of_rows(self) -> str:
        if not self.rows:
            return "No row waited"
        done = (
            "learned as a new normal" if self.action == ACCEPT else "dropped, never to be learned"
        )
        return f"{_counted(self.rows)} {_were(self.rows)} {done}"

    @property
    def _how(self) -> str:
        if self.exact or self.first is None or self.last is None:
            return ", exactly"
        return (
            f" by whole increments, from {time_told(self.first)} UTC to {time_told(self.last)} UTC"
        )


def accept(
    detector: Detector,
    span: Span | None = None,
    *,
    rows: Any = None,
    times: Any = None,
    instead: bool = False,
) -> Feedback:
    """Learns rows that wait in quarantine as a new normal: all, or those whose time is in a span.

    ``rows`` are learned in their place if they are given, as they were measured one after the other
    (at ``times``, if told). With ``instead`` the new normal takes the place of all that was learned
    before, which is taken out: one model of two normals that are far apart would hardly notice what
    lies between them (``PatternRule`` gives each its own).
    """
    if rows is None:
        waiting = detector.quarantine.release(lambda one: one.within(span))
    else:
        waiting = _given(detector, rows, times)
    before, threshold = _residuals(detector), detector.threshold
    taken = take_out_all(detector) if instead and waiting else 0
    detector.adopt(waiting, by_hand=rows is not None)
    if waiting:
        detector.quarantine.rejected = False
        # What was asked is answered: the event is over, and drift is from here on.
        detector.events.end()
        if detector.drift is not None:
            detector.drift.restart()
    told = _feedback(ACCEPT, detector, len(waiting), TakenOut(taken))
    told = replace(told, raised=_raised(threshold, detector.threshold))
    return told if instead else replace(told, blunter=_blunter(detector, before))


def reject(detector: Detector, span: Span | None = None) -> Feedback:
    """Drops rows that wait in quarantine, never to be learned: all, or those that touch a span.

    What was learned in the span is taken out again, as if there had been a gap; without a span
    nothing was learned of what waits. A change that was rejected is a fault: the detector stays
    ``changing`` until rows are normal again, and ``promote_after`` does not learn it meanwhile.
    """
    dropped = detector.quarantine.release(lambda one: one.touches(span))
    taken = TakenOut() if span is None else take_out(detector, span)
    if dropped:
        detector.quarantine.rejected = True
    return _feedback(REJECT, detector, len(dropped), taken)


def listed(detector: Detector, causes: int = 3, last: int | None = None) -> list[dict[str, Any]]:
    """Lists what waits in quarantine, oldest first, each with what explains it, as JSON holds it.

    Time and score are as they were; causes are those that the model would find now. Only the
    ``last`` ones if a number is given: to explain each takes a while.
    """
    waiting = detector.quarantine.waiting
    return [
        {
            "time": one.time,
            "score": one.score,
            "causes": [_finite(cause._asdict()) for cause in _causes(detector, one, causes)],
        }
        for one in (waiting if last is None else waiting[-last:])
    ]


def _given(detector: Detector, rows: Any, times: Any) -> list[Waiting]:
    """Rows of a stretch by itself, as inputs like those that wait."""
    preparation = Preparation(detector.basis, detector.model.dtype)
    X, when = preparation.next_many(rows, times)
    window = preparation.last_rows
    periods = window.periods(X, when)
    inputs = window.add_many(X, when)
    return [
        Waiting(_known(time), None, x, _known(since))
        for x, (since, time) in zip(inputs, periods.tolist(), strict=True)
    ]


def _causes(detector: Detector, one: Waiting, k: int) -> list[Cause]:
    x, view = view_of(detector.model, one.row)
    return explained(detector.basis, view, x, k)


def _residuals(detector: Detector) -> Array | None:
    """What the others leave open of each column of the newest row; None if there is no saying."""
    basis, model = detector.basis, detector.model
    if basis.score == "loss" or detector.patterns is not None or not model.evidence.count:
        return None
    _, distance = model.explainer(np.zeros(basis.inputs))
    residuals: Array = distance.residual[-basis.layer.inputs :]
    return residuals


def _blunter(detector: Detector, before: Array | None) -> tuple[str, float] | None:
    after = _residuals(detector)
    if before is None or after is None:
        return None
    times = after / np.maximum(before, np.finfo(float).tiny)
    worst = int(times.argmax())
    return (detector.basis.names[worst], float(times[worst])) if times[worst] >= _BLUNT else None


def _raised(before: float, after: float) -> float | None:
    return before if 0.0 < _BLUNT * before <= after < math.inf else None


def _feedback(action: str, detector: Detector, rows: int, taken: TakenOut) -> Feedback:
    threshold = detector.threshold
    return Feedback(
        action,
        rows,
        taken.rows,
        taken.exact,
        _known(taken.first),
        _known(taken.last),
        detector.state,
        threshold if threshold < math.inf else None,
    )


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields as JSON holds them, which knows no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }


def _counted(rows: int) -> str:
    return f"{rows:,} row{'s' * (rows != 1)}"


def _were(rows: int) -> str:
    return "was" if rows == 1 else "were"
