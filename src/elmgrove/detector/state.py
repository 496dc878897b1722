"""A detector as plain fields and arrays and back, in its own or a federation's units."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Conversion, Moments, Packed, pack_evidence
from elmgrove.algebra.rows import Array
from elmgrove.algebra.unsent import Fresh
from elmgrove.detector.detector import Detector
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.history import Bucket, BucketPart
from elmgrove.detector.mixture import Mixture
from elmgrove.detector.patterns import PatternRule
from elmgrove.detector.thresholds import threshold_fields, threshold_from_fields
from elmgrove.errors import BadInput, Mismatch, require_whole
from elmgrove.storage.sealed import require_written_as, unpacking, unseal

#: The format of a device's state.
STATE_FORMAT = "elmgrove.state"


def pack_detector(detector: "Detector") -> Packed:
    """Pack all that a detector needs to go on, except what it received from others.

    This holds recent rows as they are: it is for the device's own disk, not to be given away.
    """
    learned, arrays = detector.model.pack()
    unsent = {n: fresh.pack(f"fresh.{n}.") for n, fresh in _fresh(detector).items()}
    waiting, anomalous = detector.quarantine.pack()
    cut, increments = detector.increments.pack()
    said, undo = detector.answers.pack()
    fields = {
        "basis": detector.basis.fields,
        **learned,
        "ridge": detector.model.ridge,
        "forgetting": detector.model.forgetting,
        "dtype": "float64",
        "threshold": threshold_fields(detector.gate.policy),
        "alarm": asdict(detector.events.rule),
        "warmup": detector.gate.warmup,
        "learned": detector.learned,
        **({"taken": detector.taken} if detector.taken else {}),
        **waiting,
        **cut,
        **said,
        **_unsent_fields(unsent),
        **detector.gate.fields,
        **detector.events.fields,
    }
    last = detector.preparation.arrays
    watch, sums = detector.drift.pack()
    kept = {**arrays, **detector.gate.recent.arrays, **anomalous, **last, **increments, **sums}
    kept |= undo
    for _, more in unsent.values():
        kept |= more
    return {**fields, **watch}, kept


def _fresh(detector: "Detector") -> dict[int, Fresh]:
    """What each pattern learned since its last upload."""
    model = detector.model
    if isinstance(model, Mixture):
        every = [one for pattern in model.own for one in (pattern, *pattern.joined)]
        return {one.number: one.model.fresh for one in every}
    return {0: model.models[0].fresh}


def _unsent_fields(unsent: Mapping[int, Packed]) -> dict[str, Any]:
    known = [[number, fields] for number, (fields, _) in sorted(unsent.items()) if fields]
    return {"fresh": known} if known else {}


def unpack_detector(
    fields: Mapping[str, Any],
    arrays: Mapping[str, Array],
    received: Sequence[Evidence] = (),
    loan: Moments | None = None,
) -> Detector:
    """The detector that ``pack_detector`` packed, with what others gave and lent."""
    if fields["dtype"] != "float64":
        raise BadInput(f"a state of {fields['dtype']!r:.40}: detectors are of float64; learn again")
    rule = fields.get("patterns")
    detector = Detector.for_basis(
        Basis.from_fields(fields["basis"]),
        patterns=None if rule is None else PatternRule(**rule["rule"]),
        ridge=fields["ridge"],
        forgetting=fields["forgetting"],
        threshold=threshold_from_fields(fields["threshold"]),
        alarm=AlarmRule(**fields["alarm"]),
        warmup=fields["warmup"],
        quarantine=fields["quarantine"],
    )
    detector.taken = require_whole("taken", fields.get("taken", 0), 0)
    # Before it is restored: what it computed last was computed with it.
    detector.loan = loan
    detector.model.set_loan(loan)
    detector.model.restore(fields, arrays, received)
    unsent = dict(fields.get("fresh", ()))
    for number, fresh in _fresh(detector).items():
        fresh.restore(unsent.get(number), arrays, f"fresh.{number}.")
    detector.gate.restore(fields, arrays)
    detector.events.restore(fields)
    detector.quarantine.restore(fields, arrays)
    detector.increments.restore(fields, arrays)
    detector.answers.restore(detector.basis, fields, arrays)
    detector.preparation.restore(arrays)
    detector.drift.restore(fields, arrays)
    return detector


def pack_state(name: str, detector: "Detector") -> Packed:
    """Pack the state of a device that received nothing; a member adds what it received."""
    fields, arrays = pack_detector(detector)
    return {"name": name, "detector": fields, "heard": []}, arrays


def detector_from_bytes(blob: bytes) -> Detector:
    """Reads the detector in a device's state; refused where others are part of its model."""
    fields, arrays = unseal(STATE_FORMAT, blob)
    if fields.get("merges") and (fields.get("heard") or fields.get("merged")):
        raise BadInput(
            f"the model of {fields['name']!r} is merged with what others know; load it with "
            "elmgrove.storage.load(path, elmgrove.federation.Member.from_bytes)"
        )
    with unpacking("a state"):
        detector = unpack_detector(fields["detector"], arrays)
        made = pack_detector(detector)
        require_written_as(made, fields["detector"], {name: arrays[name] for name in made[1]})
    return detector


