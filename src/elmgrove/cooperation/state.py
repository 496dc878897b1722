"""What a member's state file holds beside the detector: what was heard and what was given away."""

from collections.abc import Mapping
from typing import Any

from elmgrove.basis import Basis
from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.departure import Departure
from elmgrove.cooperation.ledger import Ledger
from elmgrove.cooperation.merged import Merged
from elmgrove.evidence import Evidence
from elmgrove.packing import Array, Packed, pack_evidence, unpack_evidence

Fields = Mapping[str, Any]
Arrays = Mapping[str, Array]


def pack_part(prefix: str, evidence: Evidence) -> Packed:
    """One evidence among others: its arrays under names that begin with ``prefix``."""
    numbers, arrays = pack_evidence(evidence)
    return numbers, {f"{prefix}.{name}": array for name, array in arrays.items()}


def unpack_part(basis: Basis, prefix: str, fields: Fields, arrays: Arrays) -> Evidence:
    """The inverse of ``pack_part``."""
    parts = {name: arrays[f"{prefix}.{name}"] for name in ("U", "V")}
    return unpack_evidence(basis, dict(fields), parts)


def pack_ledger(ledger: Ledger) -> Packed:
    """Contributions by number; departures only if there are any."""
    heard, arrays = list[dict[str, Any]](), dict[str, Array]()
    for index, held in enumerate(ledger):
        numbers, parts = pack_part(f"heard.{index}", held.evidence)
        heard.append({"origin": held.origin, "epoch": held.epoch, **numbers})
        arrays |= parts
    left = [[entry.origin, entry.epoch] for entry in ledger.departures]
    return {"heard": heard} | ({"left": left} if left else {}), arrays


def unpack_ledger(basis: Basis, fields: Fields, arrays: Arrays) -> Ledger:
    """The inverse of ``pack_ledger``."""
    ledger = Ledger(Departure(*entry) for entry in fields.get("left", ()))
    for index, entry in enumerate(fields["heard"]):
        evidence = unpack_part(basis, f"heard.{index}", entry, arrays)
        ledger.join(Contribution(entry["origin"], entry["epoch"], evidence))
    return ledger


def pack_merged(merged: Merged) -> Packed:
    """A sum over others, without the basis, which the detector has."""
    numbers, arrays = pack_part("merged", merged.evidence)
    known = {
        "federation": merged.federation,
        "revision": merged.revision,
        "devices": merged.devices,
    }
    return {"merged": known | numbers}, arrays


def unpack_merged(basis: Basis, fields: Fields, arrays: Arrays) -> Merged | None:
    """The inverse of ``pack_merged``; None where there was none."""
    known = fields.get("merged")
    if known is None:
        return None
    evidence = unpack_part(basis, "merged", known, arrays)
    return Merged(known["federation"], known["revision"], known["devices"], evidence)
