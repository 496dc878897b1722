"""Where anomalous begins: by a rate of false alarms, or a fixed value."""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress, islice
from typing import Any, ClassVar, get_args

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, require_whole

#: Rows to keep at most, for scoring them again when the model changes.
ROWS = 512
#: The period of an input that was learned, and how many were when it had been.
Stamp = tuple[float, float, int]
UNKNOWN: Stamp = (math.nan, math.nan, 0)


def stamps_of(periods: Array, learned: int) -> list[Stamp]:
    """Gives the stamps of the inputs that were learned last, as many as are kept."""
    last = periods[-ROWS:]
    numbers = range(learned - len(last) + 1, learned + 1)
    return list(zip(*last.T.tolist(), numbers, strict=True))


class LastRows:
    """The last inputs that were learned, one after the other, and their stamps."""

    def __init__(self, width: int) -> None:
        self._rows: Array = np.empty((ROWS, width))
        self._added = 0
        self._stamps: deque[Stamp] = deque(maxlen=ROWS)

    def add(self, row: Array, stamp: Stamp) -> None:
        """Takes in one row."""
        self._rows[self._added % ROWS] = row
        self._added += 1
        self._stamps.append(stamp)

    def add_many(self, rows: Array, stamps: Sequence[Stamp] | None = None) -> None:
        """Takes in many rows; of the stamps, those of the last ones will do."""
        last = rows[-ROWS:]
        places = (self._added + len(rows) - len(last) + np.arange(len(last))) % ROWS
        self._rows[places] = last
        self._added += len(rows)
        self._stamps.extend([UNKNOWN] * len(last) if stamps is None else stamps)

    @property
    def rows(self) -> Array:
        """The rows, oldest first."""
        if self._added < ROWS:
            return self._rows[: self._added]
        return np.roll(self._rows, -(self._added % ROWS), axis=0)

    @property
    def stamps(self) -> Array:
        """The stamps of the rows, in three columns."""
        return np.array(self._stamps).reshape(-1, 3)

    def keep(self, wanted: Array) -> None:
        """Keeps the rows that are marked as wanted, and no others."""
        rows, stamps = self.rows[wanted], list(compress(self._stamps, wanted))
        self._added = 0
        self._stamps.clear()
        self.add_many(rows, stamps)

    # On disk

    @property
    def arrays(self) -> dict[str, Array]:
        """All of it, to be saved; stamps only where times are known."""
        stamps = {} if np.isnan(self.stamps[:, 1]).all() else {"recent_stamps": self.stamps}
        return {"recent": self.rows, **stamps}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from ``arrays``."""
        rows, stamps = arrays["recent"], arrays.get("recent_stamps")
        if len(rows) > ROWS:
            raise BadInput(f"{len(rows)} recent rows, where {ROWS} are the most")
        if stamps is not None and stamps.shape != (len(rows), 3):
            raise BadInput("not one stamp for each recent row")
        told = (
            None if stamps is None else [(*stamp[:2], int(stamp[2])) for stamp in stamps.tolist()]
        )
        self._added = 0
        self._stamps.clear()
        self.add_many(rows, told)


# The latest scores, of which most being anomalous is no chance.
_LATEST = 32
# Rows between two looks at what is too old.
_EXPIRE_EVERY = 32


class Recent:
    """Scores of accepted rows, each by the model as it was before it learned the row.

    They are spread evenly over the younger half of all that was learned, never more than
    ``capacity``: older ones come from a model that knew less than half as much, and a stretch of
    the last rows alone would not show what a day is like. The last rows themselves are kept as
    well, without a gap.

    A threshold that is a quantile of *accepted* scores alone eats itself: each row above it is
    left out, the quantile of the rest is lower, and so on. So rows that were refused by a little
    (``near_misses``) are remembered by their score for as long, and a threshold may count them.
    Rows refused by a lot are not: they say nothing about what normal rows do. Of rows that were
    refused soon (``apart`` rows) after another, those of the first third of a ``window`` count,
    which is how long normal ones stay; with all of them a fault would walk the threshold up.
    And nothing grows old while rows are refused: a fault must not outlive what is normal.
    """

    def __init__(self, capacity: int, width: int, apart: int = 1, window: int = 1) -> None:
        self.capacity = capacity
        #: The rows that are usually anomalous together: those of the first third of a window.
        self._apart, self.together = apart, max(window // 3, 1)
        #: When the last row was refused, in rows that came, and the first of those before it.
        self.refused_at = self.burst_at = -apart
        self._scores: deque[tuple[int, float]] = deque()
        self._near_misses: deque[tuple[int, float]] = deque()
        #: Of so many rows one score is kept, and of so many near misses.
        self.stride = 1
        #: The rows that came, accepted or not; those accepted; and those that nearly missed.
        self.clock = self.accepted = self.nearly_missed = 0
        self._last = LastRows(width)
        #: The scores in ascending order.
        self.ordered: list[float] = []
        # How high scores were before others changed the model, and how many times as high they
        # are since; None and 1 once a row came after that.
        self._level: float | None = None
        self._factor = 1.0

    def __len__(self) -> int:
        return len(self.ordered)

    def accept(self, row: Array, score: float, stamp: Stamp = UNKNOWN) -> None:
        """Takes in a row that was learned."""
        if self._level is not None:
            self._settle()
        self._last.add(row, stamp)
        self._note(score)

    def accept_many(
        self, rows: Array, scores: Array, stamps: Sequence[Stamp] | None = None
    ) -> None:
        """Takes in many rows, as ``accept`` takes in one."""
        self._settle()
        self._last.add_many(rows, stamps)
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
        latest = list(islice(reversed(self._scores), _LATEST))
        above = sum(not self._factor * score <= limit for _, score in latest)
        return len(latest) == _LATEST and 2.0 * above > (1.0 + rate) * _LATEST

    def begin(self) -> None:
        """Forgets all scores, as if none had come; the last rows stay."""
        self._scores.clear()
        self._near_misses.clear()
        self.ordered, self.stride = [], 1
        self.clock = self.accepted = self.nearly_missed = 0
        self.refused_at = self.burst_at = -self._apart
        self._level, self._factor = None, 1.0

    def refuse(self, score: float, threshold: float) -> None:
        """Remembers a row that was refused by a little."""
        self._settle()
        self.clock += 1
        if self.clock - self.refused_at >= self._apart:
            self.burst_at = self.clock
        self.refused_at = self.clock
        first = self.clock - self.burst_at < self.together
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
        self.refused_at, self.burst_at = max(self.refused_at, -apart), max(self.burst_at, -apart)
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
        """The median of the scores; 0 where there are none."""
        return self.ordered[len(self.ordered) // 2] if self.ordered else 0.0

    @property
    def scores(self) -> list[float]:
        """The scores of accepted rows, oldest first."""
        return [self._factor * score for _, score in self._scores]

    @property
    def rows(self) -> Array:
        """The last accepted rows, oldest first."""
        return self._last.rows

    @property
    def stamps(self) -> Array:
        """The stamps of the last accepted rows, in three columns."""
        return self._last.stamps

    @property
    def near_misses(self) -> list[float]:
        """The scores of rows that were refused by a little, as far as they count."""
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
        self._last.keep(~gone(self.stamps[:, 2]))
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
        self,
        fields: Mapping[str, Any],
        arrays: Mapping[str, Array],
        learned: tuple[int, int, int],
        factor: float,
    ) -> None:
        """Becomes what it was, and takes in again what was accepted since.

        ``learned`` are the rows learned when it was so, up to where what came since counts, and
        now. The scores since then become others by a factor.
        """
        self._settle()
        then, since, now = learned
        kept, before = min(now - since, len(self.rows)), now - self.accepted
        rows, stamps = self.rows[len(self.rows) - kept :], list(self._last.stamps)[-kept:]
        scores, near_misses = (
            [(when + before, factor * score) for when, score in some if when + before > since]
            for some in (self._scores, self._near_misses)
        )
        stride = self.stride
        self.restore(fields, arrays)
        self._settle()
        before = then - self.accepted
        if kept:
            self._last.add_many(rows, [(*stamp[:2], int(stamp[2])) for stamp in stamps])
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
            if self.accepted % _EXPIRE_EVERY == 0 or len(self.ordered) > self.capacity:
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

    # On disk

    @property
    def fields(self) -> dict[str, Any]:
        """Its counters, as JSON holds them."""
        names = ("clock", "accepted", "stride", "refused_at", "burst_at")
        known = {name: getattr(self, name) for name in names}
        followed = {"level": self._level, "factor": self._factor}
        return {"recent": {**known, "strayed": self.nearly_missed, **followed}}

    @property
    def arrays(self) -> dict[str, Array]:
        """All scores and rows as arrays, to be saved."""
        return {
            **self._last.arrays,
            "scores": np.array([score for _, score in self._scores]),
            "score_times": _numbers(self._scores),
            "strays": np.array([score for _, score in self._near_misses]),
            "stray_times": _numbers(self._near_misses),
        }

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from ``fields`` and ``arrays``."""
        known = fields["recent"]
        self.clock = require_whole("clock", known["clock"], 0)
        self.accepted = require_whole("accepted", known["accepted"], 0)
        self.nearly_missed = require_whole("strayed", known["strayed"], 0)
        self.stride = require_whole("stride", known["stride"], 1)
        self.refused_at = require_whole("refused_at", known["refused_at"], -self._apart)
        self.burst_at = require_whole("burst_at", known["burst_at"], -self._apart)
        self._last.restore(arrays)
        self._scores = _paired(arrays["score_times"], arrays["scores"])
        self._near_misses = _paired(arrays["stray_times"], arrays["strays"])
        self._level, self._factor = known["level"], float(known["factor"])
        if not 0.0 < self._factor < math.inf or not (self._level is None or self._level > 0.0):
            raise BadInput(f"scores can't have become {self._factor!r} times as high")
        self.ordered = sorted(self._factor * score for _, score in self._scores)


