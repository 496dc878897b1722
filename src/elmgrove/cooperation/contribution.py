"""A contribution: one device's own evidence, on its way to others."""

from dataclasses import dataclass
from typing import Any

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.packing import (
    Array,
    Packed,
    pack_evidence,
    pack_parts,
    unpack_evidence,
    unpack_parts,
)
from elmgrove.codec import require_written_as, seal, unpacking, unseal
from elmgrove.cooperation.origin import require_epoch, require_origin
from elmgrove.detector.mixture.pattern import MOST_PARTS
from elmgrove.errors import BadInput

KIND = "elmgrove.evidence"


@dataclass(frozen=True)
class Contribution:
    """Evidence with the name of the device it comes from and how far that device was.

    Of two contributions of one origin the one with the higher epoch is the newer. The epoch is
    the number of rows the device had learned, plus a lead: a device that finds a newer version
    of itself in the world (its state was lost or restored) takes the lead over that one.

    A device with several patterns contributes one evidence for each, in one message, so that
    all are replaced at once; ``evidence`` is their sum.
    """

    origin: str
    epoch: int
    evidence: Evidence
    patterns: tuple[Evidence, ...] = ()

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(self.epoch)
        if self.patterns and (
            not 2 <= len(self.patterns) <= MOST_PARTS
            or Evidence.sum(self.patterns) != self.evidence
        ):
            raise BadInput(f"patterns are 2 to {MOST_PARTS} parts that make up the evidence")

    @property
    def kinds(self) -> tuple[Evidence, ...]:
        """The evidence of each pattern; of the only one where there are no several."""
        return self.patterns or (self.evidence,)

    def to_bytes(self) -> bytes:
        """The file format of evidence to give away."""
        return seal(KIND, *self._packed())

    def _packed(self) -> Packed:
        basis = self.evidence.basis
        fields = {
            "origin": self.origin,
            "epoch": self.epoch,
            "basis": basis.fields,
            "fingerprint": basis.fingerprint,
        }
        if not self.patterns:
            numbers, arrays = pack_evidence(self.evidence)
            return fields | numbers, arrays
        parts, arrays = pack_parts("pattern", self.patterns)
        return fields | {"patterns": parts}, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Contribution":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(KIND, blob)
        with unpacking("evidence"):
            kinds = _kinds(Basis.from_fields(fields["basis"]), fields, arrays)
            evidence, patterns = (kinds[0], ()) if len(kinds) == 1 else (Evidence.sum(kinds), kinds)
            made = cls(fields["origin"], fields["epoch"], evidence, patterns)
            require_written_as(made._packed(), fields, arrays)
        return made


def evidence_of(blob: bytes, basis: Basis) -> Evidence:
    """The evidence of a contribution that was checked before it was stored.

    Altered bytes are noticed, but not what a liar could have sealed: three times as fast as
    ``Contribution.from_bytes``, and for one's own store only.
    """
    fields, arrays = unseal(KIND, blob)
    with unpacking("evidence"):
        if fields["fingerprint"] != basis.fingerprint:
            raise BadInput("evidence of another federation")
        return Evidence.sum(_kinds(basis, fields, arrays))


def _kinds(basis: Basis, fields: dict[str, Any], arrays: dict[str, Array]) -> tuple[Evidence, ...]:
    if "patterns" in fields:
        return unpack_parts(basis, "pattern", fields["patterns"], arrays)
    return (unpack_evidence(basis, fields, arrays),)
