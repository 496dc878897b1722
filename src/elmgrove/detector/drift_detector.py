"""Page-Hinkley's test on a stream of verdicts: spikes, lasting changes and slow drift."""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.rows import Array
from elmgrove.detector.decision import CHANGING, LEARNING, AlarmGate, Recent
from elmgrove.detector.drift import (
    CHANGE,
    RELATED,
    SCATTERED,
    SPIKE,
    BlockMean,
    Drift,
    described,
)
from elmgrove.detector.events import Events
from elmgrove.detector.model import Model
from elmgrove.detector.serialization import Count
from elmgrove.detector.verdict import Verdict
from elmgrove.errors import BadInput

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector

# One row in so many is as rare as a row can count: a huge score is no change.
_RAREST = math.log(100.0)
# Near misses are above nearly all that was accepted: where more than this share is above, none
# matters.
_FEW = 0.1


def rarity(score: float, recent: Recent) -> float:
    """Says one in how many normal rows is as anomalous as a score, as a logarithm; at most 100.

    Whatever scores are like, that of normal rows has a mean of 1 and a deviation of 1.
    """
    accepted = recent.ordered
    count = len(accepted)
    above = count - bisect_right(accepted, score)
    if above >= _FEW * count:
        return math.log((count + 1.0) / (above + 1.0))
    near_misses = recent.near_misses
    count += len(near_misses)
    above += len([one for one in near_misses if one > score])
    return min(math.log((count + 1.0) / (above + 1.0)), _RAREST)


def rarities(scores: Array, recent: Recent) -> Array:
    """Says of many scores what ``rarity`` says of one."""
    known = [np.sort(np.array(some)) for some in (recent.ordered, recent.near_misses)]
    accepted, near_misses = (len(some) - np.searchsorted(some, scores, "right") for some in known)
    matters = accepted < _FEW * len(known[0])
    above = accepted + np.where(matters, near_misses, 0)
    among = len(known[0]) + np.where(matters, len(known[1]), 0)
    return np.asarray(np.minimum(np.log((among + 1.0) / (above + 1.0)), _RAREST))


class PageHinkley:
    """Page's test by Hinkley: m = Σ (x − allowed), less its minimum.

    While x is less than allowed in the mean, m falls, and most rows are a new minimum. When x
    becomes more, m rises; its ``height`` above the minimum says how sure that is, and the minimum
    was the last row before. A step may be divided by how many rows say one thing together.

    It is written out here in place of River's, which would bring pandas to every device, does not
    tell since when, and takes neighbours for independent.

    >>> test = PageHinkley(allowed=1.65)
    >>> low = [test.add(x) for x in 20 * [0.5] + 15 * [4.0]]
    >>> low.count(True), round(test.height, 2), test.rows
    (20, 35.25, 15)
    """

    #: How far m is above its minimum; the sum of x since then, and its rows.
    height: float
    sum: float
    rows: Count

    def __init__(self, allowed: float) -> None:
        self._allowed = allowed
        self.begin()

    def begin(self) -> None:
        self.height = self.sum = 0.0
        self.rows = 0

    def add(self, x: float, length: float = 1.0) -> bool:
        self.height += (x - self._allowed) / length
        self.sum += x
        self.rows += 1
        if self.height > 0.0:
            return False
        self.begin()
        return True

    @property
    def mean(self) -> float:
        return self.sum / self.rows if self.rows else self._allowed


