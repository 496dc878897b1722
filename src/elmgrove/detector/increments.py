"""Increments: what a detector learned, hour by hour, so that an hour can be taken out again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Evidence, Packed, numbers_in, weight_of
from elmgrove.detector.learned_times import LearnedTimes
from elmgrove.detector.model import Model, Part
from elmgrove.detector.pieces import Increment, Piece, Times
from elmgrove.errors import BadInput, require_whole

#: Seconds that an increment covers, unless stated.
HOUR = 3600.0
#: The most increments that are kept, and the most bytes that they have together.
MOST, MOST_BYTES = 48, 4_000_000
# About so many of the youngest are told apart where many more are learned at once.
_FINE = 16.0


class Increments:
    """All that a detector learned, cut by the clock: each ``seconds`` an increment of its own.

    Under one number a part's evidence only ever grows, so what it grew by since the last cut is the
    evidence of the rows in between: no model need learn differently. With windows, the inputs that
    have rows on both sides of a boundary are increments of their own as well (seams), so that
    without an hour and its seams all is as if there had been a gap. Rows whose time is not known
    are together.

    There are never more than ``MOST``, nor more bytes than ``MOST_BYTES``: older ones are folded
    together, the coarser the older. With ``seconds`` 0 no times are kept, so no span can go.

    ``pins`` are numbers of learned rows at which increments stay apart, whatever their age: where
    the last event began and ended, and around what the last answer changed.
    """

    def __init__(self, model: Model, seconds: float = HOUR) -> None:
        if not 0.0 <= seconds < math.inf:
            raise BadInput(f"increment: seconds from 0 on (0 = none), not {seconds!r}")
        self.seconds = float(seconds)
        self._model = model
        #: Those that were cut, in the order in which they were learned.
        self.kept: list[Increment] = []
        self.pins: dict[str, tuple[int, ...]] = {}
        # Rows learned up to the last cut: in all, and in each part.
        self._cut_at, self._cut_parts = 0, dict[int, int]()
        # What was learned since the last cut: its times, but for the last input's while they go
        # on in order; where it belongs, and the periods that belong there at first sight.
        self._times, self._since, self._last = Times(), math.nan, math.nan
        self._opened: tuple[float, float] | None = None
        self._begin, self._end = math.inf, -math.inf
        # When all up to the last cut was learned, taken out or not; and how many of what was
        # learned since may have been learned before.
        self._before, self._again = LearnedTimes(self.seconds), 0

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
        if not self.seconds or not np.isfinite(periods).any():
            return [0, len(periods)]
        hours = np.floor(periods / self.seconds)
        change = np.flatnonzero((np.diff(hours, axis=0) != 0.0).any(axis=1)) + 1
        if len(change) > MOST:
            age = np.fmax.reduce(hours[:, 1]) - hours[:, 1]
            level = np.floor(_FINE * np.log2(1.0 + age / _FINE))
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
            new = Increment(self._noted, self._cut_at, self._model.learned, grown, self._again)
            untimed = self.kept and not (self.kept[-1].times.known or new.times.known)
            if untimed and not self._pinned(self.kept[-1], new):
                new = self.kept.pop().then(new, self._model.forgetting)
            self.kept.append(new)
            self._fold()
        self._go_on(parts)

    def join(self) -> None:
        """Puts all up to now into one increment: rows that come will make it fade in another way.

        From then on it is taken out whole or not at all.
        """
        parts, times = self._model.parts, (*(one.times for one in self.kept), self._noted)
        pieces = (
            Piece(part.number, 0, part.learned, rows, part.evidence, part.total)
            for part in parts
            if (rows := self.rows_after(part, 0))
        )
        all_times = reduce(Times.then, times)._replace(ordered=False)
        again = self._again + sum(one.again for one in self.kept)
        self.kept = [Increment(all_times, 0, self._model.learned, tuple(pieces), again)]
        self._go_on(parts)

    def resume(self) -> None:
        """Begins the next increment: what is kept is all that was learned up to now."""
        self._go_on(self._model.parts)

    def _go_on(self, parts: Sequence[Part]) -> None:
        """Begins the next increment with what comes now."""
        self._cut_at = self._model.learned
        self._cut_parts = {part.number: part.learned for part in parts}
        self._before.add(self._times.ended, self._last)
        self._again = 0
        self._open(Times())

    def _turn(self, since: float, time: float, times: Times) -> None:
        if not self.seconds:
            return
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
        return since // self.seconds, time // self.seconds

    def _open(self, times: Times) -> None:
        self._times, self._since, self._last = times, times.began, times.last
        self._opened = place = self._place(times.first, times.last)
        self._begin, self._end = math.inf, -math.inf
        if place is not None and place[0] == place[1] and times.last not in self._before:
            self._begin, end = place[0] * self.seconds, (place[0] + 1.0) * self.seconds
            self._end = min(end, self._before.next_after(times.last))

    def _new(self, part: Part) -> int:
        return part.learned - self._cut_parts.get(part.number, 0)

    def _grown(self, part: Part) -> Piece:
        """What a part grew by since the last cut."""
        rows = self._new(part)
        evidence, total = part.evidence, part.total
        if any(piece.number == part.number for one in self.kept for piece in one.pieces):
            before = self.rest(part, later=rows)
            evidence = evidence - before.evidence
            if total is not None and before.total is not None:
                total = total - before.total
        return Piece(part.number, part.learned - rows, part.learned, rows, evidence, total)

    # What is left

    def rest(self, part: Part, later: int = 0) -> Part:
        """Adds up what is kept of a part, as it is so many rows later."""
        faded = list[Piece]()
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
        held = [piece for one in self.kept for piece in one.pieces if piece.number == part.number]
        cut = self._cut_parts.get(part.number, 0)
        return max(part.learned - max(cut, learned), 0) + sum(
            piece.left_after(learned) for piece in held
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
                place: _cost(*pair, now, self.seconds)
                for place, pair in enumerate(pairwise(self.kept))
                if not self._pinned(*pair)
            }
            if not costs:
                return
            place = min(costs, key=costs.__getitem__)
            one, later = self.kept[place : place + 2]
            self.kept[place : place + 2] = [one.then(later, self._model.forgetting)]

    def _pinned(self, one: Increment, later: Increment) -> bool:
        pins = (pin for pins in self.pins.values() for pin in pins)
        return any(one.until <= pin <= later.after for pin in pins)

    # On disk

    def pack(self) -> Packed:
        """Packs all increments, and the times of what was learned since; nothing of nothing."""
        packed = [one.pack(f"increment.{index}") for index, one in enumerate(self.kept)]
        fields: dict[str, Any] = {} if self.seconds == HOUR else {"increment": self.seconds}
        opened: dict[str, Any] = self._noted.fields
        if packed or opened or self._cut_at:
            fields["increments"] = {
                "kept": [numbers for numbers, _ in packed],
                "cut_at": self._cut_at,
                "cut_parts": sorted(map(list, self._cut_parts.items())),
                "open": opened | ({"again": self._again} if self._again else {}),
            }
            if self._before.spans != self._kept_times.spans:
                fields["increments"]["times"] = self._before.fields
            if self.pins:
                fields["increments"]["pins"] = {k: list(pins) for k, pins in self.pins.items()}
        return fields, {name: array for _, more in packed for name, array in more.items()}

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from what was packed; how long an increment is was given when it was made."""
        known = fields.get("increments")
        if known is None:
            return
        basis = self._model.basis
        self.kept = [
            Increment.unpack(basis, f"increment.{index}", one, arrays)
            for index, one in enumerate(known["kept"])
        ]
        self._cut_at = require_whole("cut_at", known["cut_at"], 0)
        self._cut_parts = dict(known["cut_parts"])
        times = known.get("times")
        self._before = self._kept_times if times is None else LearnedTimes(self.seconds, times)
        self.pins = {
            name: tuple(require_whole("pins", pin, 0) for pin in pins)
            for name, pins in known.get("pins", {}).items()
        }
        self._again = require_whole("again", known["open"].get("again", 0), 0)
        self._open(Times.from_fields(known["open"]))

    @property
    def _kept_times(self) -> LearnedTimes:
        known = (one.times for one in self.kept if one.times.known)
        return LearnedTimes(self.seconds, ((times.ended, times.last) for times in known))


def _cost(one: Increment, later: Increment, now: float, seconds: float) -> float:
    """How much is lost by making two increments one: how long it lasts, compared with its age."""
    if not one.times.known or not later.times.known:
        return math.inf if one.times.known or later.times.known else 0.0
    first, last = min(one.times.first, later.times.first), max(one.times.last, later.times.last)
    return (last - first) / max(now - last, seconds)
