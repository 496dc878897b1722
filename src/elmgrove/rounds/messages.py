"""A task: what the server of a federation in rounds asks of its clients."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Array, Basis, Packed, RoundModel, RoundUpdate, mirrored, require_ridge
from elmgrove.errors import BadInput
from elmgrove.federation import (
    require_epoch,
    require_origin,
    require_written_as,
    seal,
    unpacking,
    unseal,
)


def pack_model(model: RoundModel) -> dict[str, Array]:
    """β, and P's upper triangle: P is symmetric."""
    return {"beta": model.beta, "P": model.P[np.triu_indices(len(model.P))]}


def unpack_model(basis: Basis, arrays: Mapping[str, Array]) -> RoundModel:
    """The inverse of ``pack_model``; ``BadInput`` unless it fits the basis and is finite."""
    units = basis.layer.units
    beta, upper = arrays["beta"], arrays["P"]
    # Before anything of that size is made: the numbers may come from a stranger.
    if beta.shape != (units, basis.outputs) or upper.shape != (units * (units + 1) // 2,):
        raise BadInput(f"β {beta.shape} and P {upper.shape} do not fit {units} hidden units")
    if not all(part.dtype == np.float64 and np.isfinite(part).all() for part in (beta, upper)):
        raise BadInput("β and P must be finite numbers in float64")
    P = np.zeros((units, units))
    P[np.triu_indices(units)] = upper
    return RoundModel(beta, mirrored(P))


UPDATE_FORMAT = "elmgrove.update"


@dataclass(frozen=True)
class Reply:
    """An update with the name of the client that it comes from, and what it was learned with."""

    origin: str
    basis: Basis
    update: RoundUpdate

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(int(self.update.rows))

    def to_bytes(self) -> bytes:
        """As it is sent: sealed and checksummed."""
        return seal(UPDATE_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "origin": self.origin,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "rows": int(self.update.rows),
        }
        return fields, pack_model(RoundModel(self.update.beta, self.update.P))

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Reply":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(UPDATE_FORMAT, blob)
        with unpacking("an update"):
            basis = Basis.from_fields(fields["basis"])
            update = RoundUpdate(*unpack_model(basis, arrays), fields["rows"])
            made = cls(fields["origin"], basis, update)
            require_written_as(made._packed(), fields, arrays)
        return made


TASK_FORMAT = "elmgrove.task"


@dataclass(frozen=True)
class Task:
    """The basis to learn with, so that a client needs no settings; in Fed-ELMS also β and P.

    A client that learned with another basis before refuses it and names the difference.
    """

    federation: str
    basis: Basis
    ridge: float = 1e-3
    model: RoundModel | None = None

    def __post_init__(self) -> None:
        require_origin(self.federation)
        require_ridge(self.ridge)

    def to_bytes(self) -> bytes:
        """As it is sent: sealed and checksummed."""
        return seal(TASK_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "federation": self.federation,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "ridge": self.ridge,
        }
        return fields, {} if self.model is None else pack_model(self.model)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Task":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(TASK_FORMAT, blob)
        with unpacking("a task"):
            basis = Basis.from_fields(fields["basis"])
            model = unpack_model(basis, arrays) if arrays else None
            made = cls(fields["federation"], basis, fields["ridge"], model)
            require_written_as(made._packed(), fields, arrays)
        return made
