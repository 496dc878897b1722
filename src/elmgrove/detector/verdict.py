"""What is said of a row: the verdict, and which of its features would explain it."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.detector.decision import Flagged
from elmgrove.detector.model import Model

if TYPE_CHECKING:
    from elmgrove.detector.drift import Drift


def score_of(model: Model, x: Array) -> float:
    """Scores an input by the rows that there are of it.

    A distance leaves the missing ones open. A loss can't: there they are 0, which is nothing out
    of the ordinary where rows are scaled.
    """
    if len(x) == model.basis.inputs:
        return model.score_one(x)
    if model.basis.score == "loss":
        return model.score_one(_padded(model, x))
    views = (single.explainer(x) for single in model.models)
    return min(view.last(len(x)).score_one(x) for view in views if isinstance(view, Distance))


def view_of(model: Model, x: Array) -> tuple[Array, Any]:
    """An input, padded where its model needs that, and what explains it."""
    missing = len(x) < model.basis.inputs
    whole = _padded(model, x) if missing else x
    view = model.explainer(whole)
    if missing and model.basis.score == "distance":
        return x, view.last(len(x))
    return whole, view


def _padded(model: Model, x: Array) -> Array:
    return np.concatenate([np.zeros(model.basis.inputs - len(x), x.dtype), x])


class Cause(NamedTuple):
    """One feature's part in a score: its share, what was seen, what was expected, and when.

    ``ago`` counts rows back from the row in question: 0 is that row itself.

    >>> print(Cause("flow", 0.9, 22.0, 31.0), Cause("temp", 0.1, math.nan, math.nan), sep=", ")
    flow 22 (not 31), temp
    """

    feature: str
    share: float
    seen: float
    expected: float
    ago: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        """The cause as JSON holds it, which has None for what is no number."""
        numbers = {"share": self.share, "seen": self.seen, "expected": self.expected}
        known = {name: one if math.isfinite(one) else None for name, one in numbers.items()}
        return {"feature": self.feature, **known, "ago": self.ago}

    def __str__(self) -> str:
        # What is no number is nothing to tell.
        unknown = math.isnan(self.seen) or math.isnan(self.expected)
        return (
            self.feature if unknown else f"{self.feature} {self.seen:.4g} (not {self.expected:.4g})"
        )


@dataclass(slots=True)
class Verdict:
    """Score, threshold and decision for one row.

    ``threshold`` is infinite while the detector is still learning (``state`` says so).
    ``anomalous`` says that the row is above the threshold, and ``known`` at whom it would have been
    normal, which changes nothing about it. ``alarm`` says that this row opened an event, or that
    with it what is normal is ``changing``; ``event`` is the number of the event that an anomalous
    row belongs to, if there is one. ``pattern`` is the number of the normal pattern that explains
    the row best (negative: one of others). ``flagged`` is the running count of rows above the
    threshold, with its confidence band.
    ``time`` is when the row was measured, in seconds since 1970 (UTC), if known.
    ``excess`` counts the rows since more are anomalous than the stated rate explains, and
    ``raised`` is the threshold before, where with this row it began to follow them (``AlarmGate``).
    ``drift`` is what this row has shown: a lasting change, a slow drift, or that it was a spike.
    """

    score: float
    threshold: float
    anomalous: bool
    known: tuple[str, ...]
    learned: bool
    alarm: bool
    state: str
    pattern: int
    flagged: Flagged
    row: Array = field(repr=False, compare=False)
    view: Any = field(repr=False, compare=False)
    basis: Basis = field(repr=False, compare=False)
    time: float | None = None
    event: int | None = None
    excess: int = 0
    raised: float | None = None
    drift: "Drift | None" = None

    def explain(self, k: int = 3) -> list[Cause]:
        """Finds the k features that explain most of the score; values in the row's own units.

        Of a loss that is found when it is asked for, by the model as it is then.
        """
        return explained(self.basis, self.view, self.row, k)


def causes_of(model: Model, x: Array, k: int) -> list[Cause]:
    """Finds the k features that explain most of the score of an input, whole or not."""
    x, view = view_of(model, x)
    return explained(model.basis, view, x, k)


def explained(basis: Basis, view: Any, x: Array, k: int) -> list[Cause]:
    """Finds the k features that explain most of a row's score, by what its model sees."""
    if isinstance(view, Distance):
        return _causes_by_distance(basis, view, x, k)
    causes: list[Cause] = view.causes(basis, x, k)
    return causes


def _causes_by_distance(basis: Basis, distance: Distance, x: Array, k: int) -> list[Cause]:
    """Each feature with all its values in the window, and the one of them that is farthest off."""
    columns = basis.layer.inputs
    size = len(x) // columns
    causes = []
    for column in range(columns):
        block = column + columns * np.arange(size)
        share, expected = distance.explained(x, block)
        off = np.abs(x[block] - expected) / distance.deviation[block]
        worst = size - 1 - int(off[::-1].argmax())
        causes.append((share, column, worst, float(x[block[worst]]), float(expected[worst])))
    causes.sort(key=lambda cause: -cause[0])
    return [
        _cause(basis, column, share, seen, expected, size - 1 - worst)
        for share, column, worst, seen, expected in causes[:k]
    ]


def _cause(
    basis: Basis, column: int, share: float, seen: float, expected: float, ago: int
) -> Cause:
    shift, scale = basis.scaling.units(column)
    seen, expected = float(seen * scale + shift), float(expected * scale + shift)
    return Cause(basis.names[column], float(share), seen, expected, ago)


class Blame:
    """For each feature: how much of the error would go if it alone had another value.

    The error by feature says where the reconstruction is wrong. But one wrong input passes through
    the hidden units and spoils many outputs: a fault in one sensor can show in its neighbours.
    Changing input i by δ changes the residual r by δ·mᵢ, with
    mᵢ = eᵢ − ∂y/∂xᵢ, so the best δ takes (r·mᵢ)² / ‖mᵢ‖² off ‖r‖². Exact with the identity as
    activation, to first order with others. It looks for one culprit, not for a conspiracy.
    """

    def __init__(self, model: OSELM) -> None:
        self._layer = model.basis.hidden
        self._model = model
        self._alpha = self._layer.alpha
        #: The output weights that this speaks of.
        self.beta = model.beta
        self._M = self._responses(np.ones(self._layer.units))

    def causes(self, basis: Basis, x: Array, k: int) -> list[Cause]:
        """Finds the k features whose change helps most, with the value each should have had."""
        y = self._model.predict_one(x)
        M = self._M if self._layer.activation == "identity" else self._responses(self._slopes(x))
        r = np.asarray(x - y, np.float64)
        along, size = M @ r, np.maximum(np.einsum("ij,ij->i", M, M), np.finfo(np.float64).tiny)
        share, expected = along**2 / size / ((r @ r) or 1.0), x - along / size
        columns, last = basis.layer.inputs, len(x) // basis.layer.inputs - 1
        return [
            _cause(
                basis, i % columns, share[i], float(x[i]), float(expected[i]), last - i // columns
            )
            for i in map(int, np.argsort(share)[::-1][:k])
        ]

    def _responses(self, slopes: Array) -> Array:
        """Row i is mᵢ = eᵢ − αᵢ G' β."""
        return np.eye(self._layer.inputs) - (self._alpha * slopes) @ self.beta

    def _slopes(self, x: Array) -> Array:
        """G' at the row, from G itself where it can be."""
        h = self._layer(x)
        return {"sigmoid": h * (1.0 - h), "tanh": 1.0 - h * h, "relu": h > 0.0}[
            self._layer.activation
        ]
