"""Which devices are unlike others in level, scale or one sensor, from their sums alone.

A machine with a loose sensor has a wide normal: it explains the rows of all others well, and none
of them explains its own. So each sensor is looked at by itself: how far it is from what the other
sensors say, beside the same at every other device.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN
from elmgrove.federation.member import Member

#: Rows of either that tell a level at least: fewer of one machine may lie as far from its others.
LEAST_ROWS = 100
#: Deviations by which levels of unlike machines are apart: parts of one machine's time are not.
APART = 5.0
# Features that a warning names.
_NAMED = 3


@dataclass(frozen=True)
class Difference:
    """One feature here and elsewhere: its levels, its deviations, and how much they differ.

    Levels are ``apart`` by so many deviations, of the larger of the two; ``given_others`` by so
    many of those that are left when all other features are known: a motor as hot as usual may be
    far too hot for its load. Here it moves so many ``times`` as much as there; None where it never
    moved here or there, and so may or may not.
    """

    feature: str
    level: float
    deviation: float
    their_level: float
    their_deviation: float
    apart: float
    given_others: float
    times: float | None


@dataclass(frozen=True)
class Comparison:
    """One device beside another, or beside all others: feature by feature, those apart first.

    ``name`` is the other's, and None for all together. ``untold`` is the reason why sums do not
    tell; empty where they do.
    """

    name: str | None
    differences: tuple[Difference, ...] = ()
    untold: str = ""
    scales_told: bool = False

    @property
    def whose(self) -> str:
        """Whose features those are that the device is compared with."""
        return "the others'" if self.name is None else f"{self.name}'s"

    @property
    def alike(self) -> bool:
        """Whether nothing shows that these are different machines."""
        return not (self.apart or self.apart_given_others or self.scaled)

    @property
    def apart(self) -> list[tuple[str, float]]:
        """The features at other levels, and by how many deviations, the farthest first."""
        return _beyond((one.feature, one.apart) for one in self.differences)

    @property
    def apart_given_others(self) -> list[tuple[str, float]]:
        """The features at other levels than the others here let expect."""
        return _beyond((one.feature, one.given_others) for one in self.differences)

    @property
    def scaled(self) -> list[tuple[str, float]]:
        """The features at other scales, if that is so of half of those that move here and there.

        One alone says nothing: a single jump in a column that hardly moves is as much.
        """
        moving = [(one.feature, one.times) for one in self.differences if one.times is not None]
        moving.sort(key=lambda one: -max(one[1], 1.0 / one[1]))
        others = [one for one in moving if max(one[1], 1.0 / one[1]) > 10.0]
        return others if self.scales_told and 2 * len(others) >= len(moving) else []

    @property
    def finding(self) -> str:
        """What is different, in the worst features; empty where nothing is."""
        if self.apart:
            return _deviations(self.apart, self.whose)
        if self.apart_given_others:
            return f"{_deviations(self.apart_given_others, self.whose)}, given the other features"
        said = ", ".join(f"{name} moves {_times(times)}" for name, times in self.scaled[:_NAMED])
        return f"{said} as {self.whose}{_and_more(len(self.scaled))}" if said else ""

    def warning(self, basis: Basis, *, merges: bool) -> str:
        """Says what is different and what to do; empty where nothing is, or can't be told."""
        if self.alike:
            return ""
        advice, more = "another kind of machine? use own units, or a federation of its own", ""
        if basis.scaling.kind == OWN:
            advice = "were its own units taken from rows like those that it learns?"
        if merges:
            more = "; they will be one model, and what is normal for either will be normal for both"
        return f"{self.finding}: {advice}{more}"


