"""Entries: what is known of a device, either what it contributed or that it left."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import lent, lent_together
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import (
    Moments,
    Packed,
    pack_evidence,
    pack_parts,
    unpack_evidence,
    unpack_parts,
)
from elmgrove.algebra.rows import Array
from elmgrove.detector.model import MOST_PARTS
from elmgrove.errors import BadFile, BadInput
from elmgrove.storage.sealed import format_of, require_written_as, seal, unpacking, unseal

#: The format of a contribution's bytes.
EVIDENCE_FORMAT = "elmgrove.evidence"
DEPARTURE_FORMAT = "elmgrove.departure"
#: The last epoch there is, since data bases hold 63 bits. Nothing can follow it.
HIGHEST_EPOCH = 2**63 - 1
#: From here on no number of rows explains an epoch, and servers refuse it.
HIGHEST_USABLE_EPOCH = 2**62
#: Bytes of the length before each blob in a bundle.
_LENGTH = 8


@dataclass(frozen=True)
class Contribution:
    """Evidence with the name of the device it comes from and how far that device was.

    Of two contributions of one origin the one with the higher epoch is the newer. The epoch is
    the number of rows the device had learned, plus a lead: a device that finds a newer version
    of itself in the world (its state was lost or restored) takes the lead over that one.

    A device with several patterns contributes one part for each, in one message, so that all
    are replaced at once; ``evidence`` is their sum. ``threshold`` is where anomalous begins for
    that device; None while it is still learning.
    """

    #: Whether a new file is for its owner's eyes only.
    private: ClassVar[bool] = False

    origin: str
    epoch: int
    parts: tuple[Evidence, ...]
    threshold: float | None = None

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(self.epoch)
        require_threshold(self.threshold)
        if not 1 <= len(self.parts) <= MOST_PARTS:
            raise BadInput(f"a contribution has 1 to {MOST_PARTS} parts, not {len(self.parts)}")
        for part in self.parts[1:]:
            self.basis.require(part.basis)

    @property
    def basis(self) -> Basis:
        """What all parts were learned with."""
        return self.parts[0].basis

    @cached_property
    def evidence(self) -> Evidence:
        """The sum of all parts."""
        return self.parts[0] if len(self.parts) == 1 else Evidence.sum(self.parts)

    @cached_property
    def lent(self) -> Moments | None:
        """What this device lends to others: how readings move together, within each pattern."""
        together = lent_together(lent(part) for part in self.parts)
        return None if together is None else together.weighted(1.0 / len(self.parts))

    def to_bytes(self) -> bytes:
        """Seals it in the file format of evidence to give away."""
        return seal(EVIDENCE_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "origin": self.origin,
            "epoch": self.epoch,
            "basis": self.basis.common.fields,
            "fingerprint": self.basis.fingerprint,
            **({} if self.threshold is None else {"threshold": self.threshold}),
        }
        if len(self.parts) == 1:
            numbers, arrays = pack_evidence(self.parts[0])
            return fields | numbers, arrays
        several, arrays = pack_parts("pattern", self.parts)
        return fields | {"patterns": several}, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Contribution":
        """Reads what ``to_bytes`` wrote; ``BadFile`` for anything else."""
        fields, arrays = unseal(EVIDENCE_FORMAT, blob)
        with unpacking("evidence"):
            parts = _parts(Basis.from_fields(fields["basis"]), fields, arrays)
            made = cls(fields["origin"], fields["epoch"], parts, fields.get("threshold"))
            require_written_as(made._packed(), fields, arrays)
        return made


def evidence_of(blob: bytes, basis: Basis) -> Evidence:
    """Reads the evidence of a contribution that was checked before it was stored.

    Altered bytes are noticed, but not what a liar could have sealed: three times as fast as
    ``Contribution.from_bytes``, and for one's own store only.
    """
    fields, arrays = unseal(EVIDENCE_FORMAT, blob)
    with unpacking("evidence"):
        if fields["fingerprint"] != basis.fingerprint:
            raise BadInput("evidence of another federation")
        return Evidence.sum(_parts(basis, fields, arrays))


def _parts(basis: Basis, fields: dict[str, Any], arrays: dict[str, Array]) -> tuple[Evidence, ...]:
    if "patterns" in fields:
        return unpack_parts(basis, "pattern", fields["patterns"], arrays)
    return (unpack_evidence(basis, fields, arrays),)


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
        """Seals it in the file format of a departure."""
        return seal(DEPARTURE_FORMAT, asdict(self), {})

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Departure":
        """Reads what ``to_bytes`` wrote; ``BadFile`` for anything else."""
        fields, arrays = unseal(DEPARTURE_FORMAT, blob)
        with unpacking("a departure"):
            made = cls(fields["origin"], fields["epoch"])
            require_written_as((asdict(made), {}), fields, arrays)
        return made


#: What is known of a device: what it contributed, or that it left.
Entry = Contribution | Departure


def entry_from_bytes(blob: bytes) -> Entry:
    """Reads a contribution or a departure; ``BadFile`` for anything else."""
    return (Departure if format_of(blob) == DEPARTURE_FORMAT else Contribution).from_bytes(blob)


def require_origin(origin: str) -> None:
    """Raises ``BadInput`` unless ``origin`` can name a device."""
    if not origin or not origin.isprintable() or len(origin) > 200:
        raise BadInput(f"an origin is a name of 1 to 200 printable characters: {origin!r}")


def require_epoch(epoch: int) -> None:
    """Raises ``BadInput`` unless ``epoch`` can number a version."""
    if type(epoch) is not int or not 0 <= epoch <= HIGHEST_EPOCH:
        raise BadInput(f"an epoch is a whole number from 0 to 2⁶³ − 1, not {epoch!r}")


def require_threshold(threshold: float | None) -> None:
    """Raises ``BadInput`` unless anomalous can begin there; None where that is not known yet."""
    if threshold is None:
        return
    if not isinstance(threshold, float) or not 0.0 <= threshold < math.inf:
        raise BadInput(f"a threshold is a finite number from 0 on, not {threshold!r}")


# Several blobs as one, each after its length


def framed(blob: bytes) -> bytes:
    """Puts a blob's length before it, as it stands in a bundle."""
    return len(blob).to_bytes(_LENGTH, "little") + blob


def bundle(blobs: Iterable[bytes]) -> bytes:
    """Puts blobs together in one; ``unbundle`` gives them back."""
    return b"".join(map(framed, blobs))


def unbundle(bundled: bytes) -> Iterator[bytes]:
    """Takes a bundle apart; ``BadFile`` where it ends in the middle of an entry."""
    start = 0
    while start < len(bundled):
        begin = start + _LENGTH
        end = begin + int.from_bytes(bundled[start:begin], "little")
        if begin > len(bundled) or end > len(bundled):
            raise BadFile("the bundle ends in the middle of an entry")
        yield bundled[begin:end]
        start = end
