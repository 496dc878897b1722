"""Tuning: another threshold or alarm rule for a detector, without learning again."""

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elmgrove.detector.decision import LEARNING
from elmgrove.detector.detector import Detector
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, Threshold
from elmgrove.errors import BadInput

#: What ``tune`` can change.
TUNABLE = ("rate", "threshold", "confidence", "alarm_k", "alarm_n", "alarm_cooldown")


def tune(detector: Detector, **changes: float | None) -> list[str]:
    """Changes what a detector makes of its scores; says in words what changed.

    ``changes`` are those named in ``TUNABLE``; None leaves a thing as it is. What can't be done is
    refused before anything changes. ``rate`` and ``confidence`` state a false-alarm rate; a fixed
    ``threshold`` takes its place.

    A detector that watches goes on watching: the scores that it keeps give the new threshold at
    once, and counting begins again. For a lower rate they may be too few. Then it is ``learning``
    until enough rows came, but no longer than a new one would be. Rows that were refused by a lot
    left no score: where normal rows are that far off, the threshold of a lower rate begins too low,
    and counting shows it. Where no rate had to be shown and now one has (a ``confidence`` above 0),
    it is ``learning`` until that is done.

    >>> import numpy as np
    >>> detector = Detector.for_data(rows := np.random.default_rng(0).normal(size=(2000, 4)))
    >>> detector.learn_many(rows)
    >>> for line in tune(detector, rate=0.002):
    ...     print(line)
    rate: 0.002, before 0.01
    scores above 5.198 are anomalous, 0 of the 1,008 kept; before: 4.433, 4
    """
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    _require_tunable(given)
    before, was = _settings(detector), (detector.state, detector.threshold)
    policy = _policy(detector.gate.policy, given)
    # Before the scores that are too far between are forgotten.
    short = too_few_scores(policy, detector.gate.recent.usable)
    alarm = _alarm(detector.events.rule, given)
    if policy != detector.gate.policy:
        detector.gate.set_policy(policy)
    detector.events.rule = alarm
    said = [
        f"{name}: {_text(value)}, before {_text(before[name])}"
        for name, value in _settings(detector).items()
        if value != before[name]
    ]
    return (
        said
        if (detector.state, detector.threshold) == was
        else [*said, _became(detector, was, short)]
    )


def too_few_scores(policy: Threshold, usable: int) -> str:
    """A warning that a rate needs more scores, and which one does not; '' if it is fine.

    >>> too_few_scores(FalseAlarmRate(0.001), usable=640)
    '0.1 % takes the scores of 999 normal rows, and 640 are kept; the lowest rate now is 0.0016'
    """
    if policy.rate is None or policy.minimum <= usable:
        return ""
    kept = f"{usable:,} {'is' if usable == 1 else 'are'} kept"
    takes = (
        f"{100.0 * policy.rate:g} % takes the scores of {policy.minimum:,} normal rows, and {kept}"
    )
    if not usable:
        return takes
    digits = 10.0 ** (1 - math.floor(math.log10(1.0 / (usable + 1))))
    return f"{takes}; the lowest rate now is {math.ceil(digits / (usable + 1)) / digits:g}"


def _require_tunable(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in TUNABLE:
            raise BadInput(f"{name!r} can't be tuned; these can: {', '.join(TUNABLE)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput(f"{name} must be a number, not {value!r}")
        if abs(value) > sys.float_info.max:
            raise BadInput(f"{name} must be a number of at most {sys.float_info.max:.3g} in size")
    if {"rate", "threshold"} <= given.keys():
        raise BadInput("rate and threshold are ways to the same thing: choose one")


def _policy(policy: Threshold, given: Mapping[str, Any]) -> Threshold:
    if "threshold" in given:
        return FixedThreshold(float(given["threshold"]))
    stated = {name: float(given[name]) for name in ("rate", "confidence") if name in given}
    if isinstance(policy, FalseAlarmRate):
        return replace(policy, **stated)
    if "rate" in stated:
        return FalseAlarmRate(**stated)
    if stated:
        raise BadInput("confidence: no rate is stated to be sure of; give the rate as well")
    return policy


def _alarm(rule: AlarmRule, given: Mapping[str, Any]) -> AlarmRule:
    changes = {name: given.get(f"alarm_{name}") for name in ("k", "n", "cooldown")}
    return replace(rule, **{name: value for name, value in changes.items() if value is not None})


def _settings(detector: Detector) -> dict[str, float | None]:
    policy, rule = detector.gate.policy, detector.events.rule
    return {
        "rate": policy.rate,
        "confidence": None if policy.rate is None else policy.confidence,
        "threshold": policy.value if isinstance(policy, FixedThreshold) else None,
        "alarm_k": rule.k,
        "alarm_n": rule.n,
        "alarm_cooldown": rule.cooldown,
    }


def _became(detector: Detector, was: tuple[str, float], short: str) -> str:
    state, limit = was
    if detector.state == LEARNING:
        missing = f"{detector.rows_missing:,} more {detector.basis.counted}"
        said = f"{LEARNING}: no alarms before {missing} without an anomalous one"
        return f"{said}; {short}" if short else said
    recent = detector.gate.recent
    kept = [*recent.ordered, *recent.near_misses]

    def above(limit: float) -> int:
        return sum(not score <= limit for score in kept)

    now = f"{above(detector.threshold):,} of the {len(kept):,} kept"
    before = f"{limit:.4g}, {above(limit):,}" if math.isfinite(limit) else f"none ({state})"
    return f"scores above {detector.threshold:.4g} are anomalous, {now}; before: {before}"


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
