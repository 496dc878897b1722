"""Page-Hinkley's test on a stream of verdicts: spikes, lasting changes and slow drift."""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array
from elmgrove.detector.decision import AlarmGate
from elmgrove.detector.drift import (
    CHANGE,
    SCATTERED,
    SPIKE,
    BlockMean,
    BlockMeans,
    Drift,
    Since,
    described,
)
from elmgrove.detector.events import Events
from elmgrove.detector.false_alarms import CHANGING, LEARNING
from elmgrove.detector.model import Model
from elmgrove.detector.recent import Recent
from elmgrove.detector.verdict import Verdict
from elmgrove.errors import BadInput

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector

# One row in so many is as rare as a row can count: a huge score is no change.
_RAREST = math.log(100.0)
# Near misses are above nearly all that was accepted: where more than this share is above, none
# matters.
_FEW = 0.1
# What is assumed of neighbours before any came: so many say one thing, known by so many rows.
_ASSUMED, _ASSUMED_ROWS = 2, 128.0
# Of older ones half is forgotten whenever there are so many.
_MOST_ROWS = 16384.0
# Rows whose sum shows what they have in common, however little each shows; each size is a multiple
# of the first.
_BLOCKS = (32, 128)


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

    def __init__(self, allowed: float) -> None:
        self._allowed = allowed
        self.begin()

    def begin(self) -> None:
        """Lets the next row be the first after the minimum."""
        #: How far m is above its minimum; the rows since then, and the sum of x over them.
        self.height = self.sum = 0.0
        self.rows = 0

    def add(self, x: float, length: float = 1.0) -> bool:
        """Takes in the next x; says whether m is at a new minimum."""
        self.height += (x - self._allowed) / length
        self.sum += x
        self.rows += 1
        if self.height > 0.0:
            return False
        self.begin()
        return True

    @property
    def mean(self) -> float:
        """The mean of x since the minimum."""
        return self.sum / self.rows if self.rows else self._allowed

    # On disk

    @property
    def fields(self) -> list[float]:
        """Height, sum and rows, as JSON holds them."""
        return [self.height, self.sum, self.rows]

    def restore(self, fields: list[float]) -> None:
        """Goes on from ``fields``."""
        height, total, rows = map(_finite, fields)
        self.height, self.sum, self.rows = height, total, int(rows)


class Neighbours:
    """How many neighbouring rows say one thing, by the rarity of rows in quiet times."""

    def __init__(self, window: int) -> None:
        self._window = window
        # With y = rarity − 1: the rows, Σ y², and Σ y·(that of a window before).
        self.calm = self.squares = _ASSUMED_ROWS
        self.products = 0.0
        self._last: deque[float] = deque([0.0] * window, maxlen=window)
        # Of blocks of each size Σ (Σ y)², and Σ y of the last one that is not full.
        self._blocks = [_ASSUMED_ROWS * max(window, _ASSUMED)] * len(_BLOCKS)
        self._sums = [0.0] * len(_BLOCKS)
        self._row = 0

    @property
    def length(self) -> float:
        """So many rows say one thing: by each and the next, or by whole blocks.

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
        more = 1.0 + 2.0 * math.sqrt(_BLOCKS[-1] / self.calm)
        return self._window + more * (known - self._window)

    def add(self, rare: float) -> None:
        """Takes in the rarity of the next row."""
        y, last, sums = rare - 1.0, self._last, self._sums
        self.calm += 1.0
        self.squares += y * y
        self.products += y * last[0]
        last.append(y)
        self._row += 1
        sums[0] += y
        sums[1] += y
        if self._row % _BLOCKS[0] == 0:
            self._end_blocks()
        if self.calm > _MOST_ROWS:
            self._halve()

    def _end_blocks(self) -> None:
        for place, size in enumerate(_BLOCKS):
            if self._row % size == 0:
                self._blocks[place] += self._sums[place] ** 2
                self._sums[place] = 0.0

    def _halve(self) -> None:
        self.calm, self.squares, self.products = (
            one / 2.0 for one in (self.calm, self.squares, self.products)
        )
        self._blocks = [one / 2.0 for one in self._blocks]

    # On disk

    @property
    def fields(self) -> dict[str, Any]:
        """What was counted, as JSON holds it."""
        return {
            "known": [self.calm, self.squares, self.products],
            "last": list(self._last),
            "blocks": self._blocks,
            "sums": self._sums,
            "row": self._row,
        }

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Goes on from ``fields``."""
        self.calm, self.squares, self.products = map(_finite, fields["known"])
        self._last.extend(map(_finite, fields["last"]))
        self._blocks, self._sums = (
            [_finite(one) for one, _ in zip(fields[name], _BLOCKS, strict=True)]
            for name in ("blocks", "sums")
        )
        self._row = int(_finite(fields["row"]))


