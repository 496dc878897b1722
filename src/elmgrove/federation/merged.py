"""Merged: one sum over the other devices, or one for each group of them."""

from dataclasses import dataclass
from functools import cached_property

from elmgrove.algebra import (
    Basis,
    Evidence,
    Packed,
    pack_evidence,
    pack_parts,
    unpack_evidence,
    unpack_parts,
)
from elmgrove.errors import BadInput
from elmgrove.federation.entries import require_epoch, require_origin
from elmgrove.federation.groups import require_distance
from elmgrove.federation.sealed import require_written_as, seal, unpacking, unseal

MERGED_FORMAT = "elmgrove.merged"


@dataclass(frozen=True)
class Merged:
    """What all devices of a federation know together, without the one that it is meant for.

    It costs the same however many devices there are, and tells nothing of each. ``revision``
    numbers the states of the federation; ``devices`` says how many are in the sum. ``parts`` is
    the sum alone or, where patterns were told ``apart``, the sum of each group of them.
    ``grouped`` names the distance by which an exchange told them apart; then only what comes back
    to the device is in it.
    """

    federation: str
    revision: int
    devices: int
    parts: tuple[Evidence, ...]
    grouped: str | None = None
    apart: bool = False

    def __post_init__(self) -> None:
        require_origin(self.federation)
        require_epoch(self.revision)
        require_epoch(self.devices)
        if not self.parts or (len(self.parts) > 1 and not self.apart):
            raise BadInput("a merged sum is one part, or several that were told apart")
        if self.grouped is not None:
            require_distance(self.grouped)

    @cached_property
    def evidence(self) -> Evidence:
        """The sum of all parts."""
        return self.parts[0] if len(self.parts) == 1 else Evidence.sum(self.parts)

    @property
    def received(self) -> tuple[Evidence, ...]:
        """What a model rests on: the parts, or nothing where no other device is in them."""
        return self.parts if self.apart or self.devices else ()

    def to_bytes(self) -> bytes:
        """Seals it in the format in which a server sends it."""
        return seal(MERGED_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "federation": self.federation,
            "revision": self.revision,
            "devices": self.devices,
            "basis": self.parts[0].basis.common.fields,
            **({} if self.grouped is None else {"grouped": self.grouped}),
        }
        if not self.apart:
            numbers, arrays = pack_evidence(self.parts[0])
            return fields | numbers, arrays
        groups, arrays = pack_parts("group", self.parts)
        return fields | {"groups": groups}, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Merged":
        """Reads what ``to_bytes`` wrote; ``BadFile`` for anything else."""
        fields, arrays = unseal(MERGED_FORMAT, blob)
        with unpacking("a merged sum"):
            basis = Basis.from_fields(fields["basis"])
            apart = "groups" in fields
            made = cls(
                fields["federation"],
                fields["revision"],
                fields["devices"],
                unpack_parts(basis, "group", fields["groups"], arrays)
                if apart
                else (unpack_evidence(basis, fields, arrays),),
                fields.get("grouped"),
                apart,
            )
            require_written_as(made._packed(), fields, arrays)
        return made
