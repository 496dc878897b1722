"""A contribution: one device's own evidence, on its way to others."""

from dataclasses import dataclass

from elmgrove.basis import Basis
from elmgrove.codec import seal, unseal
from elmgrove.errors import BadFile, BadInput, ElmgroveError
from elmgrove.evidence import Evidence
from elmgrove.packing import pack_evidence, unpack_evidence

KIND = "elmgrove.evidence"


@dataclass(frozen=True)
class Contribution:
    """Evidence with the name of the device it comes from and how far that device was.

    ``epoch`` is the number of rows the device had learned. Of two contributions of one origin
    the one with the higher epoch holds all that the other does.
    """

    origin: str
    epoch: int
    evidence: Evidence

    def __post_init__(self) -> None:
        if not self.origin or not self.origin.isprintable() or len(self.origin) > 200:
            raise BadInput(f"an origin is a name of 1 to 200 printable characters: {self.origin!r}")
        if self.epoch < 0:
            raise BadInput(f"an epoch can't be negative ({self.epoch})")

    def to_bytes(self) -> bytes:
        """The file format of evidence to give away."""
        numbers, arrays = pack_evidence(self.evidence)
        basis = self.evidence.basis
        fields = {
            "origin": self.origin,
            "epoch": self.epoch,
            "basis": basis.fields,
            "fingerprint": basis.fingerprint,
            **numbers,
        }
        return seal(KIND, fields, arrays)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Contribution":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(KIND, blob)
        try:
            evidence = unpack_evidence(Basis.from_fields(fields["basis"]), fields, arrays)
            return cls(fields["origin"], fields["epoch"], evidence)
        except (KeyError, TypeError, ValueError, AttributeError, ElmgroveError) as error:
            raise BadFile(f"sealed by Elmgrove, but not as evidence should be: {error}") from error
