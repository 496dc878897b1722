"""Which rows are anomalous, by the scores before them, and whether the stated rate is earned."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.detector.thresholds import FalseAlarmRate, Recent, Stamp, Threshold
from elmgrove.errors import BadInput, require_whole

#: The state of a detector that raises no alarms yet: counting has not shown its rate.
LEARNING = "learning"
#: The state of a detector whose stated rate was shown by counting; it raises alarms.
WATCHING = "watching"
#: The state of a detector that finds far more rows anomalous than stated, for long.
CHANGING = "changing"

# So many times the stated rate is not the stated rate.
_TIMES = 5.0
# This many anomalous rows more than the rate explains are no chance.
_LASTING = 12.0
# Where no more than this share of rows is anomalous, they come one by one.
_SCATTERED = 0.2
# What is saved of them.
_COUNTERS = (
    "state",
    "rows",
    "flagged",
    "bursts",
    "test_rows",
    "test_flagged",
    "test_bursts",
    "calm",
    "excess",
    "excess_rows",
    "excess_flagged",
    "restarts",
    "taught",
)
# While nothing is anomalous, the test looks every so many rows.
_TEST_EVERY = 8
# The normal distribution's 97.5 % quantile.
_BAND = 1.96


class Flagged(NamedTuple):
    """Rows judged since counting began, those above the threshold, and how these came.

    ``bursts`` counts anomalous rows that came together as one: neighbours are anomalous for one
    cause.
    """

    rows: int
    flagged: int
    bursts: int
    window: int

    @property
    def share(self) -> float:
        """The share of rows above the threshold."""
        return self.flagged / self.rows if self.rows else 0.0

    @property
    def length(self) -> float:
        """How many anomalous rows come together, with a burst of a third of a window taken as seen.

        At most a window: beyond that they share no row.
        """
        met = (self.flagged + (self.window + 2) / 3.0) / (self.bursts + 1.0)
        return min(met, self.window)

    @property
    def band(self) -> tuple[float, float]:
        """The range in which the true share lies with 95 % confidence (Wilson's interval).

        Anomalous rows come in bursts, so there are as many independent rows as bursts would fill.
        """
        n = self.rows / self.length
        if n == 0.0:
            return 0.0, 1.0
        centre = (self.share + _BAND**2 / (2.0 * n)) / (1.0 + _BAND**2 / n)
        spread = math.sqrt(self.share * (1.0 - self.share) / n + (_BAND / (2.0 * n)) ** 2)
        half = _BAND * spread / (1.0 + _BAND**2 / n)
        return max(centre - half, 0.0), min(centre + half, 1.0)


@dataclass
class RateTest:
    """Counts rows above the threshold, each judged before it is learned, and tells the state.

    Wald's sequential test decides between the stated rate and five times it. While ``learning``
    it begins again whenever the five times is shown: the machine is still changing. It becomes
    ``watching`` when the stated rate is, to the ``confidence`` asked for, or at once by rows that
    are known to be normal (``teach``). It never goes back because of anomalous rows: twelve
    more of them than the rate explains are an excess that lasts, and mean ``changing`` until the
    stated rate is shown once more. Rows that are anomalous one by one, few among many, are an
    ``excess`` of their own kind: the threshold is to follow them (``AlarmGate``). Anomalous rows
    that come together count as few: windows share rows, and causes last.
    """

    rate: float | None
    confidence: float
    window: int
    state: str = LEARNING
    #: What was counted since the state is what it is, and since the test last began.
    rows: int = 0
    flagged: int = 0
    bursts: int = 0
    test_rows: int = 0
    test_flagged: int = 0
    test_bursts: int = 0
    #: Rows since the last that was above the threshold.
    calm: int = 0
    #: Anomalous rows beyond what the rate explains, while watching.
    excess: float = 0.0
    #: The rows since there was no excess, and those above the threshold among them.
    excess_rows: int = 0
    excess_flagged: int = 0
    #: How often the test showed that the machine is still changing.
    restarts: int = 0
    #: Rows learned that were known to be normal.
    taught: int = 0

    def __post_init__(self) -> None:
        self._weigh()
        if self.state == LEARNING:
            self.state = self._first

    def _weigh(self) -> None:
        # Where nothing need be shown, it watches from the start.
        self._first = LEARNING if self.confidence > 0.0 else WATCHING
        rate = 0.01 if self.rate is None else self.rate
        more = min(_TIMES * rate, 0.5 * (1.0 + rate))
        #: What an anomalous row says for five times the rate, and any other against it.
        self._gain = math.log(more / rate)
        self._cost = math.log((1.0 - rate) / (1.0 - more))
        self._relief = -self._cost / self._gain
        self._bound = math.log(max(self.confidence, 0.5) / (1.0 - max(self.confidence, 0.5)))
        # Rows in which three anomalous ones are to be expected, and that could have shown the rate.
        needed = self._tested.length * self._bound / self._cost
        self._patience = math.ceil(max(3.0 / rate, needed))

    def teach(self, rows: int) -> None:
        """Counts rows that are known to be normal: the rate need not be earned on others."""
        self.taught += rows
        if self.state == LEARNING:
            self._begin(WATCHING)

    def count(self, anomalous: bool) -> None:
        """Counts one judged row."""
        if anomalous:
            self._count_anomalous()
        elif self.state != WATCHING or self.excess > 0.0:
            self._count_calm(1)
        else:
            # As most rows are.
            self.rows += 1
            self.test_rows += 1
            self.calm += 1

    def count_many(self, anomalous: NDArray[np.bool_]) -> None:
        """Counts judged rows, as ``count`` counts one."""
        done = 0
        for place in np.flatnonzero(anomalous).tolist():
            self._count_calm(place - done)
            self._count_anomalous()
            done = place + 1
        self._count_calm(len(anomalous) - done)

    @property
    def lasting(self) -> bool:
        """Whether more rows are anomalous than chance explains, while watching."""
        return self.state == WATCHING and self.excess >= _LASTING

    @property
    def undecided(self) -> bool:
        """Whether the test has gone on for long, while learning, and has shown nothing."""
        return self.state == LEARNING and self._patience <= self.test_rows

    @property
    def scattered(self) -> bool:
        """Whether the anomalous rows of an excess came one by one, among many others."""
        return self.excess_flagged <= _SCATTERED * self.excess_rows

    def change(self) -> None:
        """Takes an excess that lasts for a change."""
        self._begin(CHANGING)

    def settle(self) -> None:
        """Forgets an excess: the threshold has followed it."""
        self._begin(WATCHING)

    def _count_anomalous(self) -> None:
        self._advance(1)
        self.flagged += 1
        self.test_flagged += 1
        if self.calm >= self.window or self.test_flagged == 1:
            self.bursts += 1
            self.test_bursts += 1
        self.calm = 0
        if self.rate is None:
            # No rate was stated, so nothing is to be shown.
            return
        if self.state != WATCHING:
            self._test()
            return
        self.excess += 1.0 / self.seen.length
        self.excess_rows += 1
        self.excess_flagged += 1

    def _count_calm(self, rows: int) -> None:
        """Counts rows that are not anomalous, few by few only where one of them may decide."""
        while rows and self.rate is not None and self.state != WATCHING:
            step = min(_TEST_EVERY - self.test_rows % _TEST_EVERY, rows)
            rows -= step
            self._advance(step)
            self.calm += step
            if self.test_rows % _TEST_EVERY == 0:
                self._test()
        self._advance(rows)
        self.calm += rows
        if rows and self.excess > 0.0:
            relief = self._relief / self.seen.length
            # Nothing is less than no excess.
            while rows and self.excess > 0.0:
                self.excess = max(self.excess + relief, 0.0)
                self.excess_rows += 1
                rows -= 1
            if self.excess == 0.0:
                self.excess_rows = self.excess_flagged = 0

    def _advance(self, rows: int) -> None:
        self.rows += rows
        self.test_rows += rows

    @property
    def seen(self) -> Flagged:
        """The count since the state is what it is."""
        return Flagged(self.rows, self.flagged, self.bursts, self.window)

    @property
    def _tested(self) -> Flagged:
        return Flagged(self.test_rows, self.test_flagged, self.test_bursts, self.window)

    @property
    def missing(self) -> int:
        """Rows without an anomalous one that would show the stated rate; 0 once it is shown."""
        if self.state == WATCHING:
            return 0
        needed = math.ceil((self._bound * self._tested.length + self._evidence) / self._cost)
        if self.state == LEARNING:
            needed = min(needed, self._patience - self.test_rows)
        return max(needed, 1)

    def restate(self, rate: float | None, confidence: float) -> None:
        """Goes on with another rate or confidence.

        What it has shown is not taken back, so it goes on watching; unless nothing needed to be
        shown before, and now it does. With another rate counting begins again.
        """
        unshown = self.confidence == 0.0 < confidence
        counted = rate == self.rate
        self.rate, self.confidence = rate, confidence
        self._weigh()
        state = self.state
        if rate is None or state == LEARNING or (unshown and state == WATCHING):
            state = self._first
        if state != self.state or not counted:
            self._begin(state)
            self.rows = self.flagged = self.bursts = 0

    def doubt(self) -> None:
        """Takes back that the rate was shown: rows known to be normal have shown another."""
        self._begin(self._first)

    def accept(self) -> None:
        """Goes on watching after a change: what was anomalous is normal now."""
        self._begin(WATCHING)

    @property
    def _evidence(self) -> float:
        """The log likelihood ratio for five times the rate, as if rows were independent."""
        return self.test_flagged * self._gain - (self.test_rows - self.test_flagged) * self._cost

    def _test(self) -> None:
        ratio = self._evidence / self._tested.length
        if ratio <= -self._bound:
            self._begin(WATCHING)
        elif ratio >= self._bound:
            self.restarts += 1
            self._begin(self.state)

    def _begin(self, state: str) -> None:
        """Begins the test again, and with another state the count as well."""
        if state != self.state:
            self.rows = self.flagged = self.bursts = 0
        self.state = state
        self.test_rows = self.test_flagged = self.test_bursts = self.calm = 0
        self.excess = 0.0
        self.excess_rows = self.excess_flagged = 0

    # On disk

    @property
    def fields(self) -> dict[str, Any]:
        """Its counters, as JSON holds them; the rate goes with the threshold."""
        return {"progress": {name: getattr(self, name) for name in _COUNTERS}}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Goes on from ``fields``."""
        known = fields["progress"]
        if set(known) != set(_COUNTERS):
            raise BadInput(f"progress has {', '.join(_COUNTERS)}, not {', '.join(known)}")
        if known["state"] not in (LEARNING, WATCHING, CHANGING):
            raise BadInput(f"no state is called {known['state']!r}")
        for name, value in known.items():
            if name != "state" and not (isinstance(value, (int, float)) and value >= 0):
                raise BadInput(f"progress: {name} can't be {value!r}")
            setattr(self, name, value)


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
        self.recent = Recent(self.policy.capacity, basis.inputs, apart, basis.window)
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
        if not (self._warm or self._ready):
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
