"""What a member's state file holds beside the detector: what was heard and what was given away."""

from collections.abc import Mapping
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
from elmgrove.federation.entries import Contribution, Departure
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.merged import Merged

Fields = Mapping[str, Any]
Arrays = Mapping[str, Array]


def pack_ledger(ledger: Ledger) -> Packed:
    """Contributions by number; departures only if there are any."""
    heard, arrays = list[dict[str, Any]](), dict[str, Array]()
    for index, held in enumerate(ledger):
        known, parts = _pack_kinds(f"heard.{index}", held.evidence, held.patterns)
        heard.append({"origin": held.origin, "epoch": held.epoch, **known})
        arrays |= parts
    left = [[entry.origin, entry.epoch] for entry in ledger.departures]
    return {"heard": heard} | ({"left": left} if left else {}), arrays


def unpack_ledger(basis: Basis, fields: Fields, arrays: Arrays) -> Ledger:
    """The inverse of ``pack_ledger``."""
    ledger = Ledger(Departure(*entry) for entry in fields.get("left", ()))
    for index, entry in enumerate(fields["heard"]):
        evidence, patterns = _unpack_kinds(basis, f"heard.{index}", entry, arrays)
        ledger.join(Contribution(entry["origin"], entry["epoch"], evidence, patterns))
    return ledger


def pack_merged(merged: Merged) -> Packed:
    """A sum over others, without the basis, which the detector has."""
    numbers, arrays = _pack_kinds("merged", merged.evidence, merged.groups)
    known = {
        "federation": merged.federation,
        "revision": merged.revision,
        "devices": merged.devices,
        **({} if merged.grouped is None else {"grouped": merged.grouped}),
    }
    return {"merged": known | numbers}, arrays


def unpack_merged(basis: Basis, fields: Fields, arrays: Arrays) -> Merged | None:
    """The inverse of ``pack_merged``; None where there was none."""
    known = fields.get("merged")
    if known is None:
        return None
    evidence, groups = _unpack_kinds(basis, "merged", known, arrays)
    numbers = known["federation"], known["revision"], known["devices"]
    return Merged(*numbers, evidence, groups, known.get("grouped"))


def pack_published(learned: int, parts: tuple[Part, ...]) -> Packed:
    """What was last given away; pattern by pattern where there are several."""
    if [(part.number, part.learned) for part in parts] == [(0, learned)]:
        numbers, arrays = pack_part("published", parts[0].evidence)
        return {"published": {"learned": learned, **numbers}}, arrays
    fields, arrays = pack_parts("published", [part.evidence for part in parts])
    known = [
        {"number": part.number, "learned": part.learned, **numbers}
        for part, numbers in zip(parts, fields, strict=True)
    ]
    return {"published": {"learned": learned, "parts": known}}, arrays


def unpack_published(basis: Basis, fields: Fields, arrays: Arrays) -> tuple[Part, ...]:
    """The inverse of ``pack_published``, without the number of rows."""
    published = fields["published"]
    if "parts" not in published:
        evidence = unpack_part(basis, "published", published, arrays)
        return (Part(0, published["learned"], evidence),)
    known = published["parts"]
    evidences = unpack_parts(basis, "published", known, arrays)
    return tuple(
        Part(one["number"], one["learned"], evidence)
        for one, evidence in zip(known, evidences, strict=True)
    )


def _pack_kinds(prefix: str, evidence: Evidence, kinds: tuple[Evidence, ...]) -> Packed:
    """A sum alone, or the kinds that it is made of."""
    if not kinds:
        return pack_part(prefix, evidence)
    fields, arrays = pack_parts(prefix, kinds)
    return {"kinds": fields}, arrays


def _unpack_kinds(
    basis: Basis, prefix: str, fields: Fields, arrays: Arrays
) -> tuple[Evidence, tuple[Evidence, ...]]:
    if "kinds" not in fields:
        return unpack_part(basis, prefix, fields, arrays), ()
    kinds = unpack_parts(basis, prefix, fields["kinds"], arrays)
    return Evidence.sum(kinds), kinds
