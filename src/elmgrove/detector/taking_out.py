"""Taking out: a time span of what was learned, as if there had been a gap."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.detector import Detector
from elmgrove.detector.mixture import Mixture
from elmgrove.detector.model import Part
from elmgrove.detector.pieces import Increment, Piece, Span, Times
from elmgrove.detector.single import single_model
from elmgrove.errors import BadInput

# What was forgotten to less than this share can't be brought back to its former weight.
_FORGOTTEN = 1e-5


@dataclass(frozen=True)
class TakenOut:
    """What was taken out: how many rows, and the time that they covered; 0 where there were none.

    ``exact`` says whether all of them have to do with the span: where a span ends within an
    increment and its rows are not known any more, all of the increment goes.
    """

    rows: int = 0
    first: float = np.nan
    last: float = np.nan
    exact: bool = True


def take_out(detector: Detector, span: Span) -> TakenOut:
    """Takes out all inputs learned that have a row in the span, exactly, or whole increments.

    The model is then the one that never learned them, and so is the threshold as far as their
    scores held it up.
    """
    detector.increments.cut()
    kept = detector.increments.kept
    left, out, exact = list[Increment](), list[Increment](), True
    for one in kept:
        if not one.times.meet(span):
            left.append(one)
        elif one.times.all_meet(span):
            out.append(one)
        else:
            pieces = _parted(detector, one, span)
            exact = exact and pieces is not None
            before, within, after = pieces or (None, one, None)
            left += [some for some in (before, after) if some is not None]
            out += [] if within is None else [within]
    if not out:
        return TakenOut()
    _go_on_with(detector, left, out)
    rows = sum(one.rows for one in out)
    detector.taken += rows
    times = reduce(Times.then, (one.times for one in out))
    return TakenOut(rows, times.first, times.last, exact)


def take_out_all(detector: Detector) -> int:
    """Takes out all that was learned; says how many rows that were."""
    detector.increments.cut()
    out = detector.increments.kept
    rows = sum(one.rows for one in out)
    if rows:
        _go_on_with(detector, [], out)
        detector.taken += rows
    return rows


def _go_on_with(detector: Detector, left: list[Increment], out: Sequence[Increment]) -> None:
    """Lets the detector be what it is without some increments; as it was if that can't be."""
    increments, model, recent = detector.increments, detector.model, detector.gate.recent
    first_rows_known = len(recent.rows) == detector.learned - detector.taken
    if model.rows_undecided and not first_rows_known:
        raise BadInput(
            "how many patterns there are is decided by the first rows, and not all of them are "
            f"known any more: take rows out after {model.rows_undecided} more"
        )
    whole, kept = {part.number: part for part in model.parts}, increments.kept
    numbers = {piece.number for one in out for piece in one.pieces}
    increments.kept = left
    try:
        rest = [_rest(detector, whole[number]) for number in sorted(numbers)]
    except Exception:  # whatever it was, nothing is taken out
        increments.kept = kept
        raise
    gone, since = _numbers(out), min(one.after for one in out)
    learned_at = recent.stamps[:, 2]
    later = recent.rows[~gone(learned_at) & (learned_at > since)]
    before = detector.level(later)
    for part in rest:
        model.reduce_to(part)
    after = detector.level(later)
    recent.take_out(gone, detector.learned, since, after / before if before and after else 1.0)
    detector.gate.expire()
    if isinstance(model, Mixture) and model.rows_undecided:
        model.patterns.first_rows = list(recent.rows)
    if recent.missing(detector.gate.policy.minimum) and len(recent.rows):
        recent.score_again(model.left_out(recent.rows), detector.learned)


def _rest(detector: Detector, whole: Part) -> Part:
    rest = detector.increments.rest(whole)
    if rest.evidence.admissible():
        return rest
    # Increments are differences, and carry the rounding of the whole. Where rows are forgotten,
    # those before are worth more without the ones that are gone.
    size = whole.evidence + rest.evidence
    return replace(rest, evidence=rest.evidence.left_of(size))


def _numbers(out: Sequence[Increment]) -> Callable[[Array], Array]:
    """Says of the numbers of rows which are among these."""
    after, until = np.array([(one.after, one.until) for one in out]).T

    def among(numbers: Array) -> Array:
        found: Array = (numbers[:, np.newaxis] > after) & (numbers[:, np.newaxis] <= until)
        return np.asarray(found.any(axis=1))

    return among


# Within an increment


def _parted(
    detector: Detector, one: Increment, span: Span
) -> tuple[Increment | None, Increment | None, Increment | None] | None:
    """Parts an increment into what was before a span, in it, and after it.

    None where that can't be told: rows that are older than those which are still known may lie in
    the span or were forgotten too far, or it is not known which pattern learned which row.
    """
    recent, forgetting = detector.gate.recent, detector.model.forgetting
    if (detector.patterns is not None and not detector.rows_undecided) or not one.times.ordered:
        return None
    known = (recent.stamps[:, 2] > one.after) & (recent.stamps[:, 2] <= one.until)
    rows, stamps = recent.rows[known], recent.stamps[known]
    first, last = int((stamps[:, 1] < span.begin).sum()), int((stamps[:, 0] < span.end).sum())
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


def _alone(detector: Detector, one: Increment, rows: Array, stamps: Array) -> Increment | None:
    """An increment of these rows, which follow each other in another one; None of none."""
    if not len(rows):
        return None
    after, until = int(stamps[0, 2]) - 1, int(stamps[-1, 2])
    piece = _piece(detector, one.pieces[0], rows, after, until)
    # Which of its rows came again is not known: as many here as there can be.
    again = min(one.again, len(rows))
    return Increment(Times.of(stamps[:, :2]), after, until, (piece,), again)


def _head(detector: Detector, one: Increment, rows: Array, later: int) -> Piece:
    """The rows of an increment before these, as they were so many of these later."""
    (whole,) = one.pieces
    known = _piece(detector, whole, rows, whole.after, whole.until)
    total = None
    if whole.total is not None and known.total is not None:
        total = whole.total - known.total
    evidence, left = whole.evidence - known.evidence, whole.rows - known.rows
    head = replace(whole, rows=left, evidence=evidence, total=total)
    return head.faded(detector.model.forgetting ** (later - len(rows)))


def _piece(detector: Detector, whole: Piece, rows: Array, after: int, until: int) -> Piece:
    """The piece that learning these rows and no others gives."""
    model = detector.model
    made = single_model(detector.basis, forgetting=model.forgetting, dtype=model.dtype)
    made.learn_all(rows)
    total = None
    if whole.total is not None:
        total = model.forgetting ** np.arange(len(rows) - 1, -1, -1.0) @ rows
    return Piece(whole.number, after, until, len(rows), made.evidence, total)