class Neighbours:
    """How many neighbouring rows say one thing, by the rarity of rows in quiet times."""

    #: Rows whose sum shows what they have in common, however little each shows; each size is a
    #: multiple of the first.
    BLOCKS: ClassVar = (32, 128)

    # With y = rarity − 1: the rows, Σ y², and Σ y·(that of a window before).
    calm: float
    squares: float
    products: float
    _last: deque[float]
    # Of blocks of each size Σ (Σ y)², and Σ y of the last one that is not full.
    _blocks: list[float]
    _sums: list[float]
    _row: Count

    def __init__(self, window: int) -> None:
        self._window = window
        # Before any came, 128 rows are assumed, of which two say one thing.
        self.calm = self.squares = 128.0
        self.products = 0.0
        self._last = deque([0.0] * window, maxlen=window)
        self._blocks = [128.0 * max(window, 2)] * len(self.BLOCKS)
        self._sums = [0.0] * len(self.BLOCKS)
        self._row = 0

    @property
    def length(self) -> float:
        """The rows that say one thing: by each and the next, or by whole blocks.

        Where rows remember the last one the first is right; where a little that lasts is hidden
        under noise, the second. What is more than a window is known badly of few rows, and taken
        for more.
        """
        r = min(max(self.products / self.squares, 0.0), 0.99)
        known = max(
            self._window * (1.0 + r) / (1.0 - r),
            self._blocks[0] / self.squares,
            self._blocks[1] / self.squares,
        )
        more = 1.0 + 2.0 * math.sqrt(self.BLOCKS[-1] / self.calm)
        return self._window + more * (known - self._window)

    def add(self, rare: float) -> None:
        y, last, sums = rare - 1.0, self._last, self._sums
        self.calm += 1.0
        self.squares += y * y
        self.products += y * last[0]
        last.append(y)
        self._row += 1
        sums[0] += y
        sums[1] += y
        if self._row % self.BLOCKS[0] == 0:
            self._end_blocks()
        if self.calm > 16384.0:
            # Half of the older ones is forgotten.
            self.calm /= 2.0
            self.squares /= 2.0
            self.products /= 2.0
            self._blocks = [one / 2.0 for one in self._blocks]

    def _end_blocks(self) -> None:
        for place, size in enumerate(self.BLOCKS):
            if self._row % size == 0:
                self._blocks[place] += self._sums[place] ** 2
                self._sums[place] = 0.0

    def complete(self) -> None:
        if len(self._last) != self._window or not len(self._blocks) == len(self._sums) == 2:
            raise BadInput("drift: neighbours of other windows")


class ChangeStatistics:
    """Sums over all rows since a change began, if one did: count, mean, and how they vary.

    They begin again with every minimum of Page-Hinkley's sum. So when it rings they hold the rows
    since the change, and no others.
    """

    #: The rows, those of them that were anomalous, and when the first one came.
    rows: Count
    anomalous: Count
    time: float | None
    # Most rows never get into the sums, since a minimum comes first.
    _waiting: deque[Array]
    # A row near the others, and the sums of rows and of products about it.
    _centre: Array | None
    _sum: Array
    _products: Array

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._shape = (columns,) * (1 if columns > RELATED else 2)
        self._waiting = deque()
        self._clear()

    def begin(self) -> None:
        self._waiting.clear()
        if self.rows:
            self._clear()

    def _clear(self) -> None:
        self.rows = self.anomalous = 0
        self.time = self._centre = None
        self._sum, self._products = np.zeros(self._columns), np.zeros(self._shape)

    def add(self, x: Array, anomalous: bool, time: float | None) -> None:
        if not self.rows:
            self.time = time
        self.rows += 1
        self.anomalous += anomalous
        self._waiting.append(x)
        if len(self._waiting) == 64:
            self._fold()

    def add_many(self, X: Array, anomalous: int, time: float | None) -> None:
        """Adds rows of which some were anomalous; ``time`` is that of the first."""
        if not self.rows:
            self.time = time
        self.rows += len(X)
        self.anomalous += anomalous
        self._fold()
        self._sum_up(X)

    @property
    def mean(self) -> Array:
        self._fold()
        assert self._centre is not None
        mean: Array = self._centre + self._sum / self.rows
        return mean

    @property
    def covariance(self) -> Array:
        """How the rows vary about their mean; of more than 64 columns, the variances alone."""
        self._fold()
        m = self._sum / self.rows
        if self._columns > RELATED:
            return np.asarray(np.maximum(self._products / self.rows - m**2, 0.0))
        return np.asarray(self._products / self.rows - np.outer(m, m))

    def _fold(self) -> None:
        if self._waiting:
            X = np.array(self._waiting)
            self._waiting.clear()
            self._sum_up(X)

    def _sum_up(self, X: Array) -> None:
        X = np.asarray(X, np.float64)
        if self._centre is None:
            # Near the rows, so that a large offset swallows nothing.
            self._centre = X[0]
        Y = X - self._centre
        self._sum += Y.sum(axis=0)
        self._products += (Y * Y).sum(axis=0) if self._columns > RELATED else Y.T @ Y

    def complete(self) -> None:
        rows = [*self._waiting, self._sum, *([] if self._centre is None else [self._centre])]
        fit = all(row.shape == (self._columns,) for row in rows)
        if not fit or self._products.shape != self._shape or len(self._waiting) > self.rows:
            raise BadInput("drift: sums of other columns or rows than there were")


