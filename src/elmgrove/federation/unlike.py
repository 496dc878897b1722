"""Which devices are unlike all others, and by which sensor: told from their sums alone.

A machine with a loose sensor has a wide normal: it explains the rows of all others well, and none
of them explains its own. So each sensor is looked at by itself: how far it is from what the other
sensors say, beside the same at every other device.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from elmgrove.algebra import OWN, Array, Distance, Evidence, Moments
from elmgrove.federation.alike import APART, LEAST_ROWS
from elmgrove.federation.member import Member

#: Times as much as at every other device that a sensor varies which makes a device unlike all.
#: Honest machines of one kind were at most 2.6 times as wide as another, in any sensor.
WIDER = 2.8
# A deviation counts from so many times what a single row would make of it.
_SURE = 2.0
# Sensors that are named.
_NAMED = 3


class Profile(NamedTuple):
    """Level, deviation and residual deviation (given the other sensors) of each sensor.

    ``counts`` says of which sensors the residual is more than what so few rows make of it.
    """

    features: tuple[str, ...]
    level: Array
    deviation: Array
    residual: Array
    counts: Array


def profile_of(evidence: Evidence) -> Profile | None:
    """Gives what one device's sums tell of its sensors; None where they are too few, or a loss."""
    if not isinstance(evidence, Moments) or evidence.count < LEAST_ROWS:
        return None
    columns, levels = evidence.basis.layer.inputs, evidence.levels
    # Sums may hold whatever is finite: what is beyond range tells nothing.
    with np.errstate(all="ignore"):
        model = Distance(evidence)
        residual = model.last(columns).residual if evidence.basis.window > 1 else model.residual
        # One more row, a unit away, is taken to have been seen: less than that is not known.
        scaled = evidence.basis.scaling.kind != "none"
        unit = np.ones(columns) if scaled else levels.deviation
        counts = (levels.variance > 0.0) & (residual > _SURE * unit / np.sqrt(evidence.count))
        # In the data's units, as levels are.
        if evidence.basis.scaling.kind not in ("none", OWN):
            residual = residual * np.array(evidence.basis.scaling.scale)
    counts &= np.isfinite(residual)
    return Profile(tuple(evidence.basis.names), levels.mean, levels.deviation, residual, counts)


def unlike_all(profiles: Mapping[str, Profile]) -> dict[str, str]:
    """Says of each device that is unlike every other one by which sensors, and how much."""
    if len(profiles) < 2:
        return {}
    names, every = list(profiles), list(profiles.values())
    found = {name: list[tuple[float, str]]() for name in names}
    stacked = (np.array([getattr(one, field) for one in every]) for field in Profile._fields[1:])
    levels, deviations, residuals, counts = stacked
    for column, feature in enumerate(every[0].features):
        args = (names, feature, levels[:, column], deviations[:, column])
        for name, size, said in (
            *_wider(*args[:2], residuals[:, column], deviations[:, column], counts[:, column]),
            *_apart(*args),
        ):
            found[name].append((size, said))
    told = {name: sorted(some, key=lambda one: -one[0]) for name, some in found.items() if some}
    return {name: ", ".join(said for _, said in some[:_NAMED]) for name, some in told.items()}


def unlike_used(member: Member) -> str:
    """Says by which sensors a device is unlike all those whose sums it uses; '' where it is not."""
    own, merged = member.detector.evidence, member.merged
    if merged is None:
        others = {held.origin: held.evidence for held in member.ledger}
        devices = len(others)
    else:
        labelled = zip(merged.labels, merged.parts, strict=False)
        others = {str(label): part for label, part in labelled}
        devices = merged.devices
    # Of two, nobody knows which is the odd one.
    if devices < 2 or not isinstance(own, Moments):
        return ""
    some = {name: profile_of(own.aligned(one)) for name, one in others.items()}
    mine, profiles = profile_of(own), {name: one for name, one in some.items() if one is not None}
    if mine is None or not profiles:
        return ""
    # A name that no device has.
    return unlike_all({**profiles, "": mine}).get("", "")


def _wider(
    names: list[str], feature: str, residual: Array, deviation: Array, counts: Array
) -> list[tuple[str, float, str]]:
    """The device that varies more than each other one, if there is one."""
    usable = np.where(counts, residual, 0.0)
    order = np.argsort(usable)
    widest, next_widest = int(order[-1]), int(order[-2])
    if not usable[next_widest] > 0.0 or usable[widest] < WIDER * usable[next_widest]:
        return []
    times = float(usable[widest] / usable[next_widest])
    others = np.delete(deviation, widest).max()
    plain = float(deviation[widest] / others) if others > 0.0 else 0.0
    given = "" if plain >= WIDER else " given the other sensors"
    told = plain if plain >= WIDER else times
    return [(names[widest], times, f"{feature} varies {told:,.0f} times as much{given}")]


def _apart(
    names: list[str], feature: str, level: Array, deviation: Array
) -> list[tuple[str, float, str]]:
    """The devices whose level is far from that of each other one, in deviations of the wider."""
    reach = APART * deviation
    # No other level within one's own reach, and oneself within nobody else's.
    ordered, begins, ends = (np.sort(some) for some in (level, level - reach, level + reach))
    within = np.searchsorted(ordered, level + reach, "right") - np.searchsorted(
        ordered, level - reach, "left"
    )
    reached = np.searchsorted(begins, level, "right") - np.searchsorted(ends, level, "left")
    found = []
    for place in np.flatnonzero((within <= 1) & (reached <= 1) & (deviation > 0.0)).tolist():
        widest = np.maximum(np.delete(deviation, place), deviation[place])
        away = float((np.abs(np.delete(level, place) - level[place]) / widest).min())
        if np.isfinite(away):
            said = f"{feature} is {away:,.0f} deviations from every other"
            found.append((names[place], away, said))
    return found
