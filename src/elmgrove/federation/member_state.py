"""A member's state file beside its detector: what was received, and what was given away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmgrove.algebra import (
    Array,
    Basis,
    Evidence,
    Packed,
    pack_part,
    pack_parts,
    unpack_part,
    unpack_parts,
)
from elmgrove.detector import Part
from elmgrove.federation.entries import (
    Contribution,
    Departure,
    require_epoch,
    require_threshold,
)
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.merged import Merged, pack_answers, unpack_answers

Fields = Mapping[str, Any]
Arrays = Mapping[str, Array]


def pack_ledger(ledger: Ledger) -> Packed:
    """Packs contributions by number, and departures if there are any."""
    received, arrays = list[dict[str, Any]](), dict[str, Array]()
    for index, held in enumerate(ledger):
        known, parts = _pack(f"heard.{index}", held.parts, apart=len(held.parts) > 1)
        known |= {} if held.threshold is None else {"threshold": held.threshold}
        received.append({"origin": held.origin, "epoch": held.epoch, **known})
        arrays |= parts
    left = [[entry.origin, entry.epoch] for entry in ledger.departures]
    return {"heard": received} | ({"left": left} if left else {}), arrays


def unpack_ledger(basis: Basis, fields: Fields, arrays: Arrays) -> Ledger:
    """Makes a ledger of what ``pack_ledger`` gave."""
    ledger = Ledger(Departure(*entry) for entry in fields.get("left", ()))
    for index, entry in enumerate(fields["heard"]):
        parts = _unpack(basis, f"heard.{index}", entry, arrays)
        ledger.join(Contribution(entry["origin"], entry["epoch"], parts, entry.get("threshold")))
    return ledger


def pack_merged(merged: Merged) -> Packed:
    """Packs a sum over others, without the basis, which the detector has."""
    numbers, arrays = _pack("merged", merged.parts, apart=merged.apart)
    known = {
        "federation": merged.federation,
        "revision": merged.revision,
        "devices": merged.devices,
        **({} if merged.grouped is None else {"grouped": merged.grouped}),
    }
    more, lent = pack_answers(merged)
    return {"merged": known | more | numbers}, arrays | lent


def unpack_merged(basis: Basis, fields: Fields, arrays: Arrays) -> Merged | None:
    """Makes a sum of what ``pack_merged`` gave; None where there was none."""
    known = fields.get("merged")
    if known is None:
        return None
    return Merged(
        known["federation"],
        known["revision"],
        known["devices"],
        _unpack(basis, "merged", known, arrays),
        known.get("grouped"),
        "kinds" in known,
        *unpack_answers(basis, known, arrays),
    )


@dataclass(frozen=True)
class Published:
    """What a device last gave away, pattern by pattern, and how many rows it had learned then.

    ``threshold`` is where anomalous began then; None if it did not watch, or had a question open.
    """

    learned: int
    parts: tuple[Part, ...]
    threshold: float | None = None

    def get(self, number: int) -> Part | None:
        """Finds what was given away of a pattern."""
        return next((part for part in self.parts if part.number == number), None)

    def pack(self) -> Packed:
        """Packs one part as it is, several by their numbers."""
        stated = {} if self.threshold is None else {"threshold": self.threshold}
        if [(part.number, part.learned) for part in self.parts] == [(0, self.learned)]:
            (part,) = self.parts
            numbers, arrays = pack_part("published", part.evidence)
            known = {"learned": self.learned, **stated, **_withheld(part), **numbers}
            return {"published": known}, arrays
        fields, arrays = pack_parts("published", [part.evidence for part in self.parts])
        parts = [
            {"number": part.number, "learned": part.learned, **_withheld(part), **numbers}
            for part, numbers in zip(self.parts, fields, strict=True)
        ]
        return {"published": {"learned": self.learned, **stated, "parts": parts}}, arrays

    @classmethod
    def unpack(cls, basis: Basis, fields: Fields, arrays: Arrays) -> "Published | None":
        """Reads what ``pack`` gave; None where nothing was given away yet."""
        published = fields.get("published")
        if published is None:
            return None
        learned, known = published["learned"], published.get("parts")
        threshold = published.get("threshold")
        require_epoch(learned)
        require_threshold(threshold)
        if known is None:
            evidence = unpack_part(basis, "published", published, arrays)
            return cls(learned, (_part(0, published, evidence),), threshold)
        evidences = unpack_parts(basis, "published", known, arrays)
        parts = (
            _part(one["number"], one, evidence)
            for one, evidence in zip(known, evidences, strict=True)
        )
        return cls(learned, tuple(parts), threshold)


def _withheld(part: Part) -> dict[str, float]:
    return {"withheld": part.withheld} if part.withheld else {}


def _part(number: int, fields: Fields, evidence: Evidence) -> Part:
    return Part(number, fields["learned"], evidence, withheld=float(fields.get("withheld", 0.0)))


def _pack(prefix: str, parts: Sequence[Evidence], *, apart: bool) -> Packed:
    """Packs one evidence as it is, and several that are apart under the file's word, kinds."""
    if not apart:
        return pack_part(prefix, parts[0])
    fields, arrays = pack_parts(prefix, parts)
    return {"kinds": fields}, arrays


def _unpack(basis: Basis, prefix: str, fields: Fields, arrays: Arrays) -> tuple[Evidence, ...]:
    if "kinds" not in fields:
        return (unpack_part(basis, prefix, fields, arrays),)
    return unpack_parts(basis, prefix, fields["kinds"], arrays)
