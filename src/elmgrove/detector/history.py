"""What a detector learned, hour by hour, so that an hour can be taken out again."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import numbers_in
from elmgrove.algebra.oselm import weight_of
from elmgrove.algebra.rows import Array
from elmgrove.detector.gaussian import single_model
from elmgrove.detector.mixture import Mixture
from elmgrove.detector.model import Model, Part
from elmgrove.detector.serialization import Count, Sums
from elmgrove.errors import BadInput

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector


@dataclass(frozen=True)
class Span:
    """The time from ``begin`` up to ``end``, in seconds since 1970 (UTC); ``end`` is not in it."""

    begin: float = -math.inf
    end: float = math.inf

    def __post_init__(self) -> None:
        if not self.begin < self.end:
            raise BadInput(f"a span ends after it begins, not at {self.end!r}")

    def holds(self, time: float) -> bool:
        """Says whether a time lies in it; one that is not known does not."""
        return self.begin <= time < self.end

    def meets(self, first: float, last: float) -> bool:
        """Says whether it shares a moment with what lasted from the first time to the last."""
        return first < self.end and last >= self.begin


class Times(NamedTuple):
    """When inputs began and ended; no numbers where that is not known.

    ``first`` and ``began`` are the earliest and the latest time of an input's oldest row,
    ``ended`` and ``last`` those of an input's newest row. ``ordered`` says whether the inputs came
    in the order of their times.
    """

    first: float = math.nan
    began: float = math.nan
    ended: float = math.nan
    last: float = math.nan
    ordered: bool = True

    @classmethod
    def of(cls, periods: Array) -> "Times":
        """Gives the times of inputs with these periods, in two columns.

        A period is known if both its ends are.
        """
        known = periods[~np.isnan(periods).any(axis=1)]
        if not len(known):
            return cls()
        least, most = known.min(axis=0).tolist(), known.max(axis=0).tolist()
        ordered = not (np.diff(known, axis=0) < 0.0).any()
        return cls(least[0], most[0], least[1], most[1], bool(ordered))

    @property
    def known(self) -> bool:
        return not math.isnan(self.first)

    def then(self, later: "Times") -> "Times":
        found = np.array([self[:4], later[:4]])
        least, most = np.fmin.reduce(found).tolist(), np.fmax.reduce(found).tolist()
        # Where the times of some are not known, nobody can say.
        follows = self.last <= later.ended and self.began <= later.first
        ordered = self.ordered and later.ordered and (follows or not self.known)
        return Times(least[0], most[1], least[2], most[3], ordered)


@dataclass(frozen=True)
class BucketPart:
    """What an increment holds of one part: ``rows`` of those ``after`` one and ``until`` another.

    The two count the rows learned in the part; there are fewer where some were taken out.
    ``total`` is Σ x, where patterns are told apart by it.
    """

    number: Count
    after: Count
    until: Count
    rows: Count
    evidence: Sums
    total: Array | None = None

    def faded(self, weight: float) -> "BucketPart":
        """Gives the piece in which every row counts so many times as much."""
        if weight == 1.0:
            return self
        total = None if self.total is None else weight * self.total
        return replace(self, evidence=self.evidence.weighted(weight), total=total)

    def then(self, later: "BucketPart", forgetting: float) -> "BucketPart":
        mine = self.faded(forgetting**later.rows)
        total = None if mine.total is None or later.total is None else mine.total + later.total
        evidence, rows = mine.evidence + later.evidence, self.rows + later.rows
        return BucketPart(self.number, self.after, later.until, rows, evidence, total)

    def left_after(self, learned: int) -> int:
        """Counts the rows, at least, of those that were learned in the part after so many."""
        if self.until <= learned:
            return 0
        return max(self.rows - max(learned - self.after, 0), 0)


@dataclass(frozen=True)
class Bucket:
    """What was learned between two cuts: rows ``after`` one and ``until`` another of all learned.

    ``times`` tell when its inputs began and ended; ``again`` counts those, at most, that may have
    been learned before.
    """

    times: Times
    after: Count
    until: Count
    pieces: tuple[BucketPart, ...]
    again: Count = 0

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def then(self, later: "Bucket", forgetting: float) -> "Bucket":
        pieces = {piece.number: piece for piece in self.pieces}
        for piece in later.pieces:
            before = pieces.get(piece.number)
            pieces[piece.number] = piece if before is None else before.then(piece, forgetting)
        made = tuple(pieces[number] for number in sorted(pieces))
        times, again = self.times.then(later.times), self.again + later.again
        return Bucket(times, self.after, later.until, made, again)


#: The most spans that are kept; the nearest are then joined.
MOST_SPANS = 32


class LearnedTimes:
    """Spans of time in which rows were learned, taken out again or not.

    Only a gap of more than ``gap`` seconds parts two spans: a clock that was once ahead leaves a
    span in the future. Where spans are joined, more rows count as learned before than were.
    """

    #: First and last time of each, in order.
    spans: list[tuple[float, float]]

    def __init__(self, gap: float) -> None:
        self._gap, self.spans = gap, []

    def __contains__(self, time: float) -> bool:
        return any(first <= time <= last for first, last in self.spans)

    def hold(self, times: Array) -> Array:
        """Say of each time whether it is in a span."""
        held: Array = np.zeros(times.shape, bool)
        for first, last in self.spans:
            held |= (first <= times) & (times <= last)
        return held

    def next_after(self, time: float) -> float:
        """Find where the next span begins; infinite if none does."""
        return min((first for first, _ in self.spans if first > time), default=math.inf)

    def add(self, first: float, last: float) -> None:
        """Add a span; times that are not known (NaN) add nothing."""
        if not first <= last:
            return
        apart = list[tuple[float, float]]()
        for one in self.spans:
            if one[1] + self._gap < first or last + self._gap < one[0]:
                apart.append(one)
            else:
                first, last = min(first, one[0]), max(last, one[1])
        self.spans = sorted([*apart, (first, last)])
        while len(self.spans) > MOST_SPANS:
            gaps = [b[0] - a[1] for a, b in zip(self.spans, self.spans[1:], strict=False)]
            place = gaps.index(min(gaps))
            joined = (self.spans[place][0], self.spans[place + 1][1])
            self.spans[place : place + 2] = [joined]


#: Seconds that an increment covers, unless stated.
HOUR = 3600.0
#: The most increments that are kept, and the most bytes that they have together.
MOST, MOST_BYTES = 48, 4_000_000


class History:
    """All that a detector learned, cut by the clock: each hour an increment of its own.

    A part's evidence only grows, so what it grew by since the last cut is the evidence of the rows
    in between. With windows, the inputs that have rows on both sides of a boundary are increments
    of their own as well, so that without an hour and these all is as if there had been a gap. Rows
    whose time is not known are together. There are never more than ``MOST``, nor more bytes than
    ``MOST_BYTES``: older ones are folded together, the coarser the older.

    ``pins`` are numbers of learned rows at which increments stay apart, whatever their age: where
    the last event began and ended, and around what the last answer changed.
    """

    #: Those that were cut, in the order in which they were learned.
    kept: list[Bucket]
    pins: dict[str, tuple[Count, ...]]
    # Rows learned up to the last cut: in all, and in each part.
    _cut_at: Count
    _cut_parts: dict[int, Count]
    # When all up to the last cut was learned, taken out or not; and how many of what was
    # learned since may have been learned before.
    _before: LearnedTimes
    _again: Count
    # What was learned since the last cut: its times, but for the last input's while they go
    # on in order.
    _times: Times
    _since: float
    _last: float

    def __init__(self, model: Model) -> None:
        self._model = model
        self.kept, self.pins = [], {}
        self._cut_at, self._cut_parts = 0, {}
        # Where that belongs, and the periods that belong there at first sight.
        self._times, self._since, self._last = Times(), math.nan, math.nan
        self._opened: tuple[float, float] | None = None
        self._begin, self._end = math.inf, -math.inf
        self._before, self._again = LearnedTimes(HOUR), 0

    # As rows come

    def note(self, since: float, time: float) -> None:
        """Takes note of the period of an input that is about to be learned; cuts before it."""
        if self._begin <= since and self._last <= time < self._end:
            self._since, self._last = since, time
        elif since + time == since + time:
            again = time in self._before or self._times.ended <= time < self._last
            self._turn(since, time, Times(since, since, time, time))
            self._again += again
        elif self._opened is not None:
            # A time that is not known (NaN) belongs to none that is.
            self._turn(since, time, Times())

    def note_many(self, periods: Array, *, by_hand: bool = False) -> None:
        """Takes note of inputs that are about to be learned and are not cut.

        Those that somebody gave ``by_hand`` may be rows that were learned before.
        """
        (since, time), ends = periods[0].tolist(), periods[:, 1]
        again = self._before.hold(ends) | by_hand
        again |= (self._times.ended <= ends) & (ends < self._last)
        self._turn(since, time, Times.of(periods))
        self._again += int(again.sum())

    def boundaries(self, periods: Array) -> list[int]:
        """Finds the places before which these inputs are cut; the first is 0, the last their end.

        Of many hours, those that are old compared with the last are not cut one by one.
        """
        if not np.isfinite(periods).any():
            return [0, len(periods)]
        hours = np.floor(periods / HOUR)
        change = np.flatnonzero((np.diff(hours, axis=0) != 0.0).any(axis=1)) + 1
        if len(change) > MOST:
            age = np.fmax.reduce(hours[:, 1]) - hours[:, 1]
            # About 16 of the youngest are told apart.
            level = np.floor(16.0 * np.log2(1.0 + age / 16.0))
            begun = np.flatnonzero(np.diff(level) != 0.0) + 1
            change = change[np.isin(hours[change, 1], hours[begun, 1])]
        return [0, *change.tolist(), len(periods)]

    def cut(self) -> None:
        """Makes what was learned since the last cut an increment."""
        parts = self._model.parts
        known = {piece.number for one in self.kept for piece in one.pieces}
        if not known <= {part.number for part in parts}:
            # What was one part is several now, of the same rows.
            self.join()
            return
        grown = tuple(self._grown(part) for part in parts if self._new(part))
        if grown:
            new = Bucket(self._noted, self._cut_at, self._model.learned, grown, self._again)
            untimed = self.kept and not (self.kept[-1].times.known or new.times.known)
            if untimed and not self._pinned(self.kept[-1], new):
                new = self.kept.pop().then(new, self._model.forgetting)
            self.kept.append(new)
            self._fold()
        self.resume()

    def join(self) -> None:
        """Puts all up to now into one increment: rows that come will make it fade in another way.

        From then on it is taken out whole or not at all.
        """
        times = (*(one.times for one in self.kept), self._noted)
        pieces = (
            BucketPart(part.number, 0, part.learned, rows, part.evidence, part.total)
            for part in self._model.parts
            if (rows := self.rows_after(part, 0))
        )
        all_times = reduce(Times.then, times)._replace(ordered=False)
        again = self._again + sum(one.again for one in self.kept)
        self.kept = [Bucket(all_times, 0, self._model.learned, tuple(pieces), again)]
        self.resume()

    def resume(self) -> None:
        """Begins the next increment: what is kept is all that was learned up to now."""
        self._cut_at = self._model.learned
        self._cut_parts = {part.number: part.learned for part in self._model.parts}
        self._before.add(self._times.ended, self._last)
        self._again = 0
        self._open(Times())

    def _turn(self, since: float, time: float, times: Times) -> None:
        place = self._place(since, time)
        if place != self._opened:
            self.cut()
            self._open(times)
        elif times.known:
            self._open(self._noted.then(times))

    @property
    def _noted(self) -> Times:
        """The times of all that was learned since the last cut."""
        times = self._times
        return times._replace(began=self._since, last=self._last) if times.known else times

    def _place(self, since: float, time: float) -> tuple[float, float] | None:
        """Where a period belongs: to the hours of its oldest and of its newest row."""
        if not math.isfinite(since + time):
            return None
        return since // HOUR, time // HOUR

    def _open(self, times: Times) -> None:
        self._times, self._since, self._last = times, times.began, times.last
        self._bound(times)

    def _bound(self, times: Times) -> None:
        self._opened = place = self._place(times.first, times.last)
        self._begin, self._end = math.inf, -math.inf
        if place is not None and place[0] == place[1] and times.last not in self._before:
            self._begin, end = place[0] * HOUR, (place[0] + 1.0) * HOUR
            self._end = min(end, self._before.next_after(times.last))

    def _new(self, part: Part) -> int:
        return part.learned - self._cut_parts.get(part.number, 0)

    def _grown(self, part: Part) -> BucketPart:
        """What a part grew by since the last cut."""
        rows = self._new(part)
        evidence, total = part.evidence, part.total
        if any(piece.number == part.number for one in self.kept for piece in one.pieces):
            before = self.rest(part, later=rows)
            evidence = evidence - before.evidence
            if total is not None and before.total is not None:
                total = total - before.total
        return BucketPart(part.number, part.learned - rows, part.learned, rows, evidence, total)

    # What is left

    def rest(self, part: Part, later: int = 0) -> Part:
        """Adds up what is kept of a part, as it is so many rows later."""
        faded = list[BucketPart]()
        for one in reversed(self.kept):
            for piece in one.pieces:
                if piece.number == part.number:
                    faded.insert(0, piece.faded(self._model.forgetting**later))
                    later += piece.rows
        total = None
        if part.total is not None:
            totals = [piece.total for piece in faded if piece.total is not None]
            total = np.sum([np.zeros_like(part.total), *totals], axis=0)
        if not faded:
            return replace(part, evidence=part.evidence.weighted(0.0), total=total)
        return replace(part, evidence=Evidence.sum(p.evidence for p in faded), total=total)

    def rows_after(self, part: Part, learned: int) -> int:
        """Counts the rows, at least, that are left of those learned in a part after so many."""
        cut = self._cut_parts.get(part.number, 0)
        return max(part.learned - max(cut, learned), 0) + sum(
            piece.left_after(learned)
            for one in self.kept
            for piece in one.pieces
            if piece.number == part.number
        )

    def new_weight(self, part: Part, learned: int) -> float:
        """Adds up what those of ``rows_after`` weigh, at least, that were never learned before.

        The newest row of all weighs 1, and older ones less where rows are forgotten or faded. New
        are the rows of times at which none had been learned when they came (``LearnedTimes``), and
        that nobody gave by hand; where no times are known, all that were not given by hand.
        """
        forgetting = self._model.forgetting
        later = self._new(part)
        weight = max(weight_of(min(later, part.learned - learned), forgetting) - self._again, 0.0)
        for one in reversed(self.kept):
            for piece in one.pieces:
                if piece.number == part.number and (left := piece.left_after(learned)):
                    # Those are the newest of its rows, and so have at least their share.
                    share = piece.evidence.count * left / piece.rows
                    weight += forgetting**later * max(share - one.again, 0.0)
                    later += piece.rows
        return weight

    @property
    def spans(self) -> list[tuple[float, float]]:
        """The first and the last time of each increment, as far as times are known."""
        times = (*(one.times for one in self.kept), self._noted)
        return [(one.first, one.last) for one in times if one.known]

    # Bounded

    def _fold(self) -> None:
        """Folds neighbours together while there are too many: what is short compared with its age.

        Those whose times are not known stay apart from the others as long as they can.
        """
        most = MOST_BYTES // (8 * numbers_in(self._model.basis))
        while len(self.kept) > 1 and (
            len(self.kept) > MOST or sum(len(one.pieces) for one in self.kept) > most
        ):
            now = float(np.fmax.reduce([one.times.last for one in self.kept]))
            costs = {
                place: _cost(*pair, now)
                for place, pair in enumerate(pairwise(self.kept))
                if not self._pinned(*pair)
            }
            if not costs:
                return
            place = min(costs, key=costs.__getitem__)
            one, later = self.kept[place : place + 2]
            self.kept[place : place + 2] = [one.then(later, self._model.forgetting)]

    def _pinned(self, one: Bucket, later: Bucket) -> bool:
        pins = (pin for pins in self.pins.values() for pin in pins)
        return any(one.until <= pin <= later.after for pin in pins)

    def complete(self) -> None:
        """Finds what follows from the state; refuses one that no rows lead to."""
        self._bound(self._noted)
        inputs = self._model.basis.inputs
        for one in self.kept:
            for part in one.pieces:
                if part.total is not None and part.total.shape != (inputs,):
                    raise BadInput("an increment whose rows are not as wide as the inputs")
                if not 0 < part.rows <= part.until - part.after:
                    raise BadInput(
                        f"an increment of {part.rows} rows, of {part.until - part.after} learned"
                    )


def _cost(one: Bucket, later: Bucket, now: float) -> float:
    """How much is lost by making two increments one: how long it lasts, compared with its age."""
    if not one.times.known or not later.times.known:
        return math.inf if one.times.known or later.times.known else 0.0
    first, last = min(one.times.first, later.times.first), max(one.times.last, later.times.last)
    return (last - first) / max(now - last, HOUR)


#: Of the stamps of rows: how many come before what is meant, and how many up to its end.
Places = Callable[[Array], tuple[int, int]]
#: An increment as what was before, what is meant, and what was after; None if that can't be told.
Parts = tuple[Bucket | None, Bucket | None, Bucket | None] | None


def split_at(detector: "Detector", number: int) -> bool:
    """Lets one increment end with the row of this number; False where rows are not known."""
    increments = detector.increments
    increments.cut()
    for place, one in enumerate(increments.kept):
        if one.after < number < one.until:
            pieces = parted(detector, one, numbered(number, one.until))
            if pieces is None:
                return False
            increments.kept[place : place + 1] = [some for some in pieces if some is not None]
    return True


def numbered(after: int, until: int) -> Places:

    def places(stamps: Array) -> tuple[int, int]:
        return int((stamps[:, 2] <= after).sum()), int((stamps[:, 2] <= until).sum())

    return places


def parted(detector: "Detector", one: Bucket, places: Places) -> Parts:
    """Parts an increment into what was before, what is meant, and what was after it.

    None where that can't be told: rows that are older than those which are still known may be
    meant or were forgotten too far, or it is not known which pattern learned which row.
    """
    recent, forgetting = detector.gate.recent, detector.model.forgetting
    if detector.patterns is not None and not detector.model.rows_undecided:
        return None
    known = (recent.stamps[:, 2] > one.after) & (recent.stamps[:, 2] <= one.until)
    rows, stamps = recent.rows[known], recent.stamps[known]
    first, last = places(stamps)
    head = one.rows - len(rows)
    if head and (not first or forgetting ** (len(rows) - first) < 1e-5):
        return None
    if first == last:
        return one, None, None
    early, within, late = (
        _alone(detector, one, rows[begin:end], stamps[begin:end])
        for begin, end in pairwise([0, first, last, len(rows)])
    )
    if head and early is not None:
        before = _head(detector, one, rows, first)
        pieces = (before.then(early.pieces[0], 1.0),)
        times = early.times._replace(first=one.times.first, ended=one.times.ended)
        early = replace(early, times=times, after=one.after, pieces=pieces, again=one.again)
    return early, within, late


def _alone(detector: "Detector", one: Bucket, rows: Array, stamps: Array) -> Bucket | None:
    """An increment of these rows, which follow each other in another one; None of none."""
    if not len(rows):
        return None
    after, until = int(stamps[0, 2]) - 1, int(stamps[-1, 2])
    piece = _piece(detector, one.pieces[0], rows, after, until)
    # Which of its rows came again is not known: as many here as there can be.
    again = min(one.again, len(rows))
    return Bucket(Times.of(stamps[:, :2]), after, until, (piece,), again)


def _head(detector: "Detector", one: Bucket, rows: Array, later: int) -> BucketPart:
    """The rows of an increment before these, as they were so many of these later."""
    (whole,) = one.pieces
    known = _piece(detector, whole, rows, whole.after, whole.until)
    total = None
    if whole.total is not None and known.total is not None:
        total = whole.total - known.total
    evidence, left = whole.evidence - known.evidence, whole.rows - known.rows
    head = replace(whole, rows=left, evidence=evidence, total=total)
    return head.faded(detector.model.forgetting ** (later - len(rows)))


def _piece(
    detector: "Detector", whole: BucketPart, rows: Array, after: int, until: int
) -> BucketPart:
    """The piece that learning these rows and no others gives."""
    model = detector.model
    made = single_model(detector.basis, forgetting=model.forgetting)
    made.learn_all(rows)
    total = None
    if whole.total is not None:
        total = model.forgetting ** np.arange(len(rows) - 1, -1, -1.0) @ rows
    return BucketPart(whole.number, after, until, len(rows), made.evidence, total)


@dataclass(frozen=True)
class TakenOut:
    """What was taken out: how many rows, and the time that they covered; 0 where there were none.

    ``exact`` says whether these are the rows that were meant, and no others: where a span ends
    within an increment and its rows are not known any more, all of the increment goes.
    """

    rows: int = 0
    first: float = np.nan
    last: float = np.nan
    exact: bool = True
    increments: tuple[Bucket, ...] = field(default=(), repr=False)


def take_out(detector: "Detector", span: Span) -> TakenOut:
    """Takes out all inputs learned that have a row in the span, exactly, or whole increments.

    The model is then the one that never learned them, and so is the threshold as far as their
    scores held it up.
    """

    def part(one: Bucket) -> Parts:
        times = one.times
        if not span.meets(times.first, times.last):
            return one, None, None
        if span.meets(times.began, times.ended):
            # Each of its inputs, whichever they are.
            return None, one, None
        return parted(detector, one, places) if times.ordered else None

    def places(stamps: Array) -> tuple[int, int]:
        return int((stamps[:, 1] < span.begin).sum()), int((stamps[:, 0] < span.end).sum())

    return _take_out(detector, part, lambda one: (None, one, None))


def take_out_learned(detector: "Detector", after: int, until: int) -> TakenOut:
    """Takes out the inputs learned after so many, up to another number of them.

    Whatever can't be told apart from others stays, and it is not ``exact`` then.
    """

    def part(one: Bucket) -> Parts:
        if one.until <= after or until <= one.after:
            return one, None, None
        if after <= one.after and one.until <= until:
            return None, one, None
        return parted(detector, one, numbered(after, until))

    return _take_out(detector, part, lambda one: (one, None, None))


def _take_out(
    detector: "Detector",
    part: Callable[[Bucket], Parts],
    whole: Callable[[Bucket], tuple[Bucket | None, Bucket | None, None]],
) -> TakenOut:
    """Takes out the middle of what ``part`` makes of each increment, or what ``whole`` does."""
    detector.increments.cut()
    left, out, exact = list[Bucket](), list[Bucket](), True
    for one in detector.increments.kept:
        pieces = part(one)
        exact = exact and pieces is not None
        before, within, later = pieces or whole(one)
        left += [some for some in (before, later) if some is not None]
        out += [] if within is None else [within]
    return _without(detector, left, out, exact)


def give_back(detector: "Detector", out: Sequence[Bucket], after: int, until: int) -> float:
    """Takes out what was learned after so many rows up to another number, and puts ``out`` back.

    The sums are then as if neither had happened. Gives the factor by which scores of rows that
    were learned since are others now.
    """
    detector.increments.cut()
    kept = detector.increments.kept
    gone = [one for one in kept if after <= one.after and one.until <= until]
    left = [one for one in kept if one.until <= after or until <= one.after or after == until]
    apart = all(one.until <= some.after or some.until <= one.after for one in left for some in out)
    if len(gone) + len(left) < len(kept) or not apart:
        raise BadInput(
            "the last answer can't be undone any more: what was learned before and after it was "
            "put together since, by another setting or to tell patterns apart"
        )
    together = sorted([*left, *out], key=lambda one: one.after)
    rows, since = detector.gate.recent.rows, detector.learned - until
    factor = _go_on_with(detector, together, [*gone, *out], rows[max(len(rows) - since, 0) :])
    detector.taken += sum(one.rows for one in gone) - sum(one.rows for one in out)
    detector.increments.resume()
    return factor


def settle(detector: "Detector") -> None:
    """Lets threshold and patterns follow the rows that are known now."""
    model = detector.model
    detector.gate.lower()
    if isinstance(model, Mixture) and model.rows_undecided:
        model.patterns.first_rows = list(detector.gate.recent.rows)


def _without(
    detector: "Detector", left: list[Bucket], out: Sequence[Bucket], exact: bool
) -> TakenOut:
    """Lets the detector be what it is without some increments; as it was if that can't be."""
    if not out:
        return TakenOut(exact=exact)
    recent = detector.gate.recent
    after, until = np.array([(one.after, one.until) for one in out]).T
    since = int(after.min())

    def gone(numbers: Array) -> Array:
        found: Array = (numbers[:, np.newaxis] > after) & (numbers[:, np.newaxis] <= until)
        return np.asarray(found.any(axis=1))

    learned_at = recent.stamps[:, 2]
    later = recent.rows[~gone(learned_at) & (learned_at > since)]
    factor = _go_on_with(detector, left, out, later)
    recent.take_out(gone, detector.learned, since, factor)
    settle(detector)
    if recent.missing(detector.gate.policy.minimum) and len(recent.rows):
        recent.score_again(detector.model.left_out(recent.rows), detector.learned)
    rows = sum(one.rows for one in out)
    detector.taken += rows
    times = reduce(Times.then, (one.times for one in out))
    return TakenOut(rows, times.first, times.last, exact, tuple(out))


