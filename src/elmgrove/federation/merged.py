"""A merged sum: what all others of a federation learned, as one."""

from dataclasses import dataclass

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
    """The sum over a federation's devices, but for the one it is meant for.

    It costs the same however many devices there are, and tells nothing of each. ``revision``
    numbers the states of the federation; ``devices`` says how many are in the sum. ``groups`` are
    the sums over what is of one kind, where somebody told the kinds apart. ``grouped`` is set where
    an exchange did, by that distance, and then only what comes back to the device is in it.
    """

    federation: str
    revision: int
    devices: int
    evidence: Evidence
    groups: tuple[Evidence, ...] = ()
    grouped: str | None = None

    def __post_init__(self) -> None:
        require_origin(self.federation)
        require_epoch(self.revision)
        require_epoch(self.devices)
        if self.groups and Evidence.sum(self.groups) != self.evidence:
            raise BadInput("the groups do not make up the sum")
        if self.grouped is not None:
            require_distance(self.grouped)

    @property
    def kinds(self) -> tuple[Evidence, ...]:
        """What a model rests on: each group, or the sum where there are none."""
        return self.groups or ((self.evidence,) if self.devices else ())

    def to_bytes(self) -> bytes:
        """The format in which a server sends it."""
        return seal(MERGED_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "federation": self.federation,
            "revision": self.revision,
            "devices": self.devices,
            "basis": self.evidence.basis.fields,
            **({} if self.grouped is None else {"grouped": self.grouped}),
        }
        if not self.groups:
            numbers, arrays = pack_evidence(self.evidence)
            return fields | numbers, arrays
        parts, arrays = pack_parts("group", self.groups)
        return fields | {"groups": parts}, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Merged":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(MERGED_FORMAT, blob)
        with unpacking("a merged sum"):
            basis = Basis.from_fields(fields["basis"])
            if "groups" in fields:
                groups = unpack_parts(basis, "group", fields["groups"], arrays)
                evidence = Evidence.sum(groups)
            else:
                evidence, groups = unpack_evidence(basis, fields, arrays), ()
            known = fields["federation"], fields["revision"], fields["devices"]
            made = cls(*known, evidence, groups, fields.get("grouped"))
            require_written_as(made._packed(), fields, arrays)
        return made
