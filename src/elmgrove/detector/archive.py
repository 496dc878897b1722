"""A detector as plain fields and arrays, and back: each of its parts tells its own."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from elmgrove.algebra import Array, Basis, Evidence, Moments, Packed
from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.detector import Detector
from elmgrove.detector.mixture import PatternRule
from elmgrove.detector.thresholds import threshold_fields, threshold_from_fields


def pack_detector(detector: Detector) -> Packed:
    """Gathers all that a detector needs to go on, except what it received from others.

    This holds recent rows as they are: it is for the device's own disk, not to be given away.
    """
    learned, arrays = detector.model.pack()
    waiting, strange = detector.quarantine.pack()
    fields = {
        "basis": detector.basis.fields,
        **learned,
        "ridge": detector.model.ridge,
        "forgetting": detector.model.forgetting,
        "dtype": detector.model.dtype.name,
        "threshold": threshold_fields(detector.gate.policy),
        "alarm": asdict(detector.events.rule),
        "warmup": detector.gate.warmup,
        "learned": detector.learned,
        **waiting,
        **detector.gate.fields,
        **detector.events.fields,
    }
    last = detector.preparation.arrays
    return fields, {**arrays, **detector.gate.recent.arrays, **strange, **last}


def unpack_detector(
    fields: Mapping[str, Any],
    arrays: Mapping[str, Array],
    received: Sequence[Evidence] = (),
    loan: Moments | None = None,
) -> Detector:
    """Makes a detector of what ``pack_detector`` gathered and of what others gave and lent."""
    rule = fields.get("patterns")
    detector = Detector.for_basis(
        Basis.from_fields(fields["basis"]),
        patterns=None if rule is None else PatternRule(**rule["rule"]),
        ridge=fields["ridge"],
        forgetting=fields["forgetting"],
        dtype=fields["dtype"],
        threshold=threshold_from_fields(fields["threshold"]),
        alarm=AlarmRule(**fields["alarm"]),
        warmup=fields["warmup"],
        quarantine=fields["quarantine"],
        promote_after=fields["promote_after"],
    )
    # Before it is restored: what it computed last was computed with it.
    detector.loan = loan
    detector.model.borrow(loan)
    detector.model.restore(fields, arrays, received)
    detector.gate.restore(fields, arrays)
    detector.events.restore(fields)
    detector.quarantine.restore(fields, arrays)
    detector.preparation.restore(arrays)
    return detector