def _go_on_with(
    detector: "Detector", kept: list[Bucket], changed: Sequence[Bucket], later: Array
) -> float:
    """Lets the sums be those of other increments, of which some came or went.

    Gives the factor by which the scores of ``later`` rows are others then. What can't be leaves
    all as it was.
    """
    increments, model, recent = detector.increments, detector.model, detector.gate.recent
    first_rows_known = len(recent.rows) == detector.learned - detector.taken
    if model.rows_undecided and not first_rows_known:
        raise BadInput(
            "how many patterns there are is decided by the first rows, and not all of them are "
            f"known any more: take rows out after {model.rows_undecided} more"
        )
    whole, were = {part.number: part for part in model.parts}, increments.kept
    pieces = {piece.number: piece for one in changed for piece in one.pieces}
    increments.kept = kept
    try:
        for number, piece in pieces.items():
            # A pattern of which nothing is left.
            nothing = Part(number, piece.until, piece.evidence.weighted(0.0), piece.total)
            whole.setdefault(number, nothing)
        rest = [_rest(detector, whole[number]) for number in sorted(pieces)]
    except Exception:  # whatever it was, nothing is taken out
        increments.kept = were
        raise
    before = detector.level(later)
    for part in rest:
        model.reduce_to(part)
    after = detector.level(later)
    return after / before if before and after else 1.0


def _rest(detector: "Detector", whole: Part) -> Part:
    rest = detector.increments.rest(whole)
    if rest.evidence.admissible():
        return rest
    # Increments are differences, and carry the rounding of the whole. Where rows are forgotten,
    # those before are worth more without the ones that are gone.
    size = whole.evidence + rest.evidence
    return replace(rest, evidence=rest.evidence.left_of(size))


def fade(detector: "Detector", weight: float) -> None:
    """Lets every row learned up to now count so many times as much, and the detector learn again.

    Own evidence stays what it says it is, a sum over rows with weights, and so do the increments
    that a time span can be taken out of. The threshold belonged to another model: until there is
    one, and counting has shown its rate, nothing is anomalous and all rows are learned.
    """
    increments = detector.increments
    increments.cut()
    detector.forget_undo()
    # No longer in order: single rows of them count otherwise than those that come.
    increments.kept = [
        replace(
            one,
            times=one.times._replace(ordered=False),
            pieces=tuple(piece.faded(weight) for piece in one.pieces),
        )
        for one in increments.kept
    ]
    for part in detector.model.parts:
        detector.model.reduce_to(increments.rest(part))
    detector.gate.begin()
