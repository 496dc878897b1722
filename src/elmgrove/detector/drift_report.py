"""From sums to words: what changed in the rows since a moment, by what was learned before."""

from collections.abc import Sequence

import numpy as np

from elmgrove.algebra import Array, Scaling
from elmgrove.detector.comparison import (
    Displacement,
    Learned,
    Ramp,
    changes,
    learned_of,
    no_longer_followed,
    ramp_of,
)
from elmgrove.detector.drift import CHANGE, SLOW, Drift, Relation, Shift, percent_of
from elmgrove.detector.model import Model
from elmgrove.detector.since import Passage, Since


def described(
    model: Model,
    recent: Array,
    since: Since,
    blocks: Sequence[Passage],
    sudden: bool,
    now: float | None,
) -> Drift:
    """Tells what changed in the rows of ``since``; ``blocks`` are means up to the last of them.

    ``sudden`` says that rows were others all at once, by how strange they were.
    """
    mean, covariance = since.mean, since.covariance
    learned = learned_of(model, recent)
    found = changes(learned, mean, covariance)
    ramps = [_moved(learned, one, blocks, sudden) for one in found]
    # The first explains most: whether it moved slowly is whether the rows did.
    moved = ramps[0] if ramps else None
    named = [pair for pair in zip(found, ramps, strict=True) if moved is None or pair[1]]
    return Drift(
        CHANGE if moved is None else SLOW,
        since.time if moved is None else moved.time,
        now,
        since.rows if moved is None else moved.rows,
        since.strange / since.rows,
        tuple(_shift(model, one, ramp if moved else None) for one, ramp in named),
        tuple(_relations(model.basis.names, learned, covariance, found)),
    )


def _moved(
    learned: Learned, change: Displacement, blocks: Sequence[Passage], sudden: bool
) -> Ramp | None:
    """Since when a column moved slowly away from where it should be, if it did."""
    if change.by_spread:
        return None
    values = np.array([(block.mean - learned.mean) @ change.weights for block in blocks])
    return ramp_of(list(blocks), values, sudden)


def _relations(
    names: Sequence[str], learned: Learned, covariance: Array, found: Sequence[Displacement]
) -> list[Relation]:
    pairs = ((one.column, no_longer_followed(learned, covariance, one.column)) for one in found)
    return [Relation(names[column], names[other]) for column, other in pairs if other is not None]


def _shift(model: Model, change: Displacement, moved: Ramp | None) -> Shift:
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
