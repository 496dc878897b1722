"""Evidence and detectors as plain fields and arrays, and back."""

from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.alarm import AlarmRule
from elmgrove.basis import Basis
from elmgrove.detector import Detector
from elmgrove.errors import BadInput
from elmgrove.evidence import Evidence
from elmgrove.solver import epsilon, mirrored
from elmgrove.threshold import threshold_fields, threshold_from_fields

Array = NDArray[Any]
Packed = tuple[dict[str, Any], dict[str, Array]]


def pack_evidence(evidence: Evidence) -> Packed:
    """Numbers, and U's upper triangle and V; the basis goes separately, once for many."""
    upper = evidence.U.take(_triangle(len(evidence.U)))
    fields = {"energy": evidence.energy, "count": evidence.count}
    if evidence.resolution > epsilon(evidence.U.dtype):
        fields["resolution"] = evidence.resolution
    return fields, {"U": upper, "V": evidence.V}


def unpack_evidence(basis: Basis, fields: dict[str, Any], arrays: dict[str, Array]) -> Evidence:
    """The inverse of ``pack_evidence``."""
    units, upper = basis.layer.units, arrays["U"]
    # Before anything of that size is made: the numbers may come from a stranger.
    if upper.shape != (units * (units + 1) // 2,):
        raise BadInput(f"{upper.shape} is not the upper triangle of {units} × {units}")
    U = np.zeros((units, units), upper.dtype)
    U.reshape(-1)[_triangle(units)] = upper
    numbers = fields["energy"], fields["count"], fields.get("resolution", 0.0)
    return Evidence(basis, mirrored(U), arrays["V"], *numbers)


def pack_detector(detector: Detector) -> Packed:
    """Everything a detector needs to go on, except what it received from others.

    This holds recent rows as they are: it is for the device's own disk, not to be given away.
    """
    model, calibration, quarantine = detector.model, detector.calibration, detector.quarantine
    numbers, arrays = pack_evidence(detector.evidence)
    fields = {
        "basis": detector.basis.fields,
        "evidence": numbers,
        "ridge": model.ridge,
        "forgetting": model.forgetting,
        "dtype": model.dtype.name,
        "threshold": threshold_fields(detector.policy),
        "alarm": asdict(detector.alarm.rule),
        "alarm_recent": list(detector.alarm.recent),
        "alarm_quiet": detector.alarm.quiet,
        "warmup": detector.warmup,
        "learned": detector.learned,
        "quarantine": quarantine.capacity,
        "quarantine_run": quarantine.run,
        "promote_after": quarantine.promote_after,
        "scores_known": not detector.scores_outdated,
    }
    arrays |= {
        "ring": calibration.rows,
        "ring_scores": np.array(calibration.scores),
        "strays": np.array(calibration.strays),
        "stray_ages": np.array(calibration.stray_ages, np.int64),
        "quarantine": quarantine.rows(),
    }
    return fields, arrays


def unpack_detector(
    fields: dict[str, Any], arrays: dict[str, Array], received: Evidence | None = None
) -> Detector:
    """The inverse of ``pack_detector``, with what was received from others."""
    basis = Basis.from_fields(fields["basis"])
    detector = Detector(
        basis.layer,
        features=basis.features,
        scaling=basis.scaling,
        ridge=fields["ridge"],
        forgetting=fields["forgetting"],
        dtype=fields["dtype"],
        threshold=threshold_from_fields(fields["threshold"]),
        alarm=AlarmRule(**fields["alarm"]),
        warmup=fields["warmup"],
        quarantine=fields["quarantine"],
        promote_after=fields["promote_after"],
    )
    detector.resume(
        unpack_evidence(basis, fields["evidence"], arrays),
        received,
        learned=fields["learned"],
        scores_known=fields["scores_known"],
    )
    if not 0 <= fields["alarm_quiet"] <= detector.alarm.rule.cooldown:
        raise BadInput(f"a cool-down of {fields['alarm_quiet']} more rows")
    if fields["quarantine_run"] < 0:
        raise BadInput(f"a run of {fields['quarantine_run']} strange rows")
    if arrays["ring_scores"].shape != (len(arrays["ring"]),):
        raise BadInput("not one score for each recent row")
    detector.alarm.recent.extend(map(bool, fields["alarm_recent"]))
    detector.alarm.quiet = fields["alarm_quiet"]
    detector.calibration.restore(
        arrays["ring"], arrays["ring_scores"], arrays["strays"], arrays["stray_ages"]
    )
    for row in arrays["quarantine"]:
        detector.quarantine.add(row)
    detector.quarantine.run = fields["quarantine_run"]
    return detector


@lru_cache(maxsize=8)
def _triangle(units: int) -> NDArray[np.intp]:
    """Where U's upper triangle lies in its memory, row by row."""
    rows, columns = np.triu_indices(units)
    return rows * units + columns