class ChangeTest:
    """A test on the rarity of rows, with statistics of those since its minimum."""

    test: PageHinkley
    since: ChangeStatistics

    def __init__(self, allowed: float, columns: int) -> None:
        self.test, self.since = PageHinkley(allowed), ChangeStatistics(columns)

    def add(self, x: Array, rare: float, length: float, verdict: Verdict) -> bool:
        low = self.test.add(rare, length)
        if low:
            self.since.begin()
        else:
            self.since.add(x, verdict.anomalous, verdict.time)
        return low

    def begin(self) -> None:
        self.test.begin()
        self.since.begin()


class BlockMeans:
    """The means of blocks of rows, up to the last: young blocks are short, and older ones long.

    Neighbouring blocks of one size are folded together where there are more than eight, so a few
    dozen blocks reach back for some ten thousand rows.
    """

    # Each as its number of rows, their mean time (or no number), and their mean.
    _blocks: deque[Array]
    # Rows that complete no block yet, and their times.
    _open: deque[Array]
    _times: deque[float]

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._blocks, self._open, self._times = deque(), deque(), deque()

    def begin(self) -> None:
        for some in (self._blocks, self._open, self._times):
            some.clear()

    def add(self, x: Array, time: float | None) -> None:
        self._open.append(x)
        self._times.append(math.nan if time is None else time)
        if len(self._open) == 16:
            self._blocks.append(self._closed())
            self._open.clear()
            self._times.clear()
            self._fold()

    @property
    def blocks(self) -> list[BlockMean]:
        """All blocks, the oldest first; the last one may be short."""
        every = [*self._blocks, self._closed()] if self._open else self._blocks
        return [
            BlockMean(int(rows), float(time), mean)
            for rows, time, mean in ((one[0], one[1], one[2:]) for one in every)
        ]

    def _closed(self) -> Array:
        rows = len(self._open)
        time = float(np.array(self._times).sum()) / rows
        return np.array([rows, time, *np.array(self._open, np.float64).sum(axis=0) / rows])

    def _fold(self) -> None:
        """Folds the two oldest of one size where there are too many, and drops the oldest of all.

        Sizes fall from the oldest to the youngest, of which one was added.
        """
        blocks, size = list(self._blocks), 16.0
        place = len(blocks) - 9
        while place >= 0 and blocks[place][0] == size:
            folded = (blocks[place] + blocks[place + 1]) / 2.0
            size = folded[0] = 2.0 * size
            blocks[place : place + 2] = [folded]
            place -= 8
        self._blocks.clear()
        self._blocks.extend(blocks[-64:])

    def complete(self) -> None:
        rows = [*(block[2:] for block in self._blocks), *self._open]
        if any(row.shape != (self._columns,) for row in rows) or len(self._open) > 15:
            raise BadInput("drift: blocks of other columns than the model has")
        if not all(block[0] >= 1.0 for block in self._blocks):
            raise BadInput("drift: a block of no rows")
        if len(self._times) != len(self._open):
            raise BadInput("drift: not one time for each row")


# The mean rarity that is allowed: of normal rows it is 1. More than the first is drift, and more
# than the second a change at one moment, which only the second dates right.
_ALLOWED, _SUDDEN = 1.65, 3.0
# Rows that are rarer by this in sum are no chance.
_HEIGHT = 25.0
# Of a sudden change the second test has at least this share of the first one's height.
_SHARE = 0.35
# The least share of anomalous rows: where fewer are, nobody need be asked.
_LEAST_ANOMALOUS = 0.05
# Without this many scores nothing is rare.
_LEAST_SCORES = 30


