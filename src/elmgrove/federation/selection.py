"""Which devices to merge: small rules over what others contributed, none of which needs a row."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from elmgrove.algebra import ONE_KIND, Array, Evidence, all_apart, apart, fit
from elmgrove.errors import BadInput
from elmgrove.federation.entries import Contribution
from elmgrove.federation.groups import EVIDENCE, group, require_distance
from elmgrove.federation.judgement import judge
from elmgrove.federation.standing import StandingGroups

#: A rule's need: the sum over all others.
SUM = "sum"
#: A rule's need: the sums of the groups that come back to the device.
GROUPS = "groups"
#: A rule's need: each contribution, with its parts.
PARTS = "parts"


class Rule(ABC):
    """Chooses among what others contributed. A new one is a small class with ``choose``.

    ``needs`` says what it must be given: an exchange that keeps sums ready hands those out to
    rules that need no more (``SUM``, or ``GROUPS`` by the distance ``grouped_by``). All others
    are given each contribution with its ``PARTS``.
    """

    needs: ClassVar[str] = PARTS
    grouped_by: str | None = None

    @abstractmethod
    def choose(
        self, own: Contribution, ridge: float, others: Sequence[Contribution]
    ) -> list[Contribution]:
        """Chooses those to merge, given one's own contribution and the ridge."""


@dataclass(frozen=True)
class Everyone(Rule):
    """Takes all others."""

    needs = SUM

    def choose(
        self, own: Contribution, ridge: float, others: Sequence[Contribution]
    ) -> list[Contribution]:
        """Chooses all of them."""
        return list(others)


@dataclass(frozen=True)
class Named(Rule):
    """Takes devices that somebody chose by name (Ito 2021, §4.2: a device picks its partners)."""

    names: Collection[str]

    def __post_init__(self) -> None:
        if not self.names:
            raise BadInput("name at least one device to merge")

    def choose(
        self, own: Contribution, ridge: float, others: Sequence[Contribution]
    ) -> list[Contribution]:
        """Chooses those with one of the names."""
        return [other for other in others if other.origin in self.names]


@dataclass(frozen=True)
class Quality(Rule):
    """Leaves out devices that most others do not resemble.

    After Qin et al. 2020 (selective model aggregation), where a server tests models on data
    of its own; here the others' evidence takes the place of that data.

    By distance: takes those that this device and at least half of all are like, up to
    ``tolerance`` beyond chance; a device without rows leaves it to the others. Where several kinds
    are together and none is the majority, nobody is taken: ``SameGroup`` is for mixtures.

    By loss: leaves out models that explain the others' rows far worse than usual, and rows that the
    others' models explain far worse than usual; ``limit`` counts robust standard deviations above
    the median, on a log scale. That needs at least four others.
    """

    limit: float = 3.0
    tolerance: float = ONE_KIND

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise BadInput(f"the limit of quality must be above 0, not {self.limit}")
        if not self.tolerance >= 0:
            raise BadInput(f"the tolerance of quality can't be {self.tolerance}")

    def choose(
        self, own: Contribution, ridge: float, others: Sequence[Contribution]
    ) -> list[Contribution]:
        """Chooses all but the odd ones out."""
        if own.basis.score == "distance":
            return self._vouched_for(own, others)
        if len(others) < 4:
            return list(others)
        found = judge(others, ridge)
        kept = self._usual(found.strangeness) & self._usual(found.foreignness)
        return [other for other, keep in zip(others, kept, strict=True) if keep]

    def _usual(self, times: Array) -> Array:
        worse = np.log(np.clip(times, 1e-300, 1e300))
        middle = np.median(worse)
        # 1.4826 makes the median deviation a standard one; log 1.1 stands for "all alike".
        spread = max(1.4826 * float(np.median(np.abs(worse - middle))), np.log(1.1))
        usual: Array = worse <= middle + self.limit * spread
        return usual

    def _vouched_for(self, own: Contribution, others: Sequence[Contribution]) -> list[Contribution]:
        filled = [one for one in (own, *others) if one.evidence.count > 0]
        usual = _usual(filled, self.tolerance)
        liked = _near(own.evidence, usual, self.tolerance) if own.evidence.count > 0 else usual
        return [one for one in others if any(one is kept for kept in liked)]


def _near(mine: Evidence, others: Sequence[Contribution], tolerance: float) -> list[Contribution]:
    """Those that are like this evidence, nearest first."""
    own = fit(mine, 0.0)
    known = [(apart(own, fit(one.evidence, 0.0)), one) for one in others if one.evidence.count > 0]
    near = [(away, one.origin, one) for away, one in known if away <= tolerance]
    return [one for _, _, one in sorted(near, key=lambda found: found[:2])]


def _usual(devices: Sequence[Contribution], tolerance: float) -> list[Contribution]:
    """Those of these devices that at least half of the others among them are like."""
    if len(devices) < 2:
        return list(devices)
    alike = all_apart([fit(one.evidence, 0.0) for one in devices]) <= tolerance
    np.fill_diagonal(alike, False)
    usual = 2 * alike.sum(axis=0) >= len(devices) - 1
    return [one for one, keep in zip(devices, usual, strict=True) if keep]


@dataclass(frozen=True)
class SameGroup(Rule):
    """Takes devices that have a part in what MLMG's Algorithm 3 sends back to this one.

    Groups one's own patterns and the others' by a distance and takes the devices in the groups
    that come back: with one model for everything, those whose rows are like one's own
    (multi-global). A contribution is taken whole, with all its patterns. An exchange that groups by
    itself hands out the sums of the groups instead, without what else those devices know.
    """

    needs = GROUPS

    grouped_by: str = EVIDENCE

    def __post_init__(self) -> None:
        require_distance(self.grouped_by)

    def choose(
        self, own: Contribution, ridge: float, others: Sequence[Contribution]
    ) -> list[Contribution]:
        """Chooses the partners in one's own groups."""
        grouping = group([own, *others], ridge, self.grouped_by)
        partners = StandingGroups(own.basis, ridge, grouping).partners(own.origin)
        return [other for other in others if other.origin in partners]


#: The rules that a setting can name.
RULES: dict[str, Rule] = {"everyone": Everyone(), "group": SameGroup(), "quality": Quality()}


def rule_of(text: str) -> Rule:
    """Makes the rule that a setting names: one of ``RULES``, or devices by name, with commas."""
    return RULES[text] if text in RULES else Named(text.split(","))
