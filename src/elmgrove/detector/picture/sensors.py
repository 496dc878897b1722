"""What a picture shows of sensors: what was seen, and what was expected by all others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from elmgrove.algebra import Array, Basis, Distance
from elmgrove.detector.model import Model
from elmgrove.detector.verdict import Cause, explained


class Expected(NamedTuple):
    """What a sensor should have shown at some places, and how far it usually is from there.

    Both are NaN where nobody knows.
    """

    value: Array
    deviation: Array


class Sensors(Protocol):
    """The sensors of a course, by name."""

    def causes(self, places: Sequence[int]) -> list[list[Cause]]:
        """Finds what explains the rows at these places, most first."""
        ...

    def values(self, name: str) -> Array:
        """Gives what a sensor has shown, at each place; NaN where nobody told."""
        ...

    def expected(self, name: str, places: Array) -> Expected:
        """Gives what a sensor should have shown at these places."""
        ...


class InputSensors:
    """Sensors of inputs that a model explains.

    ``last`` are the rows that inputs end with, as the model is given them; ``inputs`` gives the
    inputs at some places, and ``whole`` marks the places at which there is one.
    """

    def __init__(
        self, model: Model, last: Array, whole: Array, inputs: Callable[[Array], Array]
    ) -> None:
        self._model, self._basis = model, model.basis
        self._last, self._whole, self._inputs = last, whole, inputs

    def causes(self, places: Sequence[int]) -> list[list[Cause]]:
        """Finds what explains the inputs at these places; nothing where there is none."""
        return [self._causes(place) if self._whole[place] else [] for place in places]

    def values(self, name: str) -> Array:
        """Gives what a sensor has shown, in its own units."""
        column = self._basis.names.index(name)
        return _unscaled(self._basis, column, self._last[:, column])

    def expected(self, name: str, places: Array) -> Expected:
        """Gives what a sensor should have shown, by all other sensors of the input."""
        column = self._basis.names.index(name)
        value, deviation = np.full(len(places), np.nan), np.full(len(places), np.nan)
        there = np.flatnonzero(self._whole[places])
        X = self._inputs(places[there])
        for view, group in self._views(X):
            at = there[group]
            if isinstance(view, Distance):
                value[at], deviation[at] = self._by_distance(view, X[group], column)
            else:
                value[at] = [self._by_loss(view, x, column) for x in X[group]]
        _, scale = _units(self._basis, column)
        return Expected(_unscaled(self._basis, column, value), deviation * scale)

    def _causes(self, place: int) -> list[Cause]:
        [x] = self._inputs(np.array([place]))
        return explained(self._basis, self._model.explainer(x)[1], x, self._basis.layer.inputs)

    def _views(self, X: Array) -> Iterable[tuple[object, list[int]]]:
        """What explains these inputs, each with the places of those that it explains."""
        found = {}
        groups = defaultdict(list)
        for place, x in enumerate(X):
            view = self._model.explainer(x)[1]
            found[id(view)] = view
            groups[id(view)].append(place)
        return [(found[key], group) for key, group in groups.items()]

    def _by_distance(self, view: Distance, X: Array, column: int) -> tuple[Array, float]:
        columns = self._basis.layer.inputs
        block = column + columns * np.arange(self._basis.window)
        expected, deviation = view.expected(X, block)
        return expected[:, -1], float(deviation[-1])

    def _by_loss(self, view: object, x: Array, column: int) -> float:
        shift, scale = _units(self._basis, column)
        name = self._basis.names[column]
        causes = explained(self._basis, view, x, self._basis.inputs)
        [value] = [one.expected for one in causes if one.feature == name and not one.ago]
        return (value - shift) / scale


class ToldSensors:
    """Sensors of which only causes are known: those that verdicts named."""

    def __init__(self, causes: Sequence[Sequence[Cause]]) -> None:
        self._told = causes

    def causes(self, places: Sequence[int]) -> list[list[Cause]]:
        """Gives what was told of the rows at these places."""
        return [list(self._told[place]) for place in places]

    def values(self, name: str) -> Array:
        """Gives what was told of a sensor, and NaN where nothing was."""
        return self._filled(name, "seen")

    def expected(self, name: str, places: Array) -> Expected:
        """Gives what was expected where it was told; usual distances never are."""
        return Expected(self._filled(name, "expected")[places], np.full(len(places), np.nan))

    def _filled(self, name: str, field: str) -> Array:
        values = np.full(len(self._told), np.nan)
        for place, causes in enumerate(self._told):
            for one in causes:
                if one.feature == name and place >= one.ago:
                    values[place - one.ago] = getattr(one, field)
        return values


def _units(basis: Basis, column: int) -> tuple[float, float]:
    scaling = basis.scaling
    return (0.0, 1.0) if scaling.kind == "none" else (scaling.shift[column], scaling.scale[column])


def _unscaled(basis: Basis, column: int, values: Array) -> Array:
    shift, scale = _units(basis, column)
    return np.asarray(values, np.float64) * scale + shift
