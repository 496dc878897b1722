"""From sums to words: what changed in the rows since a moment, by what was learned before."""

from collections.abc import Sequence

import numpy as np

from elmgrove.algebra import Array, Scaling
from elmgrove.detector.comparison import (
    Change,
    Learned,
    Ramp,
    changes,
    learned_of,
    no_longer_followed,
    ramp,
)
from elmgrove.detector.drift import CHANGE, SLOW, Drift, Relation, Shift, percent_of
from elmgrove.detector.model import Model
from elmgrove.detector.since import Block, Since


def described(
    model: Model, recent: Array, since: Since, blocks: Sequence[Block], now: float | None
) -> Drift:
    """Tells what changed in the rows of ``since``; ``blocks`` are means up to the last of them."""
    mean, covariance = since.mean, since.covariance
    learned = learned_of(model, recent)
    found = changes(learned, mean, covariance)
    # The first explains most: whether it moved slowly is whether the rows did.
    moved = _moved(learned, found[0], blocks) if found else None
    slow = moved is not None
    named = found if not slow else [one for one in found if _moved(learned, one, blocks)]
    share = since.strange / since.rows
    return Drift(
        SLOW if slow else CHANGE,
        since.time if moved is None else moved.time,
        now,
        since.rows if moved is None else moved.rows,
        share,
        tuple(_shift(model, one, _moved(learned, one, blocks) if slow else None) for one in named),
        tuple(_relations(model.basis.names, learned, covariance, found)),
    )


def _moved(learned: Learned, change: Change, blocks: Sequence[Block]) -> Ramp | None:
    """Since when a column moved slowly away from where it should be, if it did."""
    if change.by_spread:
        return None
    values = np.array([(block.mean - learned.mean) @ change.weights for block in blocks])
    return ramp(list(blocks), values)


def _relations(
    names: Sequence[str], learned: Learned, covariance: Array, found: Sequence[Change]
) -> list[Relation]:
    pairs = ((one.column, no_longer_followed(learned, covariance, one.column)) for one in found)
    return [Relation(names[column], names[other]) for column, other in pairs if other is not None]


def _shift(model: Model, change: Change, moved: Ramp | None) -> Shift:
    """A change in the data's own units."""
    scaling, column = model.basis.scaling, change.column
    scale = _scale(scaling, column)
    shift = scaling.shift[column] if scaling.kind != "none" else 0.0
    before, after = change.before * scale + shift, change.after * scale + shift
    varied, varies = change.varied * scale, change.varies * scale
    pace = None if moved is None else moved.per_row * scale
    hourly = None if moved is None or moved.per_hour is None else moved.per_hour * scale
    percent = percent_of(before, after, varied)
    name = model.basis.names[column]
    return Shift(
        name, before, after, percent, change.size, varied, varies, change.by_spread, hourly, pace
    )


def _scale(scaling: Scaling, column: int) -> float:
    return scaling.scale[column] if scaling.kind != "none" else 1.0