def _finite(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise BadInput(f"drift: {value!r} is no number that could have been counted")
    return float(value)


# The mean rarity that is allowed: of normal rows it is 1. More than the first is drift, and more
# than the second a change at one moment, which only the second dates right.
_ALLOWED, _SUDDEN = 1.65, 3.0
# Rows that are rarer by so much in sum are no chance.
_HEIGHT = 25.0
# Of a sudden change the second test has at least such a share of the first one's height.
_SHARE = 0.35
# Less than this in the mean is normal again, and no chance where it is less by so much in sum.
_NORMAL, _RELIEF = 2.0, 10.0
# Fewer rows than this, and two windows, are a few: they may be a spike.
_LASTING = 40
# So many of the last rows, and a window, must be at least half as rare as all since the change.
_LATEST = 16
# So many anomalous rows that come together, and a window, are a spike.
_SPIKE = 2
# The least share of anomalous rows: where fewer are, somebody need not be told.
_LEAST_ANOMALOUS = 0.05
# Without so many scores nothing is rare.
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

    def __init__(self, gate: AlarmGate, model: Model, events: Events) -> None:
        self._gate, self._model, self._events = gate, model, events
        basis = model.basis
        self._window, self._columns, self._inputs = basis.window, basis.layer.inputs, basis.inputs
        self._neighbours = Neighbours(self._window)
        self._slow = ChangeStatistics(_ALLOWED, self._columns)
        self._sudden = ChangeStatistics(_SUDDEN, self._columns)
        self._relief = PageHinkley(-_NORMAL)
        # The rows since more are anomalous than stated, if they are.
        self._excess = Since(self._columns)
        self._history = BlockMeans(self._columns)
        self._lasting = _enough(self._window)
        self._latest: deque[float] = deque(maxlen=_LATEST + self._window)
        self._now: float | None = None
        #: Whether rows are followed yet: from the first one on that is observed.
        self.started = False
        #: Whether a change was found that is not over, and whether somebody said what it is.
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
            if self._relief.height >= _RELIEF and verdict.state != CHANGING:
                self.restart()
                self.ended = True
            return None
        if low:
            few = _SPIKE + self._window <= anomalous < self._lasting
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
        told = Drift(SCATTERED, since.time, self._now, since.rows, share)
        # How rows were before stays known: what becomes of it may be a ramp.
        self._begin()
        return replace(told, raised=(before, self._gate.limit()))

    def _lasts(self, verdict: Verdict) -> bool:
        """Whether rows since the minimum are no chance, many, and the last of them no better."""
        test, since = self._slow.test, self._slow.since
        if verdict.state == CHANGING:
            # What is over by now was a spike.
            if not verdict.anomalous or self._excess.rows < self._lasting:
                return False
            least = _NORMAL / 2 + 0.5
        elif (
            test.height < _HEIGHT
            or test.rows < self._lasting
            or since.anomalous < _LEAST_ANOMALOUS * since.rows
        ):
            return False
        else:
            least = 1.0 + (test.mean - 1.0) / 2.0
        return sum(self._latest) / len(self._latest) >= least

    # On disk

    def pack(self) -> Packed:
        """Packs all that it knows of the rows before; nothing if there were none."""
        if not self.started:
            return {}, {}
        slow, slow_sums = self._slow.pack("slow")
        sudden, sudden_sums = self._sudden.pack("sudden")
        excess, excess_sums = packed_since(self._excess, "excess")
        fields = {
            "found": self.found,
            "relief": self._relief.fields,
            "neighbours": self._neighbours.fields,
            "latest": list(self._latest),
            "now": self._now,
            **({"answered": True} if self.answered else {}),
            **slow,
            **sudden,
            "excess": excess,
        }
        sums = {**slow_sums, **sudden_sums, **excess_sums}
        return {"drift": fields}, {**sums, **self._history.arrays}

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from what was packed."""
        known = fields.get("drift")
        if known is None:
            return
        self.started = True
        self.found, self._now = bool(known["found"]), known["now"]
        self.answered = bool(known.get("answered", False))
        self._latest.clear()
        self._relief.restore(known["relief"])
        self._neighbours.restore(known["neighbours"])
        self._latest.extend(map(float, known["latest"]))
        self._slow.restore("slow", known, arrays)
        self._sudden.restore("sudden", known, arrays)
        restore_since(self._excess, "excess", known["excess"], arrays)
        self._history.restore(arrays)


def _enough(window: int) -> int:
    """Counts the rows from which on a change has lasted."""
    return _LASTING + 2 * window


def neighbours_of(gate: AlarmGate, model: Model) -> Neighbours:
    """Finds what the last rows that were accepted say of neighbours."""
    found, recent = Neighbours(model.basis.window), gate.recent
    if len(recent) >= _LEAST_SCORES:
        rare = rarities(model.scores(recent.rows), recent)
        # A model knows the rows that it learned: they are less rare than others, all of them.
        for one in (rare - rare.mean() + 1.0).tolist():
            found.add(one)
    return found


class ChangeStatistics:
    """A test on the rarity of rows, with the sums over those since its minimum."""

    def __init__(self, allowed: float, columns: int) -> None:
        self.test, self.since = PageHinkley(allowed), Since(columns)

    def add(self, x: Array, rare: float, length: float, verdict: Verdict) -> bool:
        """Takes in a row; says whether it is a new minimum."""
        low = self.test.add(rare, length)
        if low:
            self.since.begin()
        else:
            self.since.add(x, verdict.anomalous, verdict.time)
        return low

    def begin(self) -> None:
        """Lets the next row be the first after a minimum."""
        self.test.begin()
        self.since.begin()

    # On disk

    def pack(self, name: str) -> Packed:
        """Packs it under a name."""
        since, sums = packed_since(self.since, name)
        return {name: {"test": self.test.fields, "since": since}}, sums

    def restore(self, name: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from what was packed under a name."""
        self.test.restore(fields[name]["test"])
        restore_since(self.since, name, fields[name]["since"], arrays)


def packed_since(since: Since, name: str) -> Packed:
    """Packs sums under a name."""
    fields, sums = since.pack()
    return fields, {f"drift_{name}_{key}": value for key, value in sums.items()}


def restore_since(
    since: Since, name: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Goes on from sums that were packed under a name."""
    prefix = f"drift_{name}_"
    kept = {key.removeprefix(prefix): one for key, one in arrays.items() if key.startswith(prefix)}
    since.restore(fields, kept)


# The blocks in which rows of a table are looked at, and rows before a change that are compared.
_TABLE_BLOCKS, _BEFORE = 48, 4096


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
    few = end - begin < _enough(window) or height < _HEIGHT
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
    since = Since(detector.basis.layer.inputs)
    for start in range(begin, end, _BEFORE):
        stop = min(start + _BEFORE, end)
        time = None if times is None else float(times[start])
        since.add_many(rows(start, stop), int(anomalous[start:stop].sum()), time)
    edges = np.unique(np.linspace(max(begin - _BEFORE, 0), end, _TABLE_BLOCKS + 1).astype(int))
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
