"""Which devices to merge: small rules over what others contributed, none of which needs a row."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import ONE_KIND, all_apart, apart, fit, mean_scores
from elmgrove.errors import BadInput
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import EVIDENCE, group, require_distance
from elmgrove.federation.standing import StandingGroups

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """``error[i, j]``: how anomalous the rows behind j's evidence are to i's model, in the mean.

    By distance that is how many times as far they lie as typical rows of i; by loss the mean
    squared error, and the diagonal is what each model leaves unexplained of its own rows. NaN where
    a device has no rows to be judged on.
    """

    names: tuple[str, ...]
    error: Matrix

    @property
    def strangeness(self) -> Matrix:
        """How many times worse each model explains the others than they do themselves.

        The median over the others, so that a single anomalous device makes only itself anomalous.
        """
        return _middle(self._beside(self._own))

    @property
    def foreignness(self) -> Matrix:
        """How many times worse the others explain each device's rows than they do their own.

        The median over the others. A model that was made to explain everybody's rows is not
        anomalous; what it has learned beside them is foreign all the same.
        """
        return _middle(self._beside(self._own[:, np.newaxis]).T)

    @property
    def _own(self) -> Matrix:
        own: Matrix = np.maximum(self.error.diagonal(), np.finfo(np.float64).tiny)
        return own

    def _beside(self, own: Matrix) -> Matrix:
        # What is beyond range is infinitely worse, and says so in the median.
        with np.errstate(over="ignore", invalid="ignore"):
            ratio: Matrix = self.error / own
        np.fill_diagonal(ratio, np.nan)
        return ratio


def _middle(ratio: Matrix) -> Matrix:
    """The median of each line; 1 where there is nothing to judge by."""
    usable = ~np.isnan(ratio).all(axis=1)
    middle = np.ones(len(ratio))
    middle[usable] = np.nanmedian(ratio[usable], axis=1)
    return middle


def judge(contributions: Sequence[Contribution], ridge: float) -> Judgement:
    """Judges every model on every evidence, without a row."""
    evidences = [contribution.evidence for contribution in contributions]
    for evidence in evidences[1:]:
        evidences[0].basis.require(evidence.basis)
    names = tuple(contribution.origin for contribution in contributions)
    if not evidences:
        return Judgement((), np.zeros((0, 0)))
    if evidences[0].basis.score == "distance":
        return Judgement(names, _distances(evidences))
    return Judgement(names, _errors(evidences, ridge))


def _distances(evidences: Sequence[Evidence]) -> Matrix:
    """How far rows like each one's lie from each other one, from their moments."""
    known = [n for n, evidence in enumerate(evidences) if evidence.count > 0]
    # A model of no rows explains nothing.
    error = np.full((len(evidences), len(evidences)), np.inf)
    error[np.ix_(known, known)] = mean_scores([fit(evidences[n], 0.0).distance for n in known])
    error[:, [n for n, evidence in enumerate(evidences) if not evidence.count > 0]] = np.nan
    return error


def _errors(evidences: Sequence[Evidence], ridge: float) -> Matrix:
    """Mean squared errors: energy − 2 tr(βᵀV) + tr(βᵀUβ), all pairs at once."""
    betas = [np.asarray(evidence.solve(ridge), np.float64) for evidence in evidences]
    # tr(βᵀUβ) = ⟨ββᵀ, U⟩ makes one matrix product of all pairs.
    energy = np.array([evidence.energy for evidence in evidences])
    values = np.array([evidence.count * evidence.basis.outputs for evidence in evidences])
    # Evidence that overflows here is a stranger's doing; its error is made infinite below.
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = _rows(betas) @ _rows([evidence.V for evidence in evidences]).T
        size = _rows([b @ b.T for b in betas]) @ _rows([evidence.U for evidence in evidences]).T
        squared = np.maximum(energy - 2.0 * fitted + size, 0.0)
    # A model beyond the range of numbers explains nothing, rather than nobody knows what.
    squared[np.isnan(squared)] = np.inf
    unknown = np.full_like(squared, np.nan)
    error: Matrix = np.divide(squared, values, out=unknown, where=values > 0)
    return error


def _rows(matrices: Sequence[Matrix]) -> Matrix:
    return np.stack([np.asarray(matrix, np.float64).ravel() for matrix in matrices])


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
