"""A departure: a device takes its part out of everybody's model."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from elmgrove.algebra import (
    Array,
    Basis,
    Evidence,
    Packed,
    pack_evidence,
    pack_parts,
    unpack_evidence,
    unpack_parts,
)
from elmgrove.detector import MOST_PARTS
from elmgrove.errors import BadFile, BadInput
from elmgrove.federation.sealed import format_of, require_written_as, seal, unpacking, unseal


def require_origin(origin: str) -> None:
    """Raises ``BadInput`` unless ``origin`` can name a device."""
    if not origin or not origin.isprintable() or len(origin) > 200:
        raise BadInput(f"an origin is a name of 1 to 200 printable characters: {origin!r}")


def require_epoch(epoch: int) -> None:
    """Raises ``BadInput`` unless ``epoch`` can number a version; 63 bits, as data bases hold."""
    if type(epoch) is not int or not 0 <= epoch < 2**63:
        raise BadInput(f"an epoch is a whole number from 0 to 2⁶³ − 1, not {epoch!r}")


_LENGTH = 8


def framed(blob: bytes) -> bytes:
    """One blob as it stands in a bundle."""
    return len(blob).to_bytes(_LENGTH, "little") + blob


def bundle(blobs: Iterable[bytes]) -> bytes:
    """All of them in one; ``unbundle`` gives them back."""
    return b"".join(map(framed, blobs))


def unbundle(bundled: bytes) -> Iterator[bytes]:
    """The blobs of a bundle; ``BadFile`` where it breaks off."""
    start = 0
    while start < len(bundled):
        begin = start + _LENGTH
        end = begin + int.from_bytes(bundled[start:begin], "little")
        if begin > len(bundled) or end > len(bundled):
            raise BadFile("a bundle of contributions that breaks off in the middle")
        yield bundled[begin:end]
        start = end


EVIDENCE_FORMAT = "elmgrove.evidence"


@dataclass(frozen=True)
class Contribution:
    """Evidence with the name of the device it comes from and how far that device was.

    Of two contributions of one origin the one with the higher epoch is the newer. The epoch is
    the number of rows the device had learned, plus a lead: a device that finds a newer version
    of itself in the world (its state was lost or restored) takes the lead over that one.

    A device with several patterns contributes one evidence for each, in one message, so that
    all are replaced at once; ``evidence`` is their sum.
    """

    #: Whether a new file is for its owner's eyes only.
    private: ClassVar[bool] = False

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
        return seal(EVIDENCE_FORMAT, *self._packed())

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
        fields, arrays = unseal(EVIDENCE_FORMAT, blob)
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
    fields, arrays = unseal(EVIDENCE_FORMAT, blob)
    with unpacking("evidence"):
        if fields["fingerprint"] != basis.fingerprint:
            raise BadInput("evidence of another federation")
        return Evidence.sum(_kinds(basis, fields, arrays))


def _kinds(basis: Basis, fields: dict[str, Any], arrays: dict[str, Array]) -> tuple[Evidence, ...]:
    if "patterns" in fields:
        return unpack_parts(basis, "pattern", fields["patterns"], arrays)
    return (unpack_evidence(basis, fields, arrays),)


DEPARTURE_FORMAT = "elmgrove.departure"


@dataclass(frozen=True)
class Departure:
    """The word that a device left, to be passed on like a contribution.

    It stands in the ledger in the place of what the device contributed and keeps older versions,
    which may still be under way, from coming back. A contribution with a higher epoch ends it.
    """

    origin: str
    epoch: int

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(self.epoch)

    def to_bytes(self) -> bytes:
        """The file format of a departure."""
        return seal(DEPARTURE_FORMAT, asdict(self), {})

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Departure":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(DEPARTURE_FORMAT, blob)
        with unpacking("a departure"):
            made = cls(fields["origin"], fields["epoch"])
            require_written_as((asdict(made), {}), fields, arrays)
        return made


#: What is known of a device: what it contributed, or that it left.
Entry = Contribution | Departure


def entry_from_bytes(blob: bytes) -> Entry:
    """Whichever of the two a blob holds; ``BadFile`` for anything else."""
    return (Departure if format_of(blob) == DEPARTURE_FORMAT else Contribution).from_bytes(blob)
