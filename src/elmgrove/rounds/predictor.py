"""The model that a federation with a target ends with: of which columns, projected or not."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from elmgrove.algebra.basis import Basis, Categories, Words, fixed_words, word_of
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array, Rows
from elmgrove.algebra.scaling import Scaling
from elmgrove.errors import BadInput
from elmgrove.reading.cells import number
from elmgrove.reading.table import ColumnCells
from elmgrove.rounds.evaluation import GlobalModel
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal


@dataclass(frozen=True)
class Target:
    """A column to predict: with ``classes`` an output for each of them, without a number.

    Numbers are learned as (y - mean) / unit, so that the ridge pulls towards their mean, and
    predicted as they are written. A class is a word, or a number written as a word.

    >>> Target("mode", ("off", "on")).decoded(np.array([[0.2, 0.7], [0.9, 0.1]]))
    ['on', 'off']
    >>> Target("heat", mean=20.0, unit=5.0).decoded(np.array([[0.0], [2.0]]))
    [20.0, 30.0]
    """

    column: str
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    unit: float = 1.0

    def __post_init__(self) -> None:
        if len(self.classes) == 1:
            raise BadInput(f"every {self.column!r} is {self.classes[0]!r}: nothing to tell apart")
        if len(self.classes) > 1000:
            raise BadInput(
                f"{self.column!r} has {len(self.classes)} different values, more than the "
                "1000 classes that a model may have"
            )
        if list(self.classes) != sorted(set(self.classes)):
            raise BadInput("classes must be sorted, and each there once")
        if not (np.isfinite(self.mean) and 0.0 < self.unit < np.inf):
            raise BadInput(f"a mean of {self.mean} in units of {self.unit} is no scale of numbers")

    def fitted(self, T: Array) -> "Target":
        """The target with the mean and deviation of numbers like these; constant ones keep 1."""
        if self.classes:
            return self
        return replace(self, mean=float(T.mean()), unit=float(T.std()) or 1.0)

    def scaled(self, T: Array) -> Array:
        return T if self.classes else (T - self.mean) / self.unit

    @property
    def outputs(self) -> int:
        return len(self.classes) or 1

    def fits(self, cells: Array, decimal: str = ".") -> Array:
        """Whether each cell is one of the classes, or a finite number."""
        return np.array([self._read(cell, decimal) is not None for cell in cells], bool)

    def coded(self, column: ColumnCells, decimal: str = ".") -> Array:
        """A 1 for the class of each cell, or its number; ``BadInput`` names one without."""
        found = [self._read(cell, decimal) for cell in column.cells]
        if None in found:
            place = found.index(None)
            raise BadInput(f"{column.where(place)}: {self._refusal(column.cells[place])}")
        if not self.classes:
            return np.array(found, np.float64).reshape(-1, 1)
        one_hot = np.zeros((len(found), len(self.classes)))
        one_hot[np.arange(len(found)), np.array(found, np.intp)] = 1.0
        return one_hot

    def decoded(self, outputs: Array) -> list[str] | list[float]:
        """The class of the largest output of each row, or its number."""
        if self.classes:
            return [self.classes[winner] for winner in outputs.argmax(axis=1)]
        numbers: list[float] = (outputs[:, 0] * self.unit + self.mean).tolist()
        return numbers

    def _read(self, cell: Any, decimal: str) -> float | None:
        """The place of a class, or the number; None if it is neither."""
        value = number(cell, decimal)
        if not self.classes:
            return value if value is not None and np.isfinite(value) else None
        # 3.0 is the class 3, unless there is a class that is written so.
        words = (word_of(cell), *([] if value is None else [word_of(value)]))
        return next((float(self._places[word]) for word in words if word in self._places), None)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.classes)}

    def _refusal(self, cell: Any) -> str:
        if not self.classes:
            return f"{cell!r:.60} is not a finite number"
        some = ", ".join(self.classes[:10]) + (", …" if len(self.classes) > 10 else "")
        return f"no client has rows of the class {word_of(cell)!r:.60} (classes: {some})"

    @property
    def fields(self) -> dict[str, Any]:
        return asdict(self) | {"classes": list(self.classes)}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Target":
        return cls(**{**fields, "classes": tuple(fields["classes"])})


@dataclass(frozen=True, eq=False)
class Projection:
    """Principal components of columns, which are scaled before; the components are not.

    ``features`` and ``categories`` are those of the columns, and ``axes`` has a row for each of
    them and a column for each component.
    """

    features: tuple[str, ...] | None
    categories: Words
    scaling: Scaling
    mean: Array
    axes: Array

    @classmethod
    def fitted(
        cls,
        X: Array,
        features: Sequence[str] | None,
        categories: Categories,
        *,
        scaling: str,
        variance: float,
    ) -> "Projection":
        """Keeps the fewest components of these rows that have this share of their variance."""
        if not 0.0 < variance <= 1.0:
            raise BadInput(f"the variance to keep is a share above 0, up to 1, not {variance:g}")
        fixed = Scaling.fitted(scaling, X)
        Z = fixed(X)
        variances, axes = np.linalg.eigh(np.atleast_2d(np.cov(Z, rowvar=False)))
        # eigh begins with the smallest.
        shares = np.cumsum(variances[::-1]) / max(variances.sum(), np.finfo(float).tiny)
        count = min(int(np.searchsorted(shares, variance)) + 1, len(shares))
        kept = axes[:, ::-1][:, :count]
        # An axis may point either way; here its largest entry is positive, on every platform.
        kept = kept * np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(count)])
        names = None if features is None else tuple(features)
        return cls(names, fixed_words(categories), fixed, Z.mean(axis=0), kept)

    def __post_init__(self) -> None:
        if self.axes.ndim != 2 or self.mean.shape != (len(self.axes),):
            raise BadInput(f"axes of {self.axes.shape} don't fit a mean of {self.mean.shape}")
        numbers = (self.mean, self.axes)
        if not all(one.dtype == np.float64 and np.isfinite(one).all() for one in numbers):
            raise BadInput("a mean and axes must be finite numbers in float64")
        scaled = len(self.scaling.shift)
        if scaled and scaled != self.columns:
            raise BadInput(f"scaling of {scaled} columns, where there are {self.columns}")

    @property
    def columns(self) -> int:
        return len(self.axes)

    @property
    def components(self) -> int:
        return int(self.axes.shape[1])

    def __call__(self, X: Array) -> Array:
        return (self.scaling(X) - self.mean) @ self.axes

    def packed(self) -> Packed:
        fields = {
            "features": None if self.features is None else list(self.features),
            "categories": {name: list(words) for name, words in self.categories},
            "scaling": self.scaling.fields,
        }
        return fields, {"mean": self.mean, "axes": self.axes}

    @classmethod
    def unpacked(
        cls, fields: Mapping[str, Any] | None, arrays: Mapping[str, Array]
    ) -> "Projection | None":
        if fields is None:
            return None
        features, words = fields["features"], fixed_words(fields["categories"])
        scaling = Scaling.from_fields(fields["scaling"])
        names = None if features is None else tuple(features)
        return cls(names, words, scaling, arrays["mean"], arrays["axes"])


PREDICTOR_FORMAT = "elmgrove.predictor"


@dataclass(frozen=True, eq=False)
class Predictor:
    """Predict a class or a number for each row, with the model of a federation or of a group.

    There is one model, or one for each group, in the order in which a round's evaluation has them.
    Which group a new row belongs to nobody can tell: unless one is chosen, that with the most rows
    answers. With a ``projection`` the basis is that of its components. ``layout`` is how the rows
    were written, for a command that reads others like them.
    """

    #: Whether only its owner may read a new file of it.
    private: ClassVar[bool] = False

    basis: Basis
    target: Target
    models: tuple[GlobalModel, ...]
    layout: Mapping[str, Any] = field(default_factory=dict)
    projection: Projection | None = None

    def __post_init__(self) -> None:
        shape = self.basis.layer.units, self.target.outputs
        if self.basis.outputs != self.target.outputs or self.basis.window != 1:
            raise BadInput(f"a basis with {self.basis.outputs} outputs does not fit the target")
        if not self.models:
            raise BadInput("a predictor needs a model")
        for beta, rows in self.models:
            if beta.shape != shape or beta.dtype != np.float64 or not np.isfinite(beta).all():
                raise BadInput(f"β must be {shape[0]} × {shape[1]} finite numbers in float64")
            if not 0.0 < rows < np.inf:
                raise BadInput(f"a model of {rows!r} rows")
        if self.projection is not None and self.projection.components != self.basis.columns:
            raise BadInput(
                f"{self.projection.components} components, where {self.basis.columns} were learned"
            )

    @property
    def reads(self) -> Basis | Projection:
        """What names the columns of rows to predict."""
        return self.basis if self.projection is None else self.projection

    def inputs(self, X: Any) -> Array:
        X, _ = Rows(self.reads.columns).many(X)
        inputs: Array = X if self.projection is None else self.projection(X)
        return inputs

    @property
    def largest(self) -> int:
        return int(np.argmax([model.rows for model in self.models]))

    def predict(self, X: Any, model: int | None = None) -> list[str] | list[float]:
        """The class or the number of each row, by the model at a place."""
        beta = self.models[self.largest if model is None else model].beta
        outputs: Array = self.basis.layer(self.basis.scaling(self.inputs(X))) @ beta
        return self.target.decoded(outputs)

    def to_bytes(self) -> bytes:
        return seal(PREDICTOR_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields: dict[str, Any] = {
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "target": self.target.fields,
            "rows": [model.rows for model in self.models],
            "layout": dict(self.layout),
        }
        arrays = {f"beta.{i}": model.beta for i, model in enumerate(self.models)}
        if self.projection is not None:
            fields["projection"], more = self.projection.packed()
            arrays |= more
        return fields, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Predictor":
        fields, arrays = unseal(PREDICTOR_FORMAT, blob)
        with unpacking("a predictor"):
            made = cls(
                Basis.from_fields(fields["basis"]),
                Target.from_fields(fields["target"]),
                tuple(
                    GlobalModel(arrays[f"beta.{i}"], rows) for i, rows in enumerate(fields["rows"])
                ),
                fields["layout"],
                Projection.unpacked(fields.get("projection"), arrays),
            )
            require_written_as(made._packed(), fields, arrays)
        return made
