"""Messages of federations in rounds: the task that a server sends, and replies with β and P.

Clients that sum evidence reply with a ``Contribution``, by class with a ``ClassReply``, and in 8
bits β and P travel both ways as a ``CompactModel``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fed_elms import RoundModel, RoundUpdate
from elmgrove.algebra.linalg import mirrored, require_ridge
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN
from elmgrove.errors import BadInput, Mismatch
from elmgrove.federation.contribution import Contribution, require_epoch, require_origin
from elmgrove.rounds.compact import COMPACT_FORMAT, CompactModel
from elmgrove.storage.sealed import format_of, require_written_as, seal, unpacking, unseal

TASK_FORMAT = "elmgrove.task"
UPDATE_FORMAT = "elmgrove.update"
#: Bits of a number in a message: as it is, and in a compact model.
PLAIN, COMPACT = 64, 8


@dataclass(frozen=True)
class Task:
    """What a server asks: to learn with this basis, and in Fed-ELMS from this β and P.

    A client needs no settings of its own. One that learned with another basis before refuses the
    task and names the difference. ``classes`` names the outputs in their order where evidence is
    asked for by class: clients must agree on it.
    """

    federation: str
    basis: Basis
    ridge: float = 1e-3
    model: RoundModel | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_origin(self.federation)
        require_ridge(self.ridge)
        if self.basis.scaling.kind == OWN:
            raise BadInput("a federation in rounds has one scaling for all clients, no own units")
        if self.classes:
            require_classes(self.classes, self.basis)

    def to_bytes(self) -> bytes:
        """Gives the message as it is sent: sealed, with a checksum."""
        return seal(TASK_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "federation": self.federation,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "ridge": self.ridge,
            **({"classes": list(self.classes)} if self.classes else {}),
        }
        return fields, {} if self.model is None else pack_model(self.model)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Task":
        """Makes a task of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        fields, arrays = unseal(TASK_FORMAT, blob)
        with unpacking("a task"):
            basis = Basis.from_fields(fields["basis"])
            model = unpack_model(basis, arrays) if arrays else None
            classes = tuple(fields.get("classes", ()))
            made = cls(fields["federation"], basis, fields["ridge"], model, classes)
            require_written_as(made._packed(), fields, arrays)
        return made


@dataclass(frozen=True)
class Reply:
    """What a client answers that has β and P: its update, its name, the basis it learned with.

    In Fed-ELMS it went on from the server's model. A ``ridge`` says that it did not: that it
    learned its own rows alone, from P = I/λ on, so that there are sums in its β and P.
    """

    #: Whether only its owner may read a new file of it.
    private: ClassVar[bool] = False

    origin: str
    basis: Basis
    update: RoundUpdate
    ridge: float | None = None

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(int(self.update.rows))
        if self.ridge is not None:
            require_ridge(self.ridge)

    @property
    def contribution(self) -> Contribution:
        """What the client learned as sums, U = P⁻¹ − λI and V = P⁻¹β (Ito 2020, §3.2).

        Raises as ``Evidence.from_model`` does, and ``BadInput`` without a ridge: then P and β hold
        what the server sent as well, and others' rows would count again.
        """
        if self.ridge is None:
            raise BadInput(
                f"β and P of {self.origin!r} went on from a server's model, so they are no sums of "
                "its own rows; a client that began with P = I/λ states its ridge λ"
            )
        beta, P, rows = self.update
        evidence = Evidence.from_model(self.basis, P, beta, rows, self.ridge)
        return Contribution(self.origin, int(rows), (evidence,))

    def to_bytes(self) -> bytes:
        """Gives the message as it is sent: sealed, with a checksum."""
        return seal(UPDATE_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "origin": self.origin,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "rows": int(self.update.rows),
            **({} if self.ridge is None else {"ridge": self.ridge}),
        }
        return fields, pack_model(RoundModel(self.update.beta, self.update.P))

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Reply":
        """Makes a reply of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        fields, arrays = unseal(UPDATE_FORMAT, blob)
        with unpacking("an update"):
            basis = Basis.from_fields(fields["basis"])
            beta, P = unpack_model(basis, arrays)
            update = RoundUpdate(beta, P, fields["rows"])
            made = cls(fields["origin"], basis, update, fields.get("ridge"))
            require_written_as(made._packed(), fields, arrays)
        return made


def contribution_from_bytes(blob: bytes) -> Contribution:
    """Reads a contribution, or computes that of a client that replied with β and P.

    Raises ``BadFile`` for anything else, and what ``Reply.contribution`` does.
    """
    if format_of(blob) == UPDATE_FORMAT:
        return Reply.from_bytes(blob).contribution
    return Contribution.from_bytes(blob)


def require_classes(classes: Sequence[str], basis: Basis) -> None:
    """Raises ``BadInput`` unless these can name a basis' outputs, each another one."""
    if not all(isinstance(name, str) for name in classes) or len(set(classes)) != len(classes):
        raise BadInput(f"classes must be different names, not {list(classes)!r:.80}")
    if len(classes) != basis.outputs:
        raise BadInput(f"{len(classes)} classes, where the basis has {basis.outputs} outputs")


def require_same_classes(here: Sequence[str], there: Sequence[str]) -> None:
    """Raises ``Mismatch`` unless both sides mean the same classes in the same order."""
    if tuple(here) != tuple(there):
        raise Mismatch(
            f"classes: {', '.join(here) or 'none'} here, {', '.join(there) or 'none'} there; "
            "name the same ones in the same order"
        )


def pack_model(model: RoundModel) -> dict[str, Array]:
    """Gives β, and of P, which is symmetric, the upper triangle."""
    return {"beta": model.beta, "P": model.P[np.triu_indices(len(model.P))]}


def unpack_model(basis: Basis, arrays: Mapping[str, Array]) -> RoundModel:
    """Makes a model of what ``pack_model`` gave; ``BadInput`` unless finite and of this basis."""
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


def require_bits(bits: int) -> None:
    """Raises ``BadInput`` unless messages can be of that width."""
    if bits not in (PLAIN, COMPACT):
        raise BadInput(f"bits must be {COMPACT} or {PLAIN}, not {bits}")


def model_of(request: bytes) -> tuple[Basis, RoundModel]:
    """Gives what a client of Fed-ELMS learns with and from: the basis, β and P of its request."""
    if format_of(request) == COMPACT_FORMAT:
        small = CompactModel.from_bytes(request)
        return small.basis, small.state
    task = Task.from_bytes(request)
    if task.model is None:
        raise BadInput("a task without β and P is not one of Fed-ELMS")
    return task.basis, task.model
