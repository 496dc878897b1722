"""The pieces that learning is cut into: an increment, part by part, and when its rows came."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array, Basis, Evidence, Packed, pack_part, unpack_part
from elmgrove.errors import BadInput, require_whole


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
        """Whether there are any."""
        return not math.isnan(self.first)

    def then(self, later: "Times") -> "Times":
        """Gives the times of these inputs and of later ones."""
        found = np.array([self[:4], later[:4]])
        least, most = np.fmin.reduce(found).tolist(), np.fmax.reduce(found).tolist()
        # Where the times of some are not known, nobody can say.
        follows = self.last <= later.ended and self.began <= later.first
        ordered = self.ordered and later.ordered and (follows or not self.known)
        return Times(least[0], most[1], least[2], most[3], ordered)

    def meet(self, span: Span) -> bool:
        """Says whether some of the inputs may have a row in a span."""
        return span.meets(self.first, self.last)

    def all_meet(self, span: Span) -> bool:
        """Says whether each of the inputs has a row in a span, whichever they are."""
        return span.meets(self.began, self.ended)

    @property
    def fields(self) -> dict[str, Any]:
        """The times as JSON holds them, which has no word for what is no number."""
        known = dict(zip(_TIMES, self, strict=False)) if self.known else {}
        return known if self.ordered else {**known, "ordered": False}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Times":
        """Reads what ``fields`` gave."""
        found = [float(fields[name]) for name in _TIMES if name in fields]
        if len(found) not in (0, 4) or found != sorted(found[:2]) + sorted(found[2:]):
            raise BadInput(f"inputs can't begin and end at {found}")
        first, began, ended, last = found or [math.nan] * 4
        return cls(first, began, ended, last, fields.get("ordered", True))


_TIMES = Times._fields[:4]


@dataclass(frozen=True)
class Piece:
    """What an increment holds of one part: ``rows`` of those ``after`` one and ``until`` another.

    The two count the rows learned in the part; there are fewer where some were taken out.
    ``total`` is Σ x, where patterns are told apart by it.
    """

    number: int
    after: int
    until: int
    rows: int
    evidence: Evidence
    total: Array | None = None

    def faded(self, weight: float) -> "Piece":
        """Gives the piece in which every row counts so many times as much."""
        if weight == 1.0:
            return self
        total = None if self.total is None else weight * self.total
        return replace(self, evidence=self.evidence.weighted(weight), total=total)

    def then(self, later: "Piece", forgetting: float) -> "Piece":
        """Gives this piece and a later one together."""
        mine = self.faded(forgetting**later.rows)
        total = None if mine.total is None or later.total is None else mine.total + later.total
        evidence, rows = mine.evidence + later.evidence, self.rows + later.rows
        return Piece(self.number, self.after, later.until, rows, evidence, total)

    def left_after(self, learned: int) -> int:
        """Counts the rows, at least, of those that were learned in the part after so many."""
        if self.until <= learned:
            return 0
        return max(self.rows - max(learned - self.after, 0), 0)

    def pack(self, prefix: str) -> Packed:
        """Packs its numbers, and its arrays under names that begin with ``prefix``."""
        numbers, arrays = pack_part(prefix, self.evidence)
        known = {name: getattr(self, name) for name in ("number", "after", "until", "rows")}
        total = {} if self.total is None else {f"{prefix}.total": self.total}
        return {**known, **numbers}, {**arrays, **total}

    @classmethod
    def unpack(
        cls, basis: Basis, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> "Piece":
        """Makes a piece of what ``pack`` gave."""
        total = arrays.get(f"{prefix}.total")
        if total is not None and total.shape != (basis.inputs,):
            raise BadInput("an increment whose rows are not as wide as the inputs")
        number, after = require_whole("number", fields["number"], 0), fields["after"]
        until = require_whole("until", fields["until"], require_whole("after", after, 0))
        rows = require_whole("rows", fields["rows"], 1)
        if rows > until - after:
            raise BadInput(f"an increment of {rows} rows, of {until - after} that were learned")
        evidence = unpack_part(basis, prefix, fields, arrays)
        return cls(number, after, until, rows, evidence, total)


@dataclass(frozen=True)
class Increment:
    """What was learned between two cuts: rows ``after`` one and ``until`` another of all learned.

    ``times`` tell when its inputs began and ended; ``again`` counts those, at most, that may have
    been learned before.
    """

    times: Times
    after: int
    until: int
    pieces: tuple[Piece, ...]
    again: int = 0

    @property
    def rows(self) -> int:
        """The rows that it holds."""
        return sum(piece.rows for piece in self.pieces)

    def then(self, later: "Increment", forgetting: float) -> "Increment":
        """Gives this increment and the one after it as one."""
        pieces = {piece.number: piece for piece in self.pieces}
        for piece in later.pieces:
            before = pieces.get(piece.number)
            pieces[piece.number] = piece if before is None else before.then(piece, forgetting)
        made = tuple(pieces[number] for number in sorted(pieces))
        times, again = self.times.then(later.times), self.again + later.again
        return Increment(times, self.after, later.until, made, again)

    def pack(self, prefix: str) -> Packed:
        """Packs its numbers, and its arrays under names that begin with ``prefix``."""
        packed = [piece.pack(f"{prefix}.{i}") for i, piece in enumerate(self.pieces)]
        fields: dict[str, Any] = {
            "after": self.after,
            "until": self.until,
            "pieces": [numbers for numbers, _ in packed],
            **self.times.fields,
            **({"again": self.again} if self.again else {}),
        }
        return fields, {name: array for _, more in packed for name, array in more.items()}

    @classmethod
    def unpack(
        cls, basis: Basis, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> "Increment":
        """Makes an increment of what ``pack`` gave."""
        pieces = tuple(
            Piece.unpack(basis, f"{prefix}.{i}", one, arrays)
            for i, one in enumerate(fields["pieces"])
        )
        after = require_whole("after", fields["after"], 0)
        until = require_whole("until", fields["until"], after)
        again = require_whole("again", fields.get("again", 0), 0)
        return cls(Times.from_fields(fields), after, until, pieces, again)
