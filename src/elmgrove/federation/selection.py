"""Whom to merge: each a small rule over what others contributed. None of them needs a row."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Evidence, expected_error
from elmgrove.errors import BadInput
from elmgrove.federation.entries import Contribution
from elmgrove.federation.groups import group, require_distance
from elmgrove.federation.judgement import judge
from elmgrove.federation.standing import StandingGroups

#: Chooses among what others contributed, given one's own contribution and the ridge.
Rule = Callable[[Contribution, float, Sequence[Contribution]], list[Contribution]]


def everyone(own: Contribution, ridge: float, others: Sequence[Contribution]) -> list[Contribution]:
    """All of them."""
    return list(others)


def named(names: Collection[str]) -> Rule:
    """Those that somebody chose (Ito 2021, §4.2: a device picks its partners)."""
    wanted = frozenset(names)
    if not wanted:
        raise BadInput("name at least one device to merge")

    def rule(own: Contribution, ridge: float, others: Sequence[Contribution]) -> list[Contribution]:
        return [other for other in others if other.origin in wanted]

    return rule


def quality(limit: float = 3.0) -> Rule:
    """Leaves out those whose model explains the others' rows far worse than usual.

    After Qin et al. 2020 (selective model aggregation), where a server tests models on data
    of its own; here the others' evidence takes the place of that data. ``limit`` counts robust
    standard deviations above the median, on a log scale. Needs at least four others: of fewer,
    none can be told to be the odd one out.
    """
    if not limit > 0:
        raise BadInput(f"the limit of quality must be above 0, not {limit}")

    def rule(own: Contribution, ridge: float, others: Sequence[Contribution]) -> list[Contribution]:
        if len(others) < 4:
            return list(others)
        strangeness = np.log(np.clip(judge(others, ridge).strangeness, 1e-300, 1e300))
        middle = np.median(strangeness)
        # 1.4826 makes the median deviation a standard one; log 1.1 stands for "all alike".
        spread = max(1.4826 * float(np.median(np.abs(strangeness - middle))), np.log(1.1))
        kept = strangeness <= middle + limit * spread
        return [other for other, keep in zip(others, kept, strict=True) if keep]

    return rule


def benefit(own: Contribution, ridge: float, others: Sequence[Contribution]) -> list[Contribution]:
    """Only what lowers one's own expected error, most helpful first.

    The estimate is good where there are several times more rows than hidden units: then only
    devices of one's own kind are taken. With fewer rows it errs, mostly towards taking. Merging
    by benefit does not teach what peers know and this device never met: take everyone for that.
    With no rows of one's own there is nothing to judge by, and everyone is taken.
    """
    mine = own.evidence
    if mine.count <= 0:
        return list(others)
    chosen: list[Contribution] = []
    total: Evidence | None = None
    best = expected_error(mine, None, ridge)
    alone = {other.origin: expected_error(mine, other.evidence, ridge) for other in others}
    for other in sorted(others, key=lambda other: alone[other.origin]):
        tried = other.evidence if total is None else total + other.evidence
        error = expected_error(mine, tried, ridge)
        if error < best:
            chosen.append(other)
            total, best = tried, error
    return sorted(chosen, key=lambda other: other.origin)


@dataclass(frozen=True)
class SameGroup:
    """Those that have a part in what MLMG's Algorithm 3 sends back to this device.

    Groups one's own patterns and the others' by ``distance`` and takes whoever is in the groups
    that come back: with one model for everything, the devices of one's own kind (multi-global).
    A contribution is taken whole, with all its patterns. An exchange that groups by itself hands
    out the sums of the groups instead, without what else those devices know.
    """

    distance: str = "evidence"

    def __post_init__(self) -> None:
        require_distance(self.distance)

    def __call__(
        self, own: Contribution, ridge: float, others: Sequence[Contribution]
    ) -> list[Contribution]:
        grouping = group([own, *others], ridge, self.distance)
        partners = StandingGroups(own.evidence.basis, ridge, grouping).partners(own.origin)
        return [other for other in others if other.origin in partners]


@dataclass(frozen=True)
class Cost:
    """What it takes to fetch something, or what may be spent on it."""

    seconds: float = math.inf
    bytes: float = math.inf

    def __post_init__(self) -> None:
        if not (self.seconds >= 0 and self.bytes >= 0):
            raise BadInput(f"a cost can't be negative: {self.seconds} s, {self.bytes} bytes")

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.seconds + other.seconds, self.bytes + other.bytes)

    def share(self, budget: "Cost") -> float:
        """The larger part that this is of its budget; at most 1 if it can be afforded."""
        return max(_share(self.seconds, budget.seconds), _share(self.bytes, budget.bytes))


def within(budget: Cost, costs: Mapping[str, Cost]) -> list[str]:
    """The most devices that can be had within a time and a number of bytes.

    After FedCS (Nishio and Yonetani 2019): cheapest first while the budget lasts. Where one of
    the two limits decides, no choice has more devices; where both do, it is a good one.
    """
    chosen, spent = list[str](), Cost(0.0, 0.0)
    for name in sorted(costs, key=lambda name: (costs[name].share(budget), name)):
        if (spent + costs[name]).share(budget) <= 1.0:
            chosen.append(name)
            spent += costs[name]
    return sorted(chosen)


def _share(cost: float, limit: float) -> float:
    if cost == 0 or limit == math.inf:
        return 0.0
    return cost / limit if limit else math.inf
