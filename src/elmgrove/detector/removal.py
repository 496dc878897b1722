"""Taking out some of what was learned, putting it back, and forgetting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.detector.detector import Detector
from elmgrove.detector.history import Bucket, BucketPart, Span, Times, numbered, parted
from elmgrove.detector.mixture import Mixture
from elmgrove.detector.model import Part
from elmgrove.errors import BadInput


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


def take_out(detector: Detector, span: Span) -> TakenOut:
    """Takes out all inputs learned that have a row in the span, exactly, or whole increments.

    The model is then the one that never learned them, and so is the threshold as far as their
    scores held it up.
    """
    detector.increments.cut()

    def places(stamps: Array) -> tuple[int, int]:
        return int((stamps[:, 1] < span.begin).sum()), int((stamps[:, 0] < span.end).sum())

    left, out, exact = list[Bucket](), list[Bucket](), True
    for one in detector.increments.kept:
        if not one.times.meet(span):
            left.append(one)
        elif one.times.all_meet(span):
            out.append(one)
        else:
            pieces = parted(detector, one, places) if one.times.ordered else None
            exact = exact and pieces is not None
            before, within, after = pieces or (None, one, None)
            left += [some for some in (before, after) if some is not None]
            out += [] if within is None else [within]
    return _without(detector, left, out, exact)


def take_out_learned(detector: Detector, after: int, until: int) -> TakenOut:
    """Takes out the inputs learned after so many, up to another number of them.

    Whatever can't be told apart from others stays, and it is not ``exact`` then.
    """
    detector.increments.cut()
    left, out, exact = list[Bucket](), list[Bucket](), True
    for one in detector.increments.kept:
        if one.until <= after or until <= one.after:
            left.append(one)
        elif after <= one.after and one.until <= until:
            out.append(one)
        else:
            pieces = parted(detector, one, numbered(after, until))
            exact = exact and pieces is not None
            before, within, later = pieces or (one, None, None)
            left += [some for some in (before, later) if some is not None]
            out += [] if within is None else [within]
    return _without(detector, left, out, exact)


def take_out_all(detector: Detector) -> TakenOut:
    """Takes out all that was learned."""
    detector.increments.cut()
    return _without(detector, [], detector.increments.kept, exact=True)


def give_back(detector: Detector, out: Sequence[Bucket], after: int, until: int) -> float:
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


def settle(detector: Detector) -> None:
    """Lets threshold and patterns follow the rows that are known now."""
    model = detector.model
    detector.gate.lower()
    if isinstance(model, Mixture) and model.rows_undecided:
        model.patterns.first_rows = list(detector.gate.recent.rows)


def _without(
    detector: Detector, left: list[Bucket], out: Sequence[Bucket], exact: bool
) -> TakenOut:
    """Lets the detector be what it is without some increments; as it was if that can't be."""
    if not out:
        return TakenOut(exact=exact)
    recent = detector.gate.recent
    gone, since = _numbers(out), min(one.after for one in out)
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
    detector: Detector, kept: list[Bucket], changed: Sequence[Bucket], later: Array
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
        rest = [
            _rest(detector, whole.get(number) or _nothing_of(piece))
            for number, piece in sorted(pieces.items())
        ]
    except Exception:  # whatever it was, nothing is taken out
        increments.kept = were
        raise
    before = detector.level(later)
    for part in rest:
        model.reduce_to(part)
    after = detector.level(later)
    return after / before if before and after else 1.0


def _nothing_of(piece: BucketPart) -> Part:
    """The part of a pattern of which nothing is left."""
    total = None if piece.total is None else 0.0 * piece.total
    return Part(piece.number, piece.until, piece.evidence.weighted(0.0), total)


def _rest(detector: Detector, whole: Part) -> Part:
    rest = detector.increments.rest(whole)
    if rest.evidence.admissible():
        return rest
    # Increments are differences, and carry the rounding of the whole. Where rows are forgotten,
    # those before are worth more without the ones that are gone.
    size = whole.evidence + rest.evidence
    return replace(rest, evidence=rest.evidence.left_of(size))


def _numbers(out: Sequence[Bucket]) -> Callable[[Array], Array]:
    """Says of the numbers of rows which are among these."""
    after, until = np.array([(one.after, one.until) for one in out]).T

    def among(numbers: Array) -> Array:
        found: Array = (numbers[:, np.newaxis] > after) & (numbers[:, np.newaxis] <= until)
        return np.asarray(found.any(axis=1))

    return among


def fade(detector: Detector, weight: float) -> None:
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