class DriftDetector:
    """Follows the verdicts of a detector, and finds out what changed and since when.

    Page-Hinkley's test on the rarity of rows rings, and its minimum was the row before the change.
    What came since then is compared with what was learned, by sums. A change is told when it has
    lasted: fewer rows, that are followed by normal ones, are a spike. Where the means of blocks
    before and since are a ramp rather than a step, it is a slow drift, which began where the ramp
    did. Where counting has shown that what is normal is ``changing``, that is a change in any case.
    Rows of a detector that is still learning say nothing.
    """

    _neighbours: Neighbours
    _slow: ChangeTest
    _sudden: ChangeTest
    # A mean rarity of less than 2 is normal again.
    _relief: PageHinkley
    # The rows since more are anomalous than stated, if they are.
    _excess: ChangeStatistics
    _history: BlockMeans
    _latest: deque[float]
    _now: float | None
    #: Whether rows are followed yet: from the first one on that is observed.
    started: bool
    #: Whether a change was found that is not over, and whether somebody said what it is.
    found: bool
    answered: bool

    def __init__(self, gate: AlarmGate, model: Model, events: Events) -> None:
        self._gate, self._model, self._events = gate, model, events
        basis = model.basis
        self._window, self._columns = basis.window, basis.layer.inputs
        self._neighbours = Neighbours(self._window)
        self._slow = ChangeTest(_ALLOWED, self._columns)
        self._sudden = ChangeTest(_SUDDEN, self._columns)
        self._relief = PageHinkley(-2.0)
        self._excess = ChangeStatistics(self._columns)
        self._history = BlockMeans(self._columns)
        self._lasting = _lasting(self._window)
        self._latest = deque(maxlen=16 + self._window)
        self._now, self.started = None, False
        self.found = self.answered = False
        #: Whether it was over with the last row.
        self.ended = False

    def start(self) -> None:
        """Learns from the last rows that were accepted what neighbours say together."""
        self.started = True
        self._neighbours = neighbours_of(self._gate, self._model)

    def follow(self, verdict: Verdict) -> Drift | None:
        """Takes in a verdict; returns what it found out with it, which is mostly nothing."""
        self.ended = False
        recent = self._gate.recent
        if verdict.state == LEARNING or len(recent.ordered) < _LEAST_SCORES:
            self.restart()
            return None
        x = verdict.row if self._window == 1 else verdict.row[-self._columns :]
        self._now = time = verdict.time
        rare = rarity(verdict.score, recent)
        self._latest.append(rare)
        self._history.add(x, time)
        if verdict.learned:
            self._neighbours.add(rare)
        if verdict.excess or verdict.state == CHANGING:
            if verdict.excess == 1:
                self._excess.begin()
            self._excess.add(x, verdict.anomalous, time)
        elif self._excess.rows:
            self._excess.begin()
        quiet = not self._slow.test.rows and not self.found and verdict.raised is None
        if quiet and rare <= _ALLOWED:
            # Another minimum, as with most rows: nothing has begun.
            return None
        return self._tested(x, rare, verdict)

    def _tested(self, x: Array, rare: float, verdict: Verdict) -> Drift | None:
        length = self._neighbours.length
        # Before the sums begin again.
        before = self._slow.since
        anomalous, rows, time = before.anomalous, before.rows, before.time
        low = self._slow.add(x, rare, length, verdict)
        if rare > _SUDDEN or self._sudden.test.rows:
            self._sudden.add(x, rare, length, verdict)
        if verdict.raised is not None:
            return self._followed(verdict.raised)
        if self.found:
            self._relief.add(-rare, length)
            if self._relief.height >= 10.0 and verdict.state != CHANGING:
                self.restart()
                self.ended = True
            return None
        if low:
            few = 2 + self._window <= anomalous < self._lasting
            return Drift(SPIKE, time, self._now, rows, anomalous / rows) if few else None
        self.found = self._lasts(verdict)
        return self.report if self.found else None

    def restart(self) -> None:
        """Begins again: what came before is no longer compared with what comes."""
        self._history.begin()
        self._begin()

    def _begin(self) -> None:
        for one in (self._slow, self._sudden, self._relief, self._excess):
            one.begin()
        self.found = self.answered = False

    @property
    def report(self) -> Drift | None:
        """What is asked about the change that is not over; None where nothing is, or was answered.

        There is one question about an event: what was said of it holds until it has ended.
        """
        running = self._events.running
        if not self.found or self.answered or (running is not None and running.answered):
            return None
        sudden = self._sudden.test.height >= _SHARE * self._slow.test.height
        since = (self._sudden if sudden else self._slow).since
        if since.rows < self._lasting:
            since = self._excess
        blocks, recent = self._history.blocks, self._gate.recent.rows
        found = described(self._model, recent, since, blocks, sudden, self._now)
        event = self._events.open
        return found if event is None else replace(found, known=event.known)

    def _followed(self, before: float) -> Drift:
        """What is told of anomalous rows that came one by one: the threshold has followed them."""
        since = self._excess
        share = since.anomalous / since.rows
        found = Drift(SCATTERED, since.time, self._now, since.rows, share)
        # How rows were before stays known: what becomes of it may be a ramp.
        self._begin()
        return replace(found, raised=(before, self._gate.limit()))

    def _lasts(self, verdict: Verdict) -> bool:
        """Whether rows since the minimum are no chance, many, and the last of them no better."""
        test, since = self._slow.test, self._slow.since
        if verdict.state == CHANGING:
            # What is over by now was a spike.
            if not verdict.anomalous or self._excess.rows < self._lasting:
                return False
            least = 1.5
        elif (
            test.height < _HEIGHT
            or test.rows < self._lasting
            or since.anomalous < _LEAST_ANOMALOUS * since.rows
        ):
            return False
        else:
            least = 1.0 + (test.mean - 1.0) / 2.0
        return sum(self._latest) / len(self._latest) >= least


