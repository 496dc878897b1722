"""Minutes of an agent: counts and score quantiles of its rows, in bounded memory."""

import math
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any

from elmgrove.detector import Verdict
from elmgrove.errors import BadInput
from elmgrove.federation import MOST_MINUTES, QUANTILES, Minute

#: Scores that are held of a minute: of so many rows the quantiles are exact, of more they are those
#: of as many that are drawn by lot. The largest score is always that of all rows.
HELD = 512
#: Minutes of which scores are held, the newest: rows of several machines, or of an hour that comes
#: late, may come by turns.
OPEN = 3
_SECONDS = 60
# Figures of a score that are told: nobody sees more of them in a chart.
_FIGURES = 6


class GrowingMinute:
    """What is known of a minute by now; ``told`` is how many of its rows were told.

    Its scores are held while it is open. Of rows that come after that only the counts and the
    largest score are known.
    """

    __slots__ = (
        *("rows", "anomalous", "told", "threshold"),
        *("largest", "scores", "quantiles"),
    )

    def __init__(self) -> None:
        self.rows = self.anomalous = self.told = 0
        self.threshold, self.largest = math.inf, 0.0
        self.scores: list[float] | None = []
        self.quantiles: tuple[float, ...] = ()

    def close(self) -> None:
        """Lets go of the scores."""
        self.quantiles, self.scores = self._quantiles(), None

    def fields(self, minute: int) -> list[Any]:
        """Gives what there is to tell, as JSON holds it: the fields of a ``Minute``."""
        limit = _told(self.threshold) if math.isfinite(self.threshold) else None
        scores = [*map(_told, self._quantiles()), _told(self.largest)]
        return [minute, self.rows, self.anomalous, limit, *scores]

    def _quantiles(self) -> tuple[float, ...]:
        """Finds the quantiles of the scores, each one that was seen, but for the largest of all."""
        if self.scores is None:
            return self.quantiles
        found, last = sorted(self.scores), len(self.scores)
        return tuple(found[math.ceil(share * last) - 1] for share in QUANTILES[:-1])

    @classmethod
    def of(cls, minute: Minute) -> "GrowingMinute":
        """Makes what an agent goes on with that was started again."""
        made = cls()
        made.rows, made.anomalous = minute.rows, minute.anomalous
        made.threshold = math.inf if minute.threshold is None else minute.threshold
        *made_of, made.largest = minute.scores
        made.quantiles, made.scores = tuple(made_of), None
        return made


class Minutes:
    """Counts rows by the minute of their own time, and remembers the newest minutes.

    A minute is told whole whenever it has grown since it was last told: what comes later takes the
    place of what came before. Of more than ``MOST_MINUTES`` those are forgotten that got no row for
    longest. A row costs about a microsecond.
    """

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self._pieces: dict[int, GrowingMinute] = {}
        for stated in known:
            with suppress(BadInput):  # before 1970: a clock that was never set
                minute = Minute.from_fields(stated)
                self._pieces[minute.minute] = GrowingMinute.of(minute)
        self._number: int | None = None
        self._piece = GrowingMinute()
        self._open: list[GrowingMinute] = []
        self._under_way: list[tuple[GrowingMinute, int]] = []
        # The same rows give the same quantiles.
        self._random = Random(0).random

    def follow(self, verdict: Verdict) -> None:
        """Counts a row."""
        when = verdict.time
        number = int((time.time() if when is None else when) // _SECONDS)
        piece = self._piece if number == self._number else self._turned(number)
        piece.rows += 1
        piece.anomalous += verdict.anomalous
        piece.threshold = verdict.threshold
        # As JSON holds it, which knows no infinity; what is no number is the largest.
        score = verdict.score if verdict.score < sys.float_info.max else sys.float_info.max
        if score > piece.largest:
            piece.largest = score
        held = piece.scores
        if held is None:
            return
        if len(held) < HELD:
            held.append(score)
        elif (place := int(self._random() * piece.rows)) < HELD:
            held[place] = score

    def untold(self) -> tuple[Minute, ...]:
        """Gives the minutes that grew since they were told, the one that grew last at the end."""
        self._under_way, found = [], list[Minute]()
        for number, piece in self._pieces.items():
            if piece.told != piece.rows:
                self._under_way.append((piece, piece.rows))
                with suppress(BadInput):  # before 1970
                    found.append(Minute.from_fields(piece.fields(number)))
        return tuple(found)

    def told(self) -> None:
        """Takes note that what ``untold`` gave last has arrived."""
        for piece, rows in self._under_way:
            piece.told = rows
        self._under_way = []

    @property
    def fields(self) -> list[list[Any]]:
        """What a restart must know: what was not told yet, and the minute that still grows."""
        return [
            piece.fields(number)
            for number, piece in self._pieces.items()
            if piece.told != piece.rows or piece is self._piece
        ]

    def _turned(self, number: int) -> GrowingMinute:
        """Turns to another minute, maybe one of before."""
        piece = self._pieces.pop(number, None)
        if piece is None:
            piece = GrowingMinute()
            self._open.append(piece)
            if len(self._open) > OPEN:
                self._open.pop(0).close()
            if len(self._pieces) == MOST_MINUTES:
                del self._pieces[next(iter(self._pieces))]
        # Behind all others.
        self._pieces[number] = piece
        self._number, self._piece = number, piece
        return piece


def _told(score: float) -> float:
    return float(f"{score:.{_FIGURES}g}")