def converted(detector: Detector, basis: Basis) -> Detector:
    """The detector that would have learned the same rows with another basis.

    Sums, increments, rows that wait and the last rows are converted exactly but for rounding;
    ``Mismatch`` says why that can't be done. Scores follow by how much higher the last rows score.
    What a test for lasting change has added up begins again.
    """
    evidence = detector.evidence
    if detector.patterns is not None:
        raise Mismatch("it tells several normal patterns apart")
    if not isinstance(evidence, Moments):
        raise Mismatch("score: loss, whose sums depend on units and layer")
    conversion = Conversion(evidence, basis)
    model = detector.model
    made = Detector.for_basis(
        conversion.basis,
        ridge=model.ridge,
        forgetting=model.forgetting,
        threshold=detector.gate.policy,
        alarm=detector.events.rule,
        warmup=detector.gate.warmup,
        quarantine=detector.quarantine.capacity,
    )
    made.taken = detector.taken

    numbers, sums = pack_evidence(conversion.moments(evidence))
    known = {"evidence": numbers, "learned": detector.learned}
    waiting = conversion.rows(detector.quarantine.rows()[:0])
    made.model.restore(known, {**sums, "waiting": waiting}, ())
    fresh, kept = model.models[0].fresh.pack("")
    kept = {name: conversion.rows(rows) for name, rows in kept.items()}
    made.model.models[0].fresh.restore(fresh or None, kept, "")

    fields, arrays = detector.increments.pack()
    pieces = [
        _increment(one, conversion).pack(f"increment.{index}")
        for index, one in enumerate(detector.increments.kept)
    ]
    if "increments" in fields:
        fields["increments"]["kept"] = [numbers for numbers, _ in pieces]
    arrays = {name: array for _, some in pieces for name, array in some.items()}
    made.increments.restore(fields, arrays)

    fields, arrays = detector.quarantine.pack()
    arrays["quarantine"] = conversion.rows(arrays["quarantine"])
    made.quarantine.restore(fields, arrays)
    made.events.restore(detector.events.fields)
    last = dict(detector.preparation.arrays)
    made.preparation.restore(last | {"last_rows": conversion.rows(last["last_rows"])})

    arrays = detector.gate.recent.arrays
    made.gate.restore(detector.gate.fields, arrays | {"recent": conversion.rows(arrays["recent"])})
    made.gate.follow(*(one.level(one.gate.recent.rows) for one in (detector, made)))
    return made


def _increment(one: Bucket, conversion: Conversion) -> Bucket:
    def piece(part: BucketPart) -> BucketPart:
        assert isinstance(part.evidence, Moments), "what was learned is moments, and so is a part"
        return replace(part, evidence=conversion.moments(part.evidence))

    return replace(one, pieces=tuple(map(piece, one.pieces)))
