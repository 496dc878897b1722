"""Entries: what a device contributed, or that it left; and the ledger of the newest of each."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import agreed, lent, lent_together
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.layer import fingerprint
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
from elmgrove.errors import BadFile, BadInput, Outdated
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal

#: The format of an entry's bytes.
EVIDENCE_FORMAT = "elmgrove.evidence"
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
        fields, arrays = self._packed()
        return seal(EVIDENCE_FORMAT, fields | {"basis": self.basis.common.fields}, arrays)

    def _packed(self) -> Packed:
        fields = {
            "origin": self.origin,
            "epoch": self.epoch,
            "fingerprint": self.basis.fingerprint,
            **({} if self.threshold is None else {"threshold": self.threshold}),
        }
        if len(self.parts) == 1:
            numbers, arrays = pack_evidence(self.parts[0])
            return fields | numbers, arrays
        several, arrays = pack_parts("pattern", self.parts)
        return fields | {"patterns": several}, arrays

    @classmethod
    def from_bytes(cls, blob: bytes, basis: Basis | None = None) -> "Contribution":
        """Reads what ``to_bytes`` wrote; ``BadFile`` for anything else.

        Given the basis of its federation, it need not be made again.
        """
        entry = entry_from_bytes(blob, basis)
        if isinstance(entry, Departure):
            raise BadFile(f"no evidence: it says that {entry.origin!r} left")
        return entry


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
        """Seals it in the file format of evidence to give away, without any."""
        return seal(EVIDENCE_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        return {"origin": self.origin, "epoch": self.epoch, "left": True}, {}


#: What is known of a device: what it contributed, or that it left.
Entry = Contribution | Departure


def entry_from_bytes(blob: bytes, basis: Basis | None = None) -> Entry:
    """Reads a contribution or a departure; ``BadFile`` for anything else."""
    fields, arrays = unseal(EVIDENCE_FORMAT, blob)
    with unpacking("evidence"):
        origin, epoch = fields["origin"], fields["epoch"]
        entry: Entry = Departure(origin, epoch)
        if "left" not in fields:
            stated = fields.pop("basis")
            written = fingerprint(stated)
            if basis is None or written != basis.fingerprint:
                basis = Basis.from_fields(stated)
                if written != basis.fingerprint:
                    raise BadInput("the basis is not as it would be written")
            parts = _parts(basis.common, fields, arrays)
            entry = Contribution(origin, epoch, parts, fields.get("threshold"))
        require_written_as(entry._packed(), fields, arrays)
    return entry


def require_origin(origin: str) -> None:
    """Raises ``BadInput`` unless ``origin`` can name a device."""
    if not origin or not origin.isprintable() or len(origin) > 200:
        raise BadInput(f"an origin is a name of 1 to 200 printable characters: {origin!r}")


def require_epoch(epoch: int) -> None:
    """Raises ``BadInput`` unless ``epoch`` can number a version."""
    # The last one that data bases hold; nothing can follow it.
    if type(epoch) is not int or not 0 <= epoch < 2**63:
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


@dataclass(frozen=True)
class Version:
    """What ``follows`` needs to know of an entry; ``count`` is None for a departure."""

    epoch: int
    count: float | None
    digest: str


def follows(held: Version | None, new: Version) -> bool:
    """Decides whether ``new`` is to be stored; False if it is what is held already.

    Raises ``Outdated`` if it is not newer, or if it stands for fewer rows than before though the
    device did not leave in between: two devices under one name, or a state that was restored.
    """
    if held is None:
        return True
    if (new.epoch, new.digest) == (held.epoch, held.digest):
        return False
    if new.epoch <= held.epoch:
        raise Outdated(
            f"a newer entry of this device is held (epoch {held.epoch}, this one has {new.epoch})",
            held.epoch,
            shrinks(held, new),
        )
    if shrinks(held, new):
        raise Outdated(
            f"covers {new.count:g} rows, fewer than the {held.count:g} held of this device, "
            "which did not leave: is its name used twice, or was its state restored?",
            held.epoch,
            True,
        )
    return True


def shrinks(held: Version, new: Version) -> bool:
    """Says whether an entry stands for fewer rows than the one that is held."""
    if held.count is None or new.count is None:
        return False
    # Where old rows are forgotten, the count ends up at a constant, but for rounding.
    return new.count < held.count * (1.0 - 1e-9)


class Ledger:
    """Keeps the newest entry of each origin: what that device contributed, or that it left.

    Joining keeps the newest, so receiving the same twice, in any order and by any route, ends in
    the same ledger. The sum is taken in the order of the names each time: equal ledgers give
    equal sums to the last bit, and a device that left leaves no trace in them.
    Iterating gives the contributions, in the order of the names.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._newest: dict[str, Entry] = {}
        for entry in entries:
            self.join(entry)

    @property
    def entries(self) -> list[Entry]:
        """Contributions and departures, in the order of the names: all there is to pass on."""
        return [self._newest[origin] for origin in sorted(self._newest)]

    @property
    def departures(self) -> list[Departure]:
        """The devices that are known to have left."""
        return [entry for entry in self.entries if isinstance(entry, Departure)]

    def get(self, origin: str) -> Entry | None:
        """Finds what is known of a device."""
        return self._newest.get(origin)

    def join(self, entry: Entry) -> bool:
        """Takes an entry in if it is newer than what is held; says whether it was."""
        held = self._newest.get(entry.origin)
        if held is not None and not _newer(entry, held):
            return False
        self._newest[entry.origin] = entry
        return True

    def forget(self, origin: str) -> bool:
        """Takes a contribution out, until it comes again; says whether it was there."""
        if origin not in self:
            return False
        del self._newest[origin]
        return True

    def __iter__(self) -> Iterator[Contribution]:
        return (entry for entry in self.entries if isinstance(entry, Contribution))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, origin: str) -> bool:
        return isinstance(self._newest.get(origin), Contribution)

    @property
    def loan(self) -> Moments | None:
        """What contributors lend together, but for the odd one out; None where nobody does."""
        return agreed(held.lent for held in self)

    def total(self) -> Evidence | None:
        """Adds up all contributions; None when there are none."""
        return Evidence.sum(held.evidence for held in self) if len(self) else None


def _newer(entry: Entry, held: Entry) -> bool:
    """Compares epochs. Of equal ones any will do, as long as every device takes the same one.

    Equal epochs with different content come from a device whose state was restored and that
    learned again before it knew of its earlier self; it corrects that when it does.
    """
    if entry.epoch != held.epoch or entry == held:
        return entry.epoch > held.epoch
    if isinstance(entry, Departure) or isinstance(held, Departure):
        return isinstance(entry, Departure) and not isinstance(held, Departure)
    return entry.to_bytes() > held.to_bytes()