def _numbers(kept: Iterable[tuple[int, float]]) -> Array:
    return np.array([when for when, _ in kept], np.int64)


def _paired(times: Array, scores: Array) -> deque[tuple[int, float]]:
    if times.shape != scores.shape or times.ndim != 1 or not np.isfinite(scores).all():
        raise BadInput("not one finite score for each time")
    return deque(zip(times.tolist(), scores.tolist(), strict=True))


#: A threshold that rises by less stays as it is, in words.
RISES = 1.1
#: The lowest rate of false alarms: one in a year of rows at 30 a second. Nobody waits for less.
LEAST_RATE = 1e-9
# Scores without which nothing is said about their tail, where all rows are known to be normal; and
# the most that it is estimated from.
_FEWEST, _TAIL = 50, 100


@dataclass(frozen=True)
class FalseAlarmRate:
    """The share of normal rows that may be flagged, chosen by the user.

    The threshold is the score that this share of normal rows exceeds, each scored before it was
    learned. It needs at least 1 / rate - 1 of them. Then there are no alarms before counting has
    shown the rate on later rows, to the ``confidence`` stated; at a confidence of 0 nothing need be
    shown.

    Rows refused by a little count as normal ones as long as chance explains their number (up to
    three standard deviations above what the rate predicts). When there are more, something is
    wrong with the rows and not with the threshold: then they do not count. Anomalies that come
    often and lie only a few times above the threshold can still walk it up, a little with each.

    >>> FalseAlarmRate(0.01).minimum
    99
    """

    rate: float = 0.01
    confidence: float = 0.95
    kind: ClassVar[str] = "rate"

    def __post_init__(self) -> None:
        if not LEAST_RATE <= self.rate < 1.0:
            raise BadInput(
                f"the false-alarm rate must lie between 0 and 1, and not below {LEAST_RATE:g}: "
                f"not {self.rate!r}"
            )
        if not 0.0 <= self.confidence < 1.0:
            raise BadInput(f"the confidence must lie between 0 and 1, not {self.confidence!r}")

    @property
    def minimum(self) -> int:
        """Rows without which there is no threshold."""
        return math.ceil(1.0 / self.rate - 1e-9) - 1

    @property
    def fewest(self) -> int:
        """Rows known to be normal without which there is no threshold."""
        return min(self.minimum, _FEWEST)

    @property
    def capacity(self) -> int:
        """Scores to keep: enough for the quantile to be steady."""
        return max(4096, 8 * self.minimum)

    def cautious_limit(self, scores: Sequence[float], together: float = 1.0) -> float:
        """Computes the threshold from all the scores there are, in their order: with a margin.

        No third of them may have more above it than stated: what one third shows and the others do
        not may come again. Where they are too few for that, of e = rate·(N + 1) expected above it
        as many fewer are let through as there may be more by chance among later ones, √(e·together)
        where so many come together, but half of e at least.
        """
        size = len(scores) // 3
        if size >= self.minimum:
            thirds = (scores[:size], scores[size:-size], scores[-size:])
            return max(self._limit(some, self.rate * (len(some) + 1)) for some in thirds)
        expected = self.rate * (len(scores) + 1)
        return self._limit(scores, max(expected - math.sqrt(expected * together), expected / 2.0))

    def _limit(self, scores: Sequence[float], above: float) -> float:
        """The score that so many are above; where that is less than one, the tail's estimate.

        By Hill's estimate from the upper quarter, of k scores: x_k·(k / above)^g, where g is the
        mean of log(x_i / x_k) over i < k.
        """
        ordered = sorted(scores)
        if above >= 1.0 - 1e-9:
            return ordered[-math.floor(above + 1e-9)]
        k = min(max(len(ordered) // 4, 1), _TAIL)
        top = np.maximum(ordered[-k - 1 :], np.finfo(np.float64).tiny)
        gamma = float(np.log(top[1:] / top[0]).mean()) * (1.0 + 1.0 / math.sqrt(k))
        return max(float(top[0] * (k / above) ** gamma), ordered[-1])

    def explains(self, recent: Recent) -> bool:
        """Says whether chance explains the number of rows that were refused by a little."""
        expected = self._expected(recent)
        return len(recent.near_misses) <= expected + 3.0 * math.sqrt(expected)

    def limit(self, recent: Recent) -> float:
        """Computes the threshold from the recent scores."""
        accepted, near_misses, expected = recent.ordered, recent.near_misses, self._expected(recent)
        if not self.explains(recent):
            return accepted[-1]
        above = math.floor(expected + 1e-9)
        return sorted(accepted[-above:] + near_misses)[-above]

    def _expected(self, recent: Recent) -> float:
        """How many of the recent rows may lie above the threshold."""
        return self.rate * (len(recent.ordered) + len(recent.near_misses) + 1)


@dataclass(frozen=True)
class FixedThreshold:
    """A value that the user knows, in the unit of the scores."""

    value: float
    rate: ClassVar[None] = None
    confidence: ClassVar[float] = 0.0
    kind: ClassVar[str] = "fixed"
    minimum: ClassVar[int] = 0
    fewest: ClassVar[int] = 0
    capacity: ClassVar[int] = 4096

    def __post_init__(self) -> None:
        if not 0.0 <= self.value < math.inf:
            raise BadInput(f"a threshold must be a finite number of at least 0, not {self.value!r}")

    def limit(self, recent: Recent) -> float:
        """Gives the fixed value."""
        return self.value


#: Any of the ways to say where anomalous begins.
Threshold = FalseAlarmRate | FixedThreshold
_BY_KIND: dict[str, type[Threshold]] = {made.kind: made for made in get_args(Threshold)}


def threshold_fields(threshold: Threshold) -> dict[str, Any]:
    """Gives a threshold as JSON holds it."""
    return {"kind": threshold.kind, **asdict(threshold)}


def threshold_from_fields(fields: dict[str, Any]) -> Threshold:
    """Makes a threshold of what ``threshold_fields`` gave."""
    return _BY_KIND[fields["kind"]](**{k: v for k, v in fields.items() if k != "kind"})
