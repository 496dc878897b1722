"""Parting an increment where its rows are still known: at a time, or at the number of a row."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.pieces import Increment, Piece, Times
from elmgrove.detector.single import single_model

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector

# What was forgotten to less than this share can't be brought back to its former weight.
_FORGOTTEN = 1e-5

#: Of the stamps of rows: how many come before what is meant, and how many up to its end.
Places = Callable[[Array], tuple[int, int]]


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
    """Gives the places of the rows learned after so many, up to another number of them."""

    def places(stamps: Array) -> tuple[int, int]:
        return int((stamps[:, 2] <= after).sum()), int((stamps[:, 2] <= until).sum())

    return places


def parted(
    detector: "Detector", one: Increment, places: Places
) -> tuple[Increment | None, Increment | None, Increment | None] | None:
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
    if head and (not first or forgetting ** (len(rows) - first) < _FORGOTTEN):
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


def _alone(detector: "Detector", one: Increment, rows: Array, stamps: Array) -> Increment | None:
    """An increment of these rows, which follow each other in another one; None of none."""
    if not len(rows):
        return None
    after, until = int(stamps[0, 2]) - 1, int(stamps[-1, 2])
    piece = _piece(detector, one.pieces[0], rows, after, until)
    # Which of its rows came again is not known: as many here as there can be.
    again = min(one.again, len(rows))
    return Increment(Times.of(stamps[:, :2]), after, until, (piece,), again)


def _head(detector: "Detector", one: Increment, rows: Array, later: int) -> Piece:
    """The rows of an increment before these, as they were so many of these later."""
    (whole,) = one.pieces
    known = _piece(detector, whole, rows, whole.after, whole.until)
    total = None
    if whole.total is not None and known.total is not None:
        total = whole.total - known.total
    evidence, left = whole.evidence - known.evidence, whole.rows - known.rows
    head = replace(whole, rows=left, evidence=evidence, total=total)
    return head.faded(detector.model.forgetting ** (later - len(rows)))


def _piece(detector: "Detector", whole: Piece, rows: Array, after: int, until: int) -> Piece:
    """The piece that learning these rows and no others gives."""
    model = detector.model
    made = single_model(detector.basis, forgetting=model.forgetting, dtype=model.dtype)
    made.learn_all(rows)
    total = None
    if whole.total is not None:
        total = model.forgetting ** np.arange(len(rows) - 1, -1, -1.0) @ rows
    return Piece(whole.number, after, until, len(rows), made.evidence, total)
