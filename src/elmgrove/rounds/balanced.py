"""The rule of balanced sums: evidence by class, in which each class counts alike; and its client.

The message between the two names the classes whose rows it holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.classes import ClassEvidence
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Packed, pack_part, unpack_part
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput
from elmgrove.federation.charter import require_addable
from elmgrove.federation.contribution import require_origin
from elmgrove.federation.merged import Merged
from elmgrove.rounds.clients import PairsByRound, SummedClient
from elmgrove.rounds.messages import Task, require_classes, require_same_classes
from elmgrove.rounds.rules import RoundRule, require_sender
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal

#: The format of the bytes of evidence by class.
CLASSES_FORMAT = "elmgrove.classes"


@dataclass(frozen=True)
class ClassReply:
    """What a client answers that keeps evidence by class: of each class that it has rows of.

    ``classes`` names the outputs in their order, so that both sides can tell that they mean the
    same by them. A class without rows takes no bytes.
    """

    #: Whether only its owner may read a new file of it.
    private: ClassVar[bool] = False

    origin: str
    classes: tuple[str, ...]
    evidence: ClassEvidence

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_classes(self.classes, self.evidence.basis)

    @property
    def rows(self) -> float:
        """The rows of all classes together."""
        return float(self.evidence.counts.sum())

    def to_bytes(self) -> bytes:
        """Gives the message as it is sent: sealed, with a checksum."""
        return seal(CLASSES_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        basis = self.evidence.basis
        fields = {
            "origin": self.origin,
            "basis": basis.fields,
            "fingerprint": basis.fingerprint,
            "classes": list(self.classes),
        }
        held, arrays = dict[str, Any](), dict[str, Array]()
        for place, (name, part) in enumerate(zip(self.classes, self.evidence.parts, strict=True)):
            if part.count:
                held[name], more = pack_part(f"class.{place}", part)
                arrays |= more
        return fields | {"held": held}, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "ClassReply":
        """Makes a reply of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        fields, arrays = unseal(CLASSES_FORMAT, blob)
        with unpacking("evidence by class"):
            basis, held = Basis.from_fields(fields["basis"]), fields["held"]
            require_classes(fields["classes"], basis)
            parts = tuple(
                unpack_part(basis, f"class.{place}", held[name], arrays)
                if name in held
                else Evidence.zero(basis)
                for place, name in enumerate(fields["classes"])
            )
            made = cls(fields["origin"], tuple(fields["classes"]), ClassEvidence(parts))
            require_written_as(made._packed(), fields, arrays)
        return made


class BalancedSumRule(RoundRule[ClassReply]):
    """Adds up evidence class by class, and weighs classes so that all count alike.

    A row of class c weighs N/(C·N_c) by the counts of all clients together: so the result is exact,
    that of all rows in one place with these weights, however classes and rows are spread. It is
    for classes that are learned from unequal numbers of rows and matter alike. Where a class is as
    frequent in use as it was in learning, ``SumRule`` makes fewer mistakes.

    As there, a client's newer reply replaces its older one. A reply takes as many times the bytes
    of a plain sum as the client has classes; what comes back takes as many as one.
    """

    def __init__(
        self, name: str, basis: Basis, classes: Sequence[str], ridge: float = 1e-3
    ) -> None:
        super().__init__(name, basis, ridge)
        require_classes(classes, basis)
        self.task = replace(self.task, classes=tuple(classes))
        self._newest = dict[str, ClassReply]()

    def read(self, origin: str, reply: bytes) -> ClassReply | None:
        """Opens evidence by class.

        Raises ``Mismatch``, ``NotAdmissible``, ``BadInput`` or ``BadFile`` if it can't be used.
        """
        if not reply:
            return None
        opened = ClassReply.from_bytes(reply)
        require_sender(origin, opened.origin)
        require_same_classes(self.task.classes, opened.classes)
        for place, part in enumerate(opened.evidence.parts):
            what = f"the evidence of class {opened.classes[place]!r} of {origin!r}"
            require_addable(self.basis, part, what)
            # Targets are 1 in the column of their class alone.
            if np.delete(part.V, place, axis=1).any():
                raise BadInput(f"{what} holds rows of another class")
        return opened if opened.rows > 0.0 else None

    def combine(self, replies: Sequence[ClassReply]) -> None:
        """Keeps the newest reply of each client: the one with the most rows."""
        for reply in replies:
            held = self._newest.get(reply.origin)
            if held is None or reply.rows > held.rows:
                self._newest[reply.origin] = reply

    @property
    def evidence(self) -> ClassEvidence:
        """The sums over all clients, by class, added up in the order of the names."""
        held = (self._newest[origin].evidence for origin in sorted(self._newest))
        return ClassEvidence.sum((ClassEvidence.zero(self.basis), *held))

    def gift(self, origin: str) -> bytes:
        """Gives the balanced sum over all clients, the one that asks among them."""
        return self._balanced().to_bytes()

    def merged(self) -> Merged:
        """Gives the balanced sum over all clients; ``BadInput`` if no client ever answered."""
        if not self._newest:
            raise BadInput("no client answered, so there is no model")
        return self._balanced()

    def _balanced(self) -> Merged:
        devices = len(self._newest)
        return Merged(self.task.federation, self.rounds, devices, (self.evidence.balanced,))


class BalancedSumClient(SummedClient[ClassReply]):
    """Contributes evidence by class, for targets with a 1 in the column of their class.

    ``classes`` names the columns; a task that names others, or in another order, is refused. Its
    memory is its last reply.
    """

    def __init__(
        self, name: str, pairs: PairsByRound, classes: Sequence[str], *, memory: bytes = b""
    ) -> None:
        super().__init__(name, pairs, ClassReply.from_bytes(memory) if memory else None)
        self._classes = tuple(classes)

    def rows_of(self, reply: ClassReply) -> int:
        """Counts the rows of all classes."""
        return int(reply.rows)

    def extended(self, task: Task, X: Array, T: Array) -> ClassReply:
        """Adds the rows to the evidence of their classes."""
        require_same_classes(self._classes, task.classes)
        new = ClassEvidence.of(task.basis, X, T)
        whole = new if self.last is None else self.last.evidence + new
        return ClassReply(self.name, self._classes, whole)

    def own(self, reply: ClassReply) -> None:
        """Gives nothing: a gift is the balanced sum over all clients."""
