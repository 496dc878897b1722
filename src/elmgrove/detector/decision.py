"""The alarm gate: which rows are anomalous, by the scores before them, and if that is earned."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.detector.false_alarms import CHANGING, LEARNING, RateTest
from elmgrove.detector.recent import Recent, Stamp
from elmgrove.detector.thresholds import FalseAlarmRate, Threshold
from elmgrove.errors import BadInput, require_whole

# The threshold may be older than the scores it is computed from by this part of them.
_SHARE = 128
# The margin of a threshold that comes from rows known to be normal is at most so many times it.
_MARGIN = 1.35
# Rows that are anomalous one by one lift the threshold at most to so many times of what it was.
_FOLLOW = 4.0
# Where so many of them, the last, fill half of the rows or more, they do not come one by one.
_TOGETHER = 5.0
_LARGEST = sys.float_info.max


class Decision(NamedTuple):
    """What the gate says of a row: in which state it was, by which limit, and whether anomalous."""

    state: str
    limit: float
    anomalous: bool
    #: The rows since more are anomalous than stated, and the threshold before if this raised it
    #: for the first time.
    excess: int = 0
    raised: float | None = None


class AlarmGate:
    """Decides whether a row is anomalous, and remembers the scores that it decides by.

    Every row is compared with the threshold that there would be, once ``warmup`` rows are known and
    there are enough scores, and counted; but it is anomalous only where counting has shown the
    stated rate (``RateTest``), or where rows known to be normal were learned, some fifty at least.

    Where anomalous rows come one by one, more of them than stated, the threshold was too low: it is
    raised to where the stated share of the rows since then lies above it, but for those that are
    far above. So it is where counting can't decide whether the stated rate holds. It stays there
    until the scores that it is computed from are all younger; meanwhile it may be raised further,
    which is no new question. For as long, a threshold that comes from rows known to be normal has
    a margin. It falls only where counting over as many rows as were known to be normal shows that
    it is too high, each time to half of it at most: what is rare comes again.
    """

    def __init__(
        self,
        basis: Basis,
        dtype: np.dtype[Any],
        threshold: Threshold | None,
        warmup: int | None,
        rows_known: Callable[[], float],
        left_out: Callable[[Array], Array],
    ) -> None:
        self._rows_known = rows_known
        self._left_out = left_out
        self.policy: Threshold = threshold or FalseAlarmRate()
        units = basis.layer.units
        self.warmup = 2 * units if warmup is None else require_whole("warmup", warmup, 0)
        apart = _apart(self.policy, basis.window)
        self.recent = Recent(self.policy.capacity, basis.inputs, dtype, apart, basis.window)
        #: What counting has shown up to now.
        self.progress = RateTest(self.policy.rate, self.policy.confidence, basis.window)
        self._limit: float | None = None
        # The threshold is computed again at this number of rows.
        self._limit_until = 0
        # Since there is an excess: the scores above it, each with the number of its row; and the
        # others, also those of them that are above the median.
        self._above: list[tuple[float, int]] = []
        self._below = self._upper = 0
        # What anomalous rows raised the threshold to, and up to how many rows accepted that holds;
        # and up to how many what was taught has a margin.
        self._raised, self._raised_until, self._cautious_until = 0.0, 0, 0
        # The threshold by few rows, which were taught: others are not known to be normal.
        self._by_few: float | None = None
        self._warm = False
        # Rows judged since the threshold last fell, and those of them a little above it.
        self._judged = self._near = 0

    # Deciding

    def limit(self) -> float:
        """Computes the threshold by the scores up to now, whether it is relied on or not yet."""
        recent = self.recent
        if self._limit is None or recent.clock >= self._limit_until:
            enough = not recent.missing(self.policy.minimum)
            least = self._least_limit()
            self._limit = self.policy.limit(recent) if enough else math.inf
            if not enough and self._few_will_do:
                self._limit = self._limit_by_few()
            elif enough and recent.accepted < self._cautious_until:
                cautious = self._cautious_limit(recent.scores)
                self._limit = max(self._limit, min(cautious, _MARGIN * self._limit))
            self._limit = max(self._limit, self.raised or 0.0)
            self._limit = max(self._limit, least)
            self._limit_until = recent.clock + 1 + len(recent) // _SHARE
        return self._limit

    def _least_limit(self) -> float:
        """How far a threshold may fall that comes from rows known to be normal."""
        progress, rate = self.progress, self.policy.rate
        if not (self._limit and progress.taught and self._judged and rate):
            return 0.0
        if self._judged < progress.taught:
            return self._kept
        # Even with one more burst there would be no more than stated.
        if self._near + progress.seen.length > rate * self._judged:
            return self._kept
        self._judged = self._near = 0
        return self._limit / 2.0

    @property
    def _kept(self) -> float:
        return self._limit if self._limit is not None and self._limit < math.inf else 0.0

    def _limit_by_few(self) -> float:
        """The threshold by the last rows, each scored by a model without it."""
        if self._by_few is None:
            self._by_few = self._cautious_limit(self._left_out(self.recent.rows).tolist())
        return self._by_few

    def _cautious_limit(self, scores: list[float]) -> float:
        policy, recent = self.policy, self.recent
        if isinstance(policy, FalseAlarmRate):
            return policy.cautious_limit(scores, recent.together)
        return policy.limit(recent)

    @property
    def _few_will_do(self) -> bool:
        return self.rows_to_learn == 0

    @property
    def rows_to_learn(self) -> int:
        """Rows known to be normal that must still be learned for a threshold by them alone."""
        taught, short = self.progress.taught, 0.0
        if self.policy.rate is not None and not self.policy.confidence:
            # Nothing need be shown: rows of the stream are taken for normal as well.
            taught, short = len(self.recent.rows), self.warmup - self._rows_known()
        known = min(taught, len(self.recent.rows))
        return max(max(self.policy.fewest, 2) - known, math.ceil(short), 0)

    @property
    def state(self) -> str:
        """The state of the detector: ``learning``, ``watching`` or ``changing``."""
        return self.progress.state if self._ready else LEARNING

    def decide(self, score: float) -> Decision:
        """Decides about a row, and counts it."""
        limit = self.limit()
        if not self._ready:
            return Decision(LEARNING, math.inf, False)
        # Written so that a score that is no number would be anomalous.
        above = not score <= limit
        progress = self.progress
        state = progress.state
        progress.count(above)
        if state == LEARNING:
            self._earn(score, above, limit)
            return Decision(LEARNING, math.inf, False)
        excess, raised = progress.excess_rows, None
        self._judged += 1
        if above:
            if score <= _FOLLOW * limit:
                self._near += 1
            if excess:
                self._note_above(score, excess)
            if progress.lasting:
                if progress.scattered and self._together:
                    # What came one by one before is no part of the change.
                    excess = 1
                raised = self._follow_or_change(limit)
        elif self._above:
            self._note_below(score)
        return Decision(state, limit, above, excess, raised)

    def _earn(self, score: float, above: bool, limit: float) -> None:
        """Notes a row while the stated rate is not shown, and raises a threshold that may be."""
        progress = self.progress
        if progress.state != LEARNING or not progress.test_rows:
            self._forget_excess()
            return
        if above:
            self._note_above(score, progress.test_rows)
        if progress.undecided:
            self._raise_to_follow(limit, progress.test_rows)

    def _note_above(self, score: float, row: int) -> None:
        # As JSON holds it, which knows no infinity.
        self._above.append((score if score < _LARGEST else _LARGEST, row))

    def _note_below(self, score: float) -> None:
        if not self.progress.excess:
            self._forget_excess()
            return
        self._below += 1
        self._upper += score > self.recent.median

    def _forget_excess(self) -> None:
        self._above, self._below, self._upper = [], 0, 0

    @property
    def _shifted(self) -> bool:
        """Whether rows that are not anomalous score higher than before, all of them, as well."""
        chance = 1.5 * math.sqrt(self._below * self.recent.together)
        return self._upper > self._below / 2.0 + chance

    @property
    def _together(self) -> bool:
        """Whether the last anomalous rows came together, whatever came before them by chance."""
        latest = self._above[-math.ceil(_TOGETHER * self.progress.seen.length) :]
        return 2 * len(latest) >= latest[-1][1] - latest[0][1] + 1

    def _follow_or_change(self, limit: float) -> float | None:
        """Raises the threshold where rows are anomalous one by one; else, they have changed."""
        progress = self.progress
        if not progress.scattered or self._shifted or self._together:
            self._forget_excess()
            progress.change()
            return None
        asked = self.recent.accepted < self._raised_until
        self._raise_to_follow(limit, progress.excess_rows)
        return None if asked or limit < self.limit() <= _MARGIN * limit else limit

    def _raise_to_follow(self, limit: float, rows: int) -> None:
        """Raises the threshold to where the stated share of the last rows lies above it."""
        # Those far above say nothing about where normal rows end.
        near = sorted((one for one, _ in self._above if one <= _FOLLOW * limit), reverse=True)
        stated = (self.policy.rate or 0.0) * rows
        if len(near) > stated + 3.0 * math.sqrt(stated):
            self._raised = near[max(math.floor(stated), 1) - 1]
        elif self.raised is None:
            self._raised = 0.0
        self._raised_until = 2 * self.recent.accepted
        self._forget_excess()
        self.progress.settle()
        self.expire()

    @property
    def raised(self) -> float | None:
        """What anomalous rows raised the threshold to, as long as that holds."""
        return self._raised or None if self.recent.accepted < self._raised_until else None

    def learned(self, rows: Array, scores: Array, stamps: Sequence[Stamp] | None = None) -> None:
        """Takes in rows that are known to be normal, each scored before it was learned.

        Where most of the latest are above the threshold, what is normal was another before: then
        the scores up to now say nothing about it any more.
        """
        recent = self.recent
        limit = self.limit() if not recent.missing(self.policy.minimum) else math.inf
        self.progress.teach(len(rows))
        recent.accept_many(rows, scores, stamps)
        self._cautious_until, self._by_few = 2 * recent.accepted, None
        if recent.mostly_above(limit, self.policy.rate or 0.0):
            recent.begin()
            self.expire()

    @property
    def rows_missing(self) -> int:
        """Rows that must still come, none of them above the threshold, before there are alarms."""
        if self.state != LEARNING:
            return 0
        short = max(self.warmup - self._rows_known(), self.recent.missing(self.policy.minimum), 0)
        if self.policy.rate is not None and not self.policy.confidence:
            return min(math.ceil(short), self.rows_to_learn)
        return math.ceil(short) + self.progress.missing

    @property
    def _ready(self) -> bool:
        if not self._warm:
            enough = not self.recent.missing(self.policy.minimum)
            enough = enough and self._rows_known() >= self.warmup
            self._warm = enough or self._few_will_do
        return self._warm

    # What it decides by

    def set_policy(self, policy: Threshold) -> None:
        """Decides by another threshold from the next row on, by the scores up to now.

        It goes on watching where there are scores enough, though counting begins again with
        another rate (``RateTest.restate``). Where there are not, it is learning.
        """
        old, self.policy = self.policy, policy
        known = isinstance(old, FalseAlarmRate) and old.explains(self.recent)
        if known and old.rate != policy.rate:
            self.recent.settle_near_misses()
        apart = _apart(policy, self.progress.window)
        enough = self.recent.suit(policy.minimum, policy.capacity, apart)
        self.progress.restate(policy.rate, policy.confidence)
        if not enough:
            self.progress.doubt()
        self.expire()

    def adopted(self, rows: Array, scores: Array, stamps: Sequence[Stamp] | None = None) -> None:
        """Takes in rows that were anomalous and are a new normal."""
        self.progress.teach(len(rows))
        self.recent.accept_many(rows, scores, stamps)
        if self.progress.state == CHANGING:
            self.progress.accept()
        self.expire()

    def follow(self, before: float | None, after: float | None) -> None:
        """Lets the scores up to now follow a model that others have changed."""
        if before and after:
            self.recent.follow(before, after)
            self._raised *= after / before
        self.expire()

    def begin(self) -> None:
        """Forgets all scores and what counting has shown: it is learning again."""
        self.recent.begin()
        self.progress.doubt()
        # The last rows are no longer those that were taught.
        self.progress.taught = 0
        self.lower()

    def lower(self) -> None:
        """Takes back what anomalous rows raised the threshold to."""
        self._raised_until = 0
        self.expire()

    def expire(self) -> None:
        """Lets the threshold be computed again: the scores are others now."""
        self._limit, self._by_few, self._warm = None, None, False

    # On disk

    @property
    def fields(self) -> dict[str, Any]:
        """All that it counts, as JSON holds it; its rules go separately."""
        known = self._limit is not None and self._limit < math.inf
        limit = [self._limit, float(self._limit_until)] if known else None
        return {
            **self.recent.fields,
            **self.progress.fields,
            # So that it goes on with the threshold it had.
            "limit": limit,
            "raised": [self._raised, float(self._raised_until)],
            "cautious_until": self._cautious_until,
            "by_few": self._by_few,
            "above": [list(one) for one in self._above],
            "below": [self._below, self._upper],
            "judged": [self._judged, self._near],
        }

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from ``fields``, and from the arrays of ``recent``."""
        self.recent.restore(fields, arrays)
        self.progress.restore(fields)
        self._above = [_threshold_until("above", one) for one in fields["above"]]
        self._below, self._upper = (require_whole("below", one, 0) for one in fields["below"])
        self._judged, self._near = (require_whole("judged", one, 0) for one in fields["judged"])
        self._cautious_until = require_whole("cautious_until", fields["cautious_until"], 0)
        if fields["by_few"] is not None:
            self._by_few, _ = _threshold_until("by_few", [fields["by_few"], 0])
        self._raised, self._raised_until = _threshold_until("raised", fields["raised"])
        if fields["limit"] is not None:
            self._limit, self._limit_until = _threshold_until("limit", fields["limit"])


def _threshold_until(name: str, known: Any) -> tuple[float, int]:
    rows = int(known[1]) if len(known) == 2 else -1
    if not 0.0 <= known[0] < math.inf or known[1] != rows or rows < 0:
        raise BadInput(f"{name} is a threshold and a number of rows, not {known!r:.60}")
    return float(known[0]), rows


def _apart(policy: Threshold, window: int) -> int:
    """How many rows after a refused one another says something of its own about normal rows.

    Of rows that are anomalous by chance alone, a tenth at most comes sooner.
    """
    rate = policy.rate or 1.0
    return max(window, min(10, int(0.1 / rate)), 1)