def _lasting(window: int) -> int:
    """The rows from which on a change has lasted: fewer may be a spike."""
    return 40 + 2 * window


def neighbours_of(gate: AlarmGate, model: Model) -> Neighbours:
    """Finds what the last rows that were accepted say of neighbours."""
    found, recent = Neighbours(model.basis.window), gate.recent
    if len(recent) >= _LEAST_SCORES:
        rare = rarities(model.scores(recent.rows), recent)
        # A model knows the rows that it learned: they are less rare than others, all of them.
        for one in (rare - rare.mean() + 1.0).tolist():
            found.add(one)
    return found


def drift_in(
    detector: "Detector",
    scores: Array,
    anomalous: NDArray[np.bool_],
    rows: Callable[[int, int], Array],
    times: Array | None = None,
    place: Callable[[int], str] = lambda row: "",
) -> Drift | None:
    """Finds the largest lasting change in rows that were scored one after another; None if none.

    ``rows`` gives those from one up to another, prepared as the model takes them; ``place`` says in
    words where one is. It is what a ``DriftDetector`` would have told of it at its end. Where rows
    are others from the first one on, only what was learned says what is different.
    """
    recent, window = detector.gate.recent, detector.window
    if not len(recent) or not anomalous.any():
        return None
    rare = rarities(scores, recent)
    length = neighbours_of(detector.gate, detector.model).length
    begin, end, height = _highest((rare - _ALLOWED) / length)
    few = end - begin < _lasting(window) or height < _HEIGHT
    if few or anomalous[begin:end].mean() < _LEAST_ANOMALOUS:
        return None
    first, last, sudden = _highest((rare[begin:end] - _SUDDEN) / length)
    if sudden >= _SHARE * height:
        begin, end = begin + first, begin + last
    found = _told(detector, anomalous, rows, times, begin, end)
    whole = begin <= window and found.kind == CHANGE
    return replace(found, whole=whole, place=place(end - found.rows))


def _highest(steps: Array) -> tuple[int, int, float]:
    """Where Page-Hinkley's sum rises most above its minimum: from which step on, up to which."""
    m = np.concatenate([[0.0], np.cumsum(steps)])
    heights = m - np.minimum.accumulate(m)
    end = int(heights.argmax())
    begin = int(m[: end + 1].argmin()) if end else 0
    return begin, end, float(heights[end])


def _told(
    detector: "Detector",
    anomalous: NDArray[np.bool_],
    rows: Callable[[int, int], Array],
    times: Array | None,
    begin: int,
    end: int,
) -> Drift:
    since = ChangeStatistics(detector.basis.layer.inputs)
    for start in range(begin, end, 4096):
        stop = min(start + 4096, end)
        time = None if times is None else float(times[start])
        since.add_many(rows(start, stop), int(anomalous[start:stop].sum()), time)
    edges = np.unique(np.linspace(max(begin - 4096, 0), end, 49).astype(int))
    blocks = [
        BlockMean(
            int(stop - start),
            float("nan") if times is None else float(np.mean(times[start:stop])),
            np.asarray(rows(start, stop).mean(axis=0), np.float64),
        )
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    now = None if times is None else float(times[end - 1])
    return described(detector.model, detector.gate.recent.rows, since, blocks, False, now)
