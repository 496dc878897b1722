"""A detector as plain fields and arrays and back, in its own or a federation's units."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, Packed, mixing, pack_evidence
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN, Scaling
from elmgrove.algebra.unsent import Fresh
from elmgrove.detector.detector import Detector
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.mixture import Mixture
from elmgrove.detector.patterns import PatternRule
from elmgrove.detector.serialization import flattened, restore, snapshot, unflattened
from elmgrove.detector.thresholds import threshold_fields, threshold_from_fields
from elmgrove.errors import BadInput, Mismatch, require_whole
from elmgrove.storage.sealed import require_written_as, unpacking, unseal

#: The format of a device's state.
STATE_FORMAT = "elmgrove.state"


def _memory(detector: Detector) -> dict[str, Any]:
    """What goes on in a detector, beside its model and settings, by name."""
    return {
        "gate": detector.gate,
        "events": detector.events,
        "quarantine": detector.quarantine,
        "increments": detector.increments,
        "answers": detector.answers,
        "drift": detector.drift,
    }


def pack_detector(detector: Detector) -> Packed:
    """Pack all that a detector needs to go on, except what it received from others.

    This holds recent rows as they are: it is for the device's own disk, not to be given away.
    """
    learned, arrays = detector.model.pack()
    unsent = {n: fresh.pack(f"fresh.{n}.") for n, fresh in _fresh(detector).items()}
    memory = {name: snapshot(one) for name, one in _memory(detector).items()}
    flat, kept = flattened(memory, "memory")
    fields = {
        "basis": detector.basis.fields,
        **learned,
        "ridge": detector.model.ridge,
        "forgetting": detector.model.forgetting,
        "threshold": threshold_fields(detector.gate.policy),
        "alarm": asdict(detector.events.rule),
        "warmup": detector.gate.warmup,
        "quarantine": detector.quarantine.capacity,
        "learned": detector.learned,
        "taken": detector.taken,
        "fresh": [[number, fields] for number, (fields, _) in sorted(unsent.items()) if fields],
        "memory": flat,
    }
    arrays = {**arrays, **detector.preparation.arrays, **kept}
    for _, more in unsent.values():
        arrays |= more
    return fields, arrays


def _fresh(detector: Detector) -> dict[int, Fresh]:
    """What each pattern learned since its last upload."""
    model = detector.model
    if isinstance(model, Mixture):
        every = [one for pattern in model.own for one in (pattern, *pattern.joined)]
        return {one.number: one.model.fresh for one in every}
    return {0: model.models[0].fresh}


def unpack_detector(
    fields: Mapping[str, Any],
    arrays: Mapping[str, Array],
    received: Sequence[Evidence] = (),
    loan: Moments | None = None,
) -> Detector:
    """The detector that ``pack_detector`` packed, with what others gave and lent."""
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
    detector.taken = require_whole("taken", fields["taken"], 0)
    # Before it is restored: what it computed last was computed with it.
    detector.loan = loan
    detector.model.set_loan(loan)
    detector.model.restore(fields, arrays, received)
    unsent = dict(fields["fresh"])
    for number, fresh in _fresh(detector).items():
        fresh.restore(unsent.get(number), arrays, f"fresh.{number}.")
    memory = unflattened(fields["memory"], arrays, detector.basis)
    restore(detector.answers, memory["answers"])
    if (before := detector.answers.undoable) is not None:
        # What undo would go back to is checked as well, before the rest takes its place.
        restore(detector.gate.recent, before.recent)
        restore(detector.gate.progress, before.progress)
        restore(detector.quarantine, before.waiting)
        if before.drift is not None:
            restore(detector.drift, before.drift)
    for name, one in _memory(detector).items():
        restore(one, memory[name])
    detector.preparation.restore(arrays)
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
    conversion = _Conversion(evidence, basis)
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

    memory = {name: snapshot(one) for name, one in _memory(detector).items()}
    for rows in (memory["gate"]["recent"], memory["quarantine"]):
        rows["rows"] = conversion.rows(rows["rows"].reshape(-1, detector.basis.inputs))
    for one in memory["increments"]["kept"]:
        for piece in one["pieces"]:
            piece["evidence"] = conversion.moments(piece["evidence"])
    for name in ("gate", "events", "quarantine", "increments"):
        restore(_memory(made)[name], memory[name])
    last = dict(detector.preparation.arrays)
    made.preparation.restore(last | {"last_rows": conversion.rows(last["last_rows"])})
    made.gate.follow(*(one.level(one.gate.recent.rows) for one in (detector, made)))
    return made


class _Conversion:
    """Rows and their sums in the units, the layer and the order of another basis.

    A value x' = (raw − shift')/scale' is a·x + b, so sums about a centre c become those about a·c +
    b: C' = a C a, s' = a s, e' = a² e. Where C holds all products, another layer's mixtures follow
    from them; where it holds mixtures alone, only a common factor can be converted. ``Mismatch``
    says what stands in the way. In own units, the target's are those in which the rows were
    learned.
    """

    def __init__(self, learned: Moments, target: Basis) -> None:
        source = learned.basis
        if target.scaling.lacks_numbers:
            scaling = source.scaling
            if not scaling.shift:
                scaling = Scaling.of(OWN, learned.levels)
            scaling = replace(scaling, kind=OWN, tails=target.scaling.tails)
            target = replace(target, scaling=scaling)
        _require_alike(source, target)
        self.basis = target
        names, wanted = source.features or (), target.features or ()
        order = [names.index(name) for name in wanted] or range(source.layer.inputs)
        if source.spectrum is not None:
            # Each column is as many values as there are bands.
            bands = source.bands
            order = [place * bands + i for place in order for i in range(bands)]
        self._order = np.array(order)
        (shift, scale), (to_shift, to_scale) = _units(source), _units(target)
        shift, scale = shift[self._order], scale[self._order]
        self._a, self._b = scale / to_scale, (shift - to_shift) / to_scale
        in_order = bool((np.diff(self._order) == 1).all())
        self._mixed = mixing(source) is not None
        if self._mixed and not (
            source.layer == target.layer and in_order and (self._a == self._a[0]).all()
        ):
            raise Mismatch(
                f"it holds {source.layer.units} mixtures of {source.inputs} inputs, which have "
                "other units there"
            )

    def rows(self, X: Array) -> Array:
        """Convert rows, or inputs: windows of rows."""
        each = X.reshape(-1, len(self._order))[:, self._order]
        made: Array = (each * self._a + self._b).reshape(X.shape)
        return made

    def moments(self, learned: Moments) -> Moments:
        """Convert sums, as the same rows would have given them."""
        columns, window = len(self._order), self.basis.window
        places = np.concatenate([self._order + columns * i for i in range(window)])
        a, b = np.tile(self._a, window), np.tile(self._b, window)
        C = np.asarray(learned.C, np.float64)
        if self._mixed:
            C = C * self._a[0] ** 2
        else:
            C = C[np.ix_(places, places)] * np.outer(a, a)
            A = mixing(self.basis)
            C = C if A is None else A.T @ C
        made = Moments(
            self.basis,
            C,
            a * learned.s[places],
            a**2 * learned.e[places],
            learned.count,
            a * learned.centre[places] + b,
            learned.resolution,
        )
        return made if self.basis.scaling.kind == "none" else made.about(np.zeros(len(a)))


def _units(basis: Basis) -> tuple[Array, Array]:
    """Shift and scale of each column."""
    columns, scaling = basis.layer.inputs, basis.scaling
    if scaling.kind == "none":
        return np.zeros(columns), np.ones(columns)
    return np.array(scaling.shift), np.array(scaling.scale)


def _require_alike(source: Basis, target: Basis) -> None:
    """Raise ``Mismatch`` with all that no conversion can make equal."""
    said = list[str]()
    here, there = ({*(one.features or ())} for one in (source, target))
    if here != there or source.layer.inputs != target.layer.inputs:
        only = [
            f"{' and '.join(map(repr, sorted(names)))} only {where}"
            for names, where in ((here - there, "here"), (there - here, "there"))
            if names
        ]
        counts = f"{source.columns} columns here, {target.columns} there"
        said.append(f"other columns: {', '.join(only) or counts}")
    for name in ("window", "score", "spectrum", "categories"):
        own, other = getattr(source, name), getattr(target, name)
        if own != other:
            said.append(f"{name}: {own or 'none'} here, {other or 'none'} there")
    if said:
        raise Mismatch("; ".join(said))
