"""Detectors as plain fields and arrays, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from elmgrove.algebra import (
    Array,
    Basis,
    Evidence,
    Packed,
    pack_evidence,
    pack_part,
    unpack_evidence,
    unpack_part,
)
from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.detector import Detector
from elmgrove.detector.mixture import Joined, Mixture, Pattern, PatternRule, Place
from elmgrove.detector.patterns import PatternDetector
from elmgrove.detector.thresholds import threshold_fields, threshold_from_fields
from elmgrove.detector.watcher import Watcher
from elmgrove.errors import BadInput, require_whole


def pack_detector(detector: Watcher[Any]) -> Packed:
    """Everything a detector needs to go on, except what it received from others.

    This holds recent rows as they are: it is for the device's own disk, not to be given away.
    """
    model, recent, quarantine = detector.model, detector.recent, detector.quarantine
    learned, arrays = _pack_model(detector)
    fields = {
        "basis": detector.basis.fields,
        **learned,
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
        "ring": recent.rows,
        "ring_scores": np.array(recent.scores),
        "strays": np.array(recent.strays),
        "stray_ages": np.array(recent.stray_ages, np.int64),
        "quarantine": quarantine.rows(),
    }
    return fields, arrays


def unpack_detector(
    fields: dict[str, Any], arrays: dict[str, Array], received: Sequence[Evidence] = ()
) -> Watcher[Any]:
    """The inverse of ``pack_detector``, with what was received from others."""
    basis = Basis.from_fields(fields["basis"])
    make = Detector if "evidence" in fields else partial(PatternDetector, rule=_rule(fields))
    detector = make(
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
    _unpack_model(detector, fields, arrays)
    detector.resume(received, learned=fields["learned"], scores_known=fields["scores_known"])
    if isinstance(detector, PatternDetector):
        # Where it belonged when it came: the patterns may have changed since.
        _place(detector.model, fields["patterns"]["places"], fields["patterns"]["edge"])
    if not 0 <= fields["alarm_quiet"] <= detector.alarm.rule.cooldown:
        raise BadInput(f"a cool-down of {fields['alarm_quiet']} more rows")
    if fields["quarantine_run"] < 0:
        raise BadInput(f"a run of {fields['quarantine_run']} strange rows")
    if arrays["ring_scores"].shape != (len(arrays["ring"]),):
        raise BadInput("not one score for each recent row")
    detector.alarm.recent.extend(map(bool, fields["alarm_recent"]))
    detector.alarm.quiet = fields["alarm_quiet"]
    detector.recent.restore(
        arrays["ring"], arrays["ring_scores"], arrays["strays"], arrays["stray_ages"]
    )
    for row in arrays["quarantine"]:
        detector.quarantine.add(row)
    detector.quarantine.run = fields["quarantine_run"]
    return detector


def _pack_model(detector: Watcher[Any]) -> Packed:
    if not isinstance(detector, PatternDetector):
        numbers, arrays = pack_evidence(detector.evidence)
        return {"evidence": numbers}, arrays
    model, patterns = detector.model, detector.model.patterns
    fields: dict[str, Any] = {
        "rule": asdict(model.rule),
        "next": patterns.next_number,
        "seen": patterns.rows_seen,
        "begun": patterns.first_rows is None,
        "places": [list(place) for place in model.places],
        "edge": model.edge,
        "own": [],
        "retired": [],
    }
    arrays = {"first": np.array(patterns.first_rows or []).reshape(-1, detector.basis.layer.inputs)}
    for kind, held in (("own", model.own), ("retired", model.retired)):
        for index, pattern in enumerate(held):
            known, parts = _pack_pattern(f"{kind}.{index}", pattern)
            fields[kind].append(known)
            arrays |= parts
    return {"patterns": fields}, arrays


def _pack_pattern(prefix: str, pattern: Pattern) -> Packed:
    numbers, arrays = pack_part(prefix, pattern.model.evidence)
    arrays[f"{prefix}.total"] = pattern.total
    fields = {
        "number": pattern.number,
        "rows": pattern.count,
        "learned": pattern.learned,
        "idle": pattern.idle,
        # JSON has no infinity.
        "typical": pattern.typical if pattern.typical < np.inf else None,
        **numbers,
    }
    joined = []
    for index, one in enumerate(pattern.joined):
        name = f"{prefix}.joined.{index}"
        numbers, parts = pack_part(name, one.evidence)
        known = {name: getattr(one, name) for name in ("number", "learned", "weight", "when")}
        joined.append({**known, "rows": one.count, **numbers})
        arrays |= {**parts, f"{name}.total": one.total}
    return fields | {"joined": joined}, arrays


def _rule(fields: dict[str, Any]) -> PatternRule:
    return PatternRule(**_completed(fields["patterns"])["rule"])


def _unpack_model(detector: Watcher[Any], fields: dict[str, Any], arrays: dict[str, Array]) -> None:
    if not isinstance(detector, PatternDetector):
        detector.model.merge(unpack_evidence(detector.basis, fields["evidence"], arrays))
        return
    patterns, known = detector.model.patterns, fields["patterns"]
    patterns.next_number = require_whole("next", known["next"], 1)
    patterns.rows_seen = require_whole("seen", known["seen"], 0)
    patterns.first_rows = None if known["begun"] else list(arrays["first"])
    for kind in ("own", "retired"):
        made = [
            _unpack_pattern(patterns.blank(one["number"]), f"{kind}.{index}", one, arrays)
            for index, one in enumerate(known[kind])
        ]
        setattr(patterns, kind, made)
    numbers = [part.number for part in patterns.parts]
    if not patterns.own or len(set(numbers)) < len(numbers) or max(numbers) >= patterns.next_number:
        raise BadInput("patterns have a number each, below the next one")


def _completed(fields: dict[str, Any]) -> dict[str, Any]:
    """Files of the first version do not tell what is typical: it is measured in time.

    Their handicap counted errors; it has no counterpart now, so the default takes its place.
    """
    if "edge" not in fields:
        fields |= {"edge": None, "rule": {**fields["rule"], "handicap": PatternRule.handicap}}
    for pattern in [*fields["own"], *fields["retired"]]:
        pattern.setdefault("typical", None)
    return fields


def _unpack_pattern(
    pattern: Pattern, prefix: str, fields: Mapping[str, Any], arrays: dict[str, Array]
) -> Pattern:
    basis = pattern.model.basis
    pattern.model.merge(unpack_part(basis, prefix, fields, arrays))
    pattern.total, pattern.count = arrays[f"{prefix}.total"], fields["rows"]
    pattern.learned = require_whole("learned", fields["learned"], 0)
    pattern.idle = require_whole("idle", fields["idle"], 0)
    if fields["typical"] is not None:
        pattern.typical = float(fields["typical"])
    for index, one in enumerate(fields["joined"]):
        name = f"{prefix}.joined.{index}"
        evidence = unpack_part(basis, name, one, arrays)
        total = arrays[f"{name}.total"]
        known = one["number"], evidence, total, one["rows"], one["learned"]
        pattern.joined.append(Joined(*known, one["weight"], one["when"]))
    return pattern


def _place(model: Mixture, places: Sequence[Sequence[Any]], edge: float | None) -> None:
    received = sorted(index for group, _ in places for index in group)
    if received != [index for index, one in enumerate(model.received) if one.count > 0.0]:
        raise BadInput("not one place for each evidence that was received")
    if not {number for _, number in places} <= {None, *(p.number for p in model.own)}:
        raise BadInput("a place that is no pattern")
    model.place([Place(tuple(group), number) for group, number in places])
    model.weigh(None if edge is None else float(edge))
    model.rearranged = False
