"""A detector that learned by itself, in the units and the layer of a federation that it joins."""

from dataclasses import replace

from elmgrove.algebra import Basis, Conversion, Moments, pack_evidence
from elmgrove.detector.detector import Detector
from elmgrove.detector.pieces import Increment, Piece
from elmgrove.errors import Mismatch


def converted(detector: Detector, basis: Basis) -> Detector:
    """Makes the detector that would have learned the same rows with another basis.

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
        dtype=model.dtype,
        threshold=detector.gate.policy,
        alarm=detector.events.rule,
        warmup=detector.gate.warmup,
        quarantine=detector.quarantine.capacity,
        promote_after=detector.quarantine.promote_after,
        increment=detector.increments.seconds,
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


def _increment(one: Increment, conversion: Conversion) -> Increment:
    def piece(part: Piece) -> Piece:
        assert isinstance(part.evidence, Moments), "what was learned is moments, and so is a part"
        return replace(part, evidence=conversion.moments(part.evidence))

    return replace(one, pieces=tuple(map(piece, one.pieces)))
