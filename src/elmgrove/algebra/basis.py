"""The basis: what must be equal before two pieces of evidence may be added."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.fingerprint import differences, fingerprint
from elmgrove.algebra.layer import HiddenLayer, suggested_units
from elmgrove.algebra.scaling import Scaling
from elmgrove.errors import BadInput, Mismatch, require_whole


@dataclass(frozen=True)
class Basis:
    """The layer, the number of outputs, the names of the features and their scaling.

    Two pieces of evidence may be added exactly when their bases are equal.
    """

    layer: HiddenLayer
    outputs: int
    features: tuple[str, ...] | None = None
    scaling: Scaling = field(default_factory=Scaling)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", require_whole("outputs", self.outputs, 1))
        if self.features is not None and len(self.features) != self.layer.inputs:
            raise BadInput(
                f"{len(self.features)} feature names for {self.layer.inputs} inputs of the layer"
            )
        if not all(isinstance(name, str) for name in self.features or ()):
            raise BadInput("the names of features must be text")
        if self.scaling.kind != "none" and len(self.scaling.shift) != self.layer.inputs:
            raise BadInput(
                f"scaling of {len(self.scaling.shift)} columns for "
                f"{self.layer.inputs} inputs of the layer"
            )

    @classmethod
    def fitted(
        cls,
        rows: NDArray[np.float64],
        names: Sequence[str] | None,
        *,
        scaling: str,
        units: int | None = None,
        **layer: Any,
    ) -> "Basis":
        """Makes a detector's basis for rows like these; ``layer`` holds settings of the layer."""
        inputs = rows.shape[1]
        made = HiddenLayer(inputs, units or suggested_units(inputs), **layer)
        features = None if names is None else tuple(names)
        return cls(made, inputs, features, Scaling.fitted(scaling, rows))

    @property
    def fields(self) -> dict[str, Any]:
        """The basis as JSON holds it."""
        return {
            "layer": self.layer.fields,
            "outputs": self.outputs,
            "features": None if self.features is None else list(self.features),
            "scaling": self.scaling.fields,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Basis":
        """Makes a basis of what ``fields`` gave."""
        features = fields["features"]
        if features is not None and not isinstance(features, list):
            raise BadInput(f"features must be a list of names or null, not {features!r:.60}")
        return cls(
            HiddenLayer(**fields["layer"]),
            fields["outputs"],
            None if features is None else tuple(features),
            Scaling.from_fields(fields["scaling"]),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A short text that is equal exactly when the bases are; part of every message."""
        return fingerprint(self.fields)

    def require(self, other: "Basis") -> None:
        """Raises ``Mismatch``, with each field that differs, unless the two are equal."""
        if self is other or self.fingerprint == other.fingerprint:
            return
        lines = "\n  ".join(differences(self.fields, other.fields))
        raise Mismatch(
            "can't merge what was learned in different ways "
            f"({self.fingerprint[:8]} here, {other.fingerprint[:8]} there):\n  {lines}"
        )