def compare(own: Moments, theirs: Moments, name: str | None) -> Comparison:
    """Compares two machines, feature by feature; ``Mismatch`` if they could not be merged."""
    own.basis.require(theirs.basis)
    count = min(own.count, theirs.count)
    if count < LEAST_ROWS:
        return Comparison(name, untold=f"{count:.0f} rows are too few ({LEAST_ROWS} tell)")
    here, there = own.levels, theirs.levels
    widest = np.maximum(here.deviation, there.deviation)
    # Where neither ever moved, one row a unit away is taken to have been seen, as scores have it.
    unseen = np.maximum(here.unit, there.unit) / np.sqrt(count)
    # What is beyond range is as far apart as can be.
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(here.mean - there.mean) / np.where(widest > 0.0, widest, unseen)
        apart[np.isnan(apart)] = np.inf
        moving = (here.variance > 0.0) & (there.variance > 0.0)
        times = here.deviation / np.where(moving, there.deviation, 1.0)
        moving &= np.isfinite(times) & (times > 0.0)
        given_others = _given_others(Distance(own), Distance(theirs))
    found = [
        Difference(
            feature,
            level=float(here.mean[i]),
            deviation=float(here.deviation[i]),
            their_level=float(there.mean[i]),
            their_deviation=float(there.deviation[i]),
            apart=float(apart[i]),
            given_others=float(given_others[i]),
            times=float(times[i]) if moving[i] else None,
        )
        for i, feature in enumerate(own.basis.names)
    ]
    found.sort(key=lambda one: -max(one.apart, one.given_others))
    # Fewer rows tell no scale: for an hour much may stand still.
    return Comparison(name, tuple(found), scales_told=count >= 1000)


def compare_each(own: Evidence, others: Mapping[str, Evidence]) -> list[Comparison]:
    """Compares one device with others by name, and with all of them together if there are several.

    Those of all come first. ``Mismatch`` where evidence could not be merged.
    """
    if not isinstance(own, Moments):
        reason = "by loss, sums do not tell the level of a column"
        return [Comparison(name, untold=reason) for name in others]
    moments = {name: own.aligned(evidence) for name, evidence in others.items()}
    each = [compare(own, theirs, name) for name, theirs in moments.items()]
    known = [theirs for theirs in moments.values() if theirs.count >= LEAST_ROWS]
    if len(known) < 2:
        return each
    together = own.aligned(Evidence.sum(known))
    return [compare(own, together, None), *each]


def compare_used(member: Member) -> list[Comparison]:
    """Compares a device with those whose sums it uses: by name, by group, or with their one sum."""
    own, merged = member.detector.evidence, member.merged
    if merged is None or not merged.devices:
        return compare_each(own, {held.origin: held.evidence for held in member.ledger})
    if merged.labels:
        groups = zip(merged.labels, merged.parts, strict=True)
        return compare_each(own, {str(label): part for label, part in groups})
    return [replace(one, name=None) for one in compare_each(own, {"": merged.evidence})]


def notable(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Chooses those that are not alike; if a device is unlike all others together, that alone."""
    unlike = [one for one in comparisons if not one.alike]
    return unlike[:1] if unlike and unlike[0].name is None else unlike


def _given_others(own: Distance, theirs: Distance) -> Array:
    """How many deviations levels are apart, of those that are left when all others are known.

    By the one of both models that it is less by. In a window, by its last row alone: the rows
    before it are as far off.
    """
    found = []
    here, there = (one.last(one.basis.layer.inputs) for one in (own, theirs))
    for model, other in ((here, there), (there, here)):
        # With Ω = Σ⁻¹ and g = ΩΔ: column j is g_j/Ω_jj from what the others say, ± 1/√Ω_jj.
        z = (other.mean - model.mean) / model.deviation
        g = z - model.K.T @ (model.K @ z)
        found.append(np.abs(g) * model.residual / model.deviation)
    apart: Array = np.minimum(*found)
    apart[np.isnan(apart)] = np.inf
    return apart


def _beyond(features: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    return sorted((one for one in features if one[1] > APART), key=lambda one: -one[1])


def _deviations(features: list[tuple[str, float]], whose: str) -> str:
    (first, apart), *more = features[:_NAMED]
    said = "".join(f", {name} {away:,.0f}" for name, away in more)
    return f"{first} is {apart:,.0f} deviations from {whose}{said}{_and_more(len(features))}"


def _times(times: float) -> str:
    return f"{f'{times:,.0f} times' if times > 1.0 else f'1/{1.0 / times:,.0f}'} as much"


def _and_more(count: int) -> str:
    return f" (and {count - _NAMED} more)" if count > _NAMED else ""


#: Times as much as at every other device that a sensor varies which makes a device unlike all.
#: Honest machines of one kind were at most 2.6 times as wide as another, in any sensor.
WIDER = 2.8


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
        counts = (levels.variance > 0.0) & (residual > 2.0 * unit / np.sqrt(evidence.count))
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
