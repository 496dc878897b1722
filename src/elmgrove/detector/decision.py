"""Which rows are anomalous, by the scores before them, and whether the stated rate is earned."""

import math
import sys
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, islice
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.detector.serialization import Count, restore
from elmgrove.detector.thresholds import FalseAlarmRate, Threshold
from elmgrove.errors import BadInput, require_whole

#: The state of a detector that raises no alarms yet: counting has not shown its rate.
LEARNING = "learning"
#: The state of a detector whose stated rate was shown by counting; it raises alarms.
WATCHING = "watching"
#: The state of a detector that finds far more rows anomalous than stated, for long.
CHANGING = "changing"
#: Rows to keep at most, for scoring them again when the model changes.
ROWS = 512
#: The period of an input that was learned, and how many were when it had been.
Stamp = tuple[float, float, float]
UNKNOWN: Stamp = (math.nan, math.nan, 0.0)


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
        # The normal distribution's 97.5 % quantile.
        n, z = self.rows / self.length, 1.96
        if n == 0.0:
            return 0.0, 1.0
        centre = (self.share + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
        spread = math.sqrt(self.share * (1.0 - self.share) / n + (z / (2.0 * n)) ** 2)
        half = z * spread / (1.0 + z**2 / n)
        return max(centre - half, 0.0), min(centre + half, 1.0)


class RateTest:
    """Counts rows above the threshold, each judged before it is learned, and tells the state.

    Wald's sequential test decides between the stated rate and five times it. While ``learning``
    it begins again whenever the five times is shown; it becomes ``watching`` when the stated rate
    is, to the ``confidence`` asked for, or at once by rows known to be normal (``teach``). Twelve
    anomalous rows more than the rate explains are an excess that lasts: ``changing``, until the
    stated rate is shown once more, or a threshold that follows, if they came one by one
    (``AlarmGate``). Anomalous rows that come together count as few: windows share rows, and causes
    last.
    """

    state: Annotated[str, msgspec.Meta(pattern="^(learning|watching|changing)$")]
    #: What was counted since the state is what it is, and since the test last began.
    rows: Count
    flagged: Count
    bursts: Count
    test_rows: Count
    test_flagged: Count
    test_bursts: Count
    #: Rows since the last that was above the threshold.
    calm: Count
    #: Anomalous rows beyond what the rate explains, while watching.
    excess: Annotated[float, msgspec.Meta(ge=0.0)]
    #: The rows since there was no excess, and those above the threshold among them.
    excess_rows: Count
    excess_flagged: Count
    #: How often the test showed that the machine is still changing.
    restarts: Count
    #: Rows learned that were known to be normal.
    taught: Count

    def __init__(self, rate: float | None, confidence: float, window: int) -> None:
        self.rate, self.confidence, self.window = rate, confidence, window
        self.rows = self.flagged = self.bursts = self.restarts = self.taught = 0
        self.state = LEARNING
        self.begin(LEARNING)
        self._weigh()
        self.state = self._first

    def _weigh(self) -> None:
        # Where nothing need be shown, it watches from the start.
        self._first = LEARNING if self.confidence > 0.0 else WATCHING
        rate = 0.01 if self.rate is None else self.rate
        # Five times the stated rate is not the stated rate.
        more = min(5.0 * rate, 0.5 * (1.0 + rate))
        # What an anomalous row says for five times the rate, and any other against it.
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
            self.begin(WATCHING)

    def count(self, anomalous: bool) -> None:
        self.rows += 1
        self.test_rows += 1
        if anomalous:
            self._count_anomalous()
            return
        self.calm += 1
        if self.state != WATCHING:
            # Only every eighth row may decide that the rate holds.
            if self.rate is not None and self.test_rows % 8 == 0:
                self._test()
        elif self.excess > 0.0:
            # Nothing is less than no excess.
            self.excess = max(self.excess + self._relief / self.seen.length, 0.0)
            self.excess_rows += 1
            if self.excess == 0.0:
                self.excess_rows = self.excess_flagged = 0

    @property
    def lasting(self) -> bool:
        """Whether more rows are anomalous than chance explains, while watching."""
        return self.state == WATCHING and self.excess >= 12.0

    @property
    def undecided(self) -> bool:
        """Whether the test has gone on for long, while learning, and has shown nothing."""
        return self.state == LEARNING and self._patience <= self.test_rows

    @property
    def scattered(self) -> bool:
        """Whether the anomalous rows of an excess came one by one, among many others."""
        return self.excess_flagged <= 0.2 * self.excess_rows

    def _count_anomalous(self) -> None:
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

    @property
    def seen(self) -> Flagged:
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
            self.begin(state)
            self.rows = self.flagged = self.bursts = 0

    def doubt(self) -> None:
        """Takes back that the rate was shown: rows known to be normal have shown another."""
        self.begin(self._first)

    @property
    def _evidence(self) -> float:
        """The log likelihood ratio for five times the rate, as if rows were independent."""
        return self.test_flagged * self._gain - (self.test_rows - self.test_flagged) * self._cost

    def _test(self) -> None:
        ratio = self._evidence / self._tested.length
        if ratio <= -self._bound:
            self.begin(WATCHING)
        elif ratio >= self._bound:
            self.restarts += 1
            self.begin(self.state)

    def begin(self, state: str) -> None:
        """Begins the test again, and with another state the count as well."""
        if state != self.state:
            self.rows = self.flagged = self.bursts = 0
        self.state = state
        self.test_rows = self.test_flagged = self.test_bursts = self.calm = 0
        self.excess = 0.0
        self.excess_rows = self.excess_flagged = 0


class Recent:
    """Scores of accepted rows, each by the model as it was before it learned the row.

    They are spread evenly over the younger half of all that was learned, never more than
    ``capacity``: older ones come from a model that knew less than half as much. The last rows
    themselves are kept as well, without a gap.

    A quantile of *accepted* scores alone eats itself: each row above it is left out, the quantile
    of the rest is lower, and so on. So scores of rows that were refused by a little
    (``near_misses``) are kept for as long, and a threshold may count them. Of rows that were
    refused soon (``apart`` rows) after another, those of the first third of a ``window`` count,
    which is how long normal ones stay; with all of them a fault would walk the threshold up. And
    nothing grows old while rows are refused: a fault must not outlive what is normal.
    """

    #: The rows that came, accepted or not; those accepted; and those that nearly missed.
    clock: Count
    accepted: Count
    nearly_missed: Count
    #: Of so many rows one score is kept, and of so many near misses.
    stride: Annotated[int, msgspec.Meta(ge=1)]
    # When the last row was refused, in rows that came, and the first of those before it.
    _refused_at: int
    _burst_at: int
    _scores: deque[tuple[int, float]]
    _near_misses: deque[tuple[int, float]]
    # How high scores were before others changed the model, and how many times as high they
    # are since; None and 1 once a row came after that.
    _level: float | None
    _factor: float
    # The last rows that were accepted, and their stamps.
    _rows: deque[Array]
    _stamps: deque[Stamp]

    def __init__(self, capacity: int, width: int, apart: int = 1, window: int = 1) -> None:
        self.capacity = capacity
        self._apart, self._width = apart, width
        #: The rows that are usually anomalous together: those of the first third of a window.
        self.together = max(window // 3, 1)
        self._scores, self._near_misses = deque(), deque()
        self._rows, self._stamps = deque(maxlen=ROWS), deque(maxlen=ROWS)
        self.begin()

    def __len__(self) -> int:
        return len(self.ordered)

    def accept(self, row: Array, score: float, stamp: Stamp = UNKNOWN) -> None:
        if self._level is not None:
            self._settle()
        self._rows.append(row)
        self._stamps.append(stamp)
        self._note(score)

    def accept_many(
        self, rows: Array, scores: Array, stamps: Sequence[Stamp] | None = None
    ) -> None:
        """Takes in many rows, as ``accept`` takes in one."""
        self._settle()
        # A copy, so that the last rows do not keep all others.
        last = rows[-ROWS:].copy()
        self._rows.extend(last)
        self._stamps.extend([UNKNOWN] * len(last) if stamps is None else stamps)
        done = 0
        while done < len(scores):
            # Those before the next one of which the score is kept only count.
            passed = min(-(self.accepted + 1) % self.stride, len(scores) - done)
            self.clock += passed
            self.accepted += passed
            done += passed
            if done < len(scores):
                self._note(float(scores[done]))
                done += 1

    def mostly_above(self, limit: float, rate: float) -> bool:
        """Says whether most of the latest scores are above a limit that this share may exceed."""
        latest = list(islice(reversed(self._scores), 32))
        above = sum(not self._factor * score <= limit for _, score in latest)
        return len(latest) == 32 and 2.0 * above > (1.0 + rate) * 32

    def begin(self) -> None:
        """Forgets all scores, as if none had come; the last rows stay."""
        self._scores.clear()
        self._near_misses.clear()
        #: The scores in ascending order.
        self.ordered: list[float] = []
        self.stride = 1
        self.clock = self.accepted = self.nearly_missed = 0
        self._refused_at = self._burst_at = -self._apart
        self._level, self._factor = None, 1.0

    def refuse(self, score: float, threshold: float) -> None:
        """Remembers a row that was refused by a little."""
        self._settle()
        self.clock += 1
        if self.clock - self._refused_at >= self._apart:
            self._burst_at = self.clock
        self._refused_at = self.clock
        first = self.clock - self._burst_at < self.together
        if first and score <= self._reach(threshold):
            self.nearly_missed += 1
            if self.nearly_missed % self.stride == 0:
                self._near_misses.append((self.accepted, score))
            if len(self._near_misses) > self.capacity:
                self._near_misses.popleft()

    def missing(self, scores: int) -> int:
        """Counts the rows to accept until the younger half of all has so many scores.

        There are fewer than its rows suggest where some were taken out.
        """
        short = (scores - len(self.ordered)) * self.stride
        return max(2 * self.stride * scores - 1 - self.accepted, short, 0)

    @property
    def usable(self) -> int:
        """The most scores that a threshold may count: ``missing`` would be 0 for so many."""
        return min(len(self.ordered), (self.accepted + 1) // (2 * self.stride))

    def suit(self, scores: int, capacity: int, apart: int) -> bool:
        """Keeps what a threshold needs that counts so many scores at least; says if it has them.

        Where those kept are so far between that new ones are there sooner, they are forgotten.
        """
        self.capacity, self._apart = capacity, apart
        self._refused_at = max(self._refused_at, -apart)
        self._burst_at = max(self._burst_at, -apart)
        if self.missing(scores) > max(2 * scores - 1, 0):
            self.begin()
        return not self.missing(scores)

    def settle_near_misses(self) -> None:
        """Takes those refused by a little for accepted ones, as far as they count.

        Another threshold may lie above them: to that one they are rows like any others.
        """
        self._settle()
        # Where a kept score would be, so that it stays as long as those do.
        taken = [(when // self.stride * self.stride, score) for when, score in self._near_misses]
        self._scores = deque(sorted([*self._scores, *taken], key=lambda entry: entry[0]))
        self._near_misses.clear()
        self.ordered = sorted(score for _, score in self._scores)

    @property
    def median(self) -> float:
        return self.ordered[len(self.ordered) // 2] if self.ordered else 0.0

    @property
    def scores(self) -> list[float]:
        return [self._factor * score for _, score in self._scores]

    @property
    def rows(self) -> Array:
        return np.array(self._rows).reshape(len(self._rows), self._width)

    @property
    def rows_kept(self) -> int:
        return len(self._rows)

    @property
    def stamps(self) -> Array:
        """The stamps of the last accepted rows, in three columns."""
        return np.array(self._stamps).reshape(-1, 3)

    @property
    def near_misses(self) -> list[float]:
        return [self._factor * score for _, score in self._near_misses]

    def follow(self, before: float, after: float) -> None:
        """Lets all scores follow a model that others have changed, from one level to another.

        As long as no row comes, changes count from the first of them on. So it makes no difference,
        not to the last bit, by how many steps and in which order others came or left.
        """
        self._level = self._level or before
        self._factor = after / self._level
        if self._factor == 1.0:
            self._level = None
        self.ordered = sorted(self._factor * score for _, score in self._scores)

    def take_out(
        self, gone: Callable[[Array], Array], learned: int, since: int, factor: float
    ) -> None:
        """Forgets the rows with numbers that are ``gone``, of as many as were ``learned``.

        Later scores came from a model that knew those rows, and become others by a factor.
        """
        self._settle()
        stays = ~gone(self.stamps[:, 2])
        self._rows = deque(compress(self._rows, stays), ROWS)
        self._stamps = deque(compress(self._stamps, stays), ROWS)
        # What was accepted was learned, so the one number follows from the other.
        before = learned - self.accepted
        self._scores, self._near_misses = (
            deque(
                (when, factor * score if when + before > since else score)
                for when, score in compress(kept, ~gone(_numbers(kept) + before))
            )
            for kept in (self._scores, self._near_misses)
        )
        self.ordered = sorted(score for _, score in self._scores)
        if not self.ordered:
            self.begin()

    def go_back(
        self, state: Mapping[str, Any], learned: tuple[int, int, int], factor: float
    ) -> None:
        """Becomes what it was, and takes in again what was accepted since.

        ``learned`` are the rows learned when it was so, up to where what came since counts, and
        now. The scores since then become others by a factor.
        """
        self._settle()
        then, since, now = learned
        before, first = now - self.accepted, max(len(self._rows) - (now - since), 0)
        rows, stamps = list(self._rows)[first:], list(self._stamps)[first:]
        scores, near_misses = (
            [(when + before, factor * score) for when, score in some if when + before > since]
            for some in (self._scores, self._near_misses)
        )
        stride = self.stride
        restore(self, state)
        self._settle()
        before = then - self.accepted
        self._rows.extend(rows)
        self._stamps.extend(stamps)
        self._scores.extend((number - before, score) for number, score in scores)
        self._near_misses.extend((number - before, score) for number, score in near_misses)
        self.accepted, self.clock = now - before, self.clock + now - then
        self.stride = max(stride, self.stride)
        self.ordered = sorted(score for _, score in self._scores)
        if len(self.ordered) > self.capacity:
            self._expire()

    def score_again(self, scores: Array, learned: int) -> None:
        """Lets these be the scores of the last rows, and all there are."""
        self.begin()
        numbers = self.stamps[:, 2].astype(np.int64)
        before = int(numbers[0]) - 1 if numbers.all() else learned - len(numbers)
        self.accepted = self.clock = learned - before
        self._scores = deque(zip((numbers - before).tolist(), scores.tolist(), strict=True))
        self.ordered = sorted(scores.tolist())

    def _settle(self) -> None:
        """Makes the scores what they have become: rows that come now are scored like that."""
        if self._level is not None:
            self._scores = deque((when, self._factor * score) for when, score in self._scores)
            self._near_misses = deque(
                (when, self._factor * score) for when, score in self._near_misses
            )
            self._level, self._factor = None, 1.0

    def _note(self, score: float) -> None:
        self.clock += 1
        self.accepted += 1
        if self.accepted % self.stride == 0:
            self._scores.append((self.accepted, score))
            insort(self.ordered, score)
            if self.accepted % 32 == 0 or len(self.ordered) > self.capacity:
                self._expire()

    def _expire(self) -> None:
        """Drops what is too old, and every second score when there are too many."""
        oldest = self.accepted // 2
        while self._scores and self._scores[0][0] <= oldest:
            del self.ordered[bisect_left(self.ordered, self._scores.popleft()[1])]
        while self._near_misses and self._near_misses[0][0] <= oldest:
            self._near_misses.popleft()
        if len(self._scores) > self.capacity:
            self.stride *= 2
            kept = [entry for entry in self._scores if entry[0] % self.stride == 0]
            self._scores = deque(kept)
            # Near misses count beside scores: as many of them as of those.
            self._near_misses = deque(list(self._near_misses)[1::2])
            self.ordered = sorted(score for _, score in kept)

    def _reach(self, limit: float) -> float:
        """How far above a limit a row is still refused by a little: as the median lies below."""
        return 2.0 * limit - self.median if self.ordered else limit

    def complete(self) -> None:
        self.ordered = sorted(self._factor * score for _, score in self._scores)
        finite = np.isfinite([score for _, score in [*self._scores, *self._near_misses]]).all()
        if len(self._stamps) != len(self._rows) or self.rows.shape[1:] != (self._width,):
            raise BadInput("the last rows do not fit the model, or have no stamps")
        if not (
            finite and 0.0 < self._factor < math.inf and (self._level is None or self._level > 0.0)
        ):
            raise BadInput("scores that no row can have")


def _numbers(kept: Iterable[tuple[int, float]]) -> Array:
    return np.array([when for when, _ in kept], np.int64)


def stamps_of(periods: Array, learned: int) -> list[Stamp]:
    """Gives the stamps of the inputs that were learned last, as many as are kept."""
    last = periods[-ROWS:]
    numbers = range(learned - len(last) + 1, learned + 1)
    return list(zip(*last.T.tolist(), map(float, numbers), strict=True))


# The margin of a threshold that comes from rows known to be normal is at most so many times it.
_MARGIN = 1.35
# Rows that are anomalous one by one lift the threshold at most to so many times of what it was.
_FOLLOW = 4.0


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
    stated rate (``RateTest``), or where some fifty rows known to be normal were learned.

    Where anomalous rows come one by one, more of them than stated, or counting can't decide, the
    threshold was too low: it is raised to where the stated share of the rows since then lies above
    it, but for those far above, and stays until all scores that it is computed from are younger.
    For as long, a threshold from rows known to be normal has a margin. It falls only where counting
    over as many rows shows that it is too high, each time to half of it at most: what is rare
    comes again.
    """

    recent: Recent
    #: What counting has shown up to now.
    progress: RateTest
    _limit: float | None
    # The threshold is computed again at this number of rows.
    _limit_until: Count
    # Since there is an excess: the scores above it, each with the number of its row; and the
    # others, also those of them that are above the median.
    _above: list[tuple[float, Count]]
    _below: Count
    _upper: Count
    # What anomalous rows raised the threshold to, and up to how many rows accepted that holds;
    # and up to how many what was taught has a margin.
    _raised: Annotated[float, msgspec.Meta(ge=0.0)]
    _raised_until: Count
    _cautious_until: Count
    # The threshold by few rows, which were taught: others are not known to be normal.
    _by_few: float | None
    # Rows judged since the threshold last fell, and those of them a little above it.
    _judged: Count
    _near: Count

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
        self.progress = RateTest(self.policy.rate, self.policy.confidence, basis.window)
        self._limit, self._limit_until, self._warm = None, 0, False
        self._above, self._below, self._upper = [], 0, 0
        self._raised, self._raised_until, self._cautious_until = 0.0, 0, 0
        self._by_few = None
        self._judged = self._near = 0

    # Deciding

    def limit(self) -> float:
        """Computes the threshold by the scores up to now, whether it is relied on or not yet."""
        recent = self.recent
        if self._limit is None or recent.clock >= self._limit_until:
            enough = not recent.missing(self.policy.minimum)
            least = self._least_limit()
            self._limit = self.policy.limit(recent) if enough else math.inf
            if not enough and not self.rows_to_learn:
                # By the last rows, each scored by a model without it.
                if self._by_few is None:
                    scores = self._left_out(recent.rows).tolist()
                    self._by_few = self._cautious_limit(scores)
                self._limit = self._by_few
            elif enough and recent.accepted < self._cautious_until:
                cautious = self._cautious_limit(recent.scores)
                self._limit = max(self._limit, min(cautious, _MARGIN * self._limit))
            self._limit = max(self._limit, self.raised or 0.0, least)
            # It may be older than the scores it is computed from by a small part of them.
            self._limit_until = recent.clock + 1 + len(recent) // 128
        return self._limit

    def _least_limit(self) -> float:
        """How far a threshold may fall that comes from rows known to be normal."""
        progress, rate = self.progress, self.policy.rate
        if not (self._limit and progress.taught and self._judged and rate):
            return 0.0
        kept = self._limit if self._limit < math.inf else 0.0
        # Even with one more burst there must be no more than stated.
        many = self._near + progress.seen.length > rate * self._judged
        if self._judged < progress.taught or many:
            return kept
        self._judged = self._near = 0
        return self._limit / 2.0

    def _cautious_limit(self, scores: list[float]) -> float:
        policy, recent = self.policy, self.recent
        if isinstance(policy, FalseAlarmRate):
            return policy.cautious_limit(scores, recent.together)
        return policy.limit(recent)

    @property
    def rows_to_learn(self) -> int:
        """Rows known to be normal that must still be learned for a threshold by them alone."""
        taught, short = self.progress.taught, 0.0
        if self.policy.rate is not None and not self.policy.confidence:
            # Nothing need be shown: rows of the stream are taken for normal as well.
            taught, short = self.recent.rows_kept, self.warmup - self._rows_known()
        known = min(taught, self.recent.rows_kept)
        return max(max(self.policy.fewest, 2) - known, math.ceil(short), 0)

    @property
    def state(self) -> str:
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
        elif self._above and progress.excess:
            self._below += 1
            self._upper += score > self.recent.median
        elif self._above:
            self._forget_excess()
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
        self._above.append((score if score < sys.float_info.max else sys.float_info.max, row))

    def _forget_excess(self) -> None:
        self._above, self._below, self._upper = [], 0, 0

    @property
    def _together(self) -> bool:
        """Whether the last anomalous rows came together, whatever came before them by chance."""
        latest = self._above[-math.ceil(5.0 * self.progress.seen.length) :]
        return 2 * len(latest) >= latest[-1][1] - latest[0][1] + 1

    def _follow_or_change(self, limit: float) -> float | None:
        """Raises the threshold where rows are anomalous one by one; else, they have changed."""
        progress = self.progress
        # Rows that are not anomalous score higher than before, all of them, as well.
        chance = 1.5 * math.sqrt(self._below * self.recent.together)
        shifted = self._upper > self._below / 2.0 + chance
        if not progress.scattered or shifted or self._together:
            self._forget_excess()
            progress.begin(CHANGING)
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
        self.progress.begin(WATCHING)
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
            self._warm = enough or not self.rows_to_learn
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
            self.progress.begin(WATCHING)
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
        """Lets go of what the threshold was raised to."""
        self._raised_until = 0
        self.expire()

    def expire(self) -> None:
        """Lets the threshold be computed again: the scores are others now."""
        self._limit, self._limit_until, self._by_few, self._warm = None, 0, None, False


def _apart(policy: Threshold, window: int) -> int:
    """How many rows after a refused one another says something of its own about normal rows.

    Of rows that are anomalous by chance alone, a tenth at most comes sooner.
    """
    rate = policy.rate or 1.0
    return max(window, min(10, int(0.1 / rate)), 1)
