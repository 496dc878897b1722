"""Predictors: what a federation with a target ends with, as a file that can be used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from elmgrove.algebra import Array, Basis, Packed, Rows
from elmgrove.errors import BadInput
from elmgrove.rounds.evaluation import GlobalModel
from elmgrove.rounds.target import Target
from elmgrove.storage import require_written_as, seal, unpacking, unseal

#: The format of a predictor's bytes.
PREDICTOR_FORMAT = "elmgrove.predictor"


@dataclass(frozen=True, eq=False)
class Predictor:
    """Predicts a class or a number for each row, with the model of a federation or of a group.

    There is one model, or one for each group, in the order in which a round's evaluation has them.
    Which group a new row belongs to nobody can tell: unless one is chosen, that with the most rows
    answers. ``layout`` is how the rows were written, for a command that reads others like them.
    """

    #: Whether only its owner may read a new file of it.
    private: ClassVar[bool] = False

    basis: Basis
    target: Target
    models: tuple[GlobalModel, ...]
    layout: Mapping[str, Any] = field(default_factory=dict)

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

    @property
    def largest(self) -> int:
        """The place of the model that most rows went into."""
        return int(np.argmax([model.rows for model in self.models]))

    def predict(self, X: Any, model: int | None = None) -> list[str] | list[float]:
        """Gives the class or the number of each row, by the model at a place."""
        X, _ = Rows(self.basis.layer.inputs, np.float64).many(X)
        beta = self.models[self.largest if model is None else model].beta
        outputs: Array = self.basis.layer(self.basis.scaling(X)) @ beta
        return self.target.told(outputs)

    def to_bytes(self) -> bytes:
        """Gives the file: sealed, with a checksum."""
        return seal(PREDICTOR_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "target": self.target.fields,
            "rows": [model.rows for model in self.models],
            "layout": dict(self.layout),
        }
        return fields, {f"beta.{i}": model.beta for i, model in enumerate(self.models)}

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Predictor":
        """Makes a predictor of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        fields, arrays = unseal(PREDICTOR_FORMAT, blob)
        with unpacking("a predictor"):
            made = cls(
                Basis.from_fields(fields["basis"]),
                Target.from_fields(fields["target"]),
                tuple(
                    GlobalModel(arrays[f"beta.{i}"], rows) for i, rows in enumerate(fields["rows"])
                ),
                fields["layout"],
            )
            require_written_as(made._packed(), fields, arrays)
        return made
