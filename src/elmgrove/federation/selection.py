"""Whom to learn from: small rules over what others contributed, none of which needs a row."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import ONE_KIND, all_chances, fit, mean_scores
from elmgrove.errors import BadInput
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import StandingGroups, group

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """The names of the devices to learn from, and why others are left out."""

    names: frozenset[str]
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgement:
    """``error[i, j]``: how anomalous the rows behind j's evidence are to i's model, in the mean.

    By distance that is how many times as far they lie as typical rows of i; by loss the mean
    squared error, and the diagonal is what each model leaves unexplained of its own rows. NaN where
    a device has no rows to be judged on.
    """

    names: tuple[str, ...]
    error: Matrix
    #: By distance: how much farther rows of two of one kind may lie from each other by chance.
    chances: Matrix | None = None

    def of(self, names: Sequence[str]) -> "Judgement":
        """Gives the table of some of the devices."""
        places = {name: place for place, name in enumerate(self.names)}
        some = np.ix_(*[[places[name] for name in names]] * 2)
        chances = None if self.chances is None else self.chances[some]
        return Judgement(tuple(names), self.error[some], chances)

    @property
    def with_rows(self) -> "Judgement":
        """The table of those that have rows to be judged on."""
        known = np.flatnonzero(~np.isnan(self.error).all(axis=0))
        return self.of([self.names[place] for place in known.tolist()])

    def keeping(self, kept: Collection[str], device: str = "") -> Choice:
        """Keeps some, and says of all others but the device itself how much worse they are."""
        worse = np.maximum(self.strangeness, self.foreignness).tolist()
        left_out = {
            name: f"{times:,.0f} times worse" if 2.0 <= times < 1e6 else "unlike the others"
            for name, times in zip(self.names, worse, strict=True)
            if name not in kept and name != device
        }
        return Choice(frozenset(kept), left_out)

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
        chances = all_chances([fit(evidence, 0.0) for evidence in evidences])
        return Judgement(names, _distances(evidences), chances)
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


class Rule(ABC):
    """Chooses among what devices contributed. A new one is a small class with ``choose``.

    The text of a rule is what a setting names it by.
    """

    @abstractmethod
    def choose(self, device: str, contributions: Sequence[Contribution], ridge: float) -> Choice:
        """Chooses whom a device learns from, of all that contributed; maybe it did so itself."""


@dataclass(frozen=True)
class Everyone(Rule):
    """Takes all others."""

    def choose(self, device: str, contributions: Sequence[Contribution], ridge: float) -> Choice:
        """Chooses all of them."""
        return Choice(frozenset(one.origin for one in contributions) - {device})

    def __str__(self) -> str:
        return "everyone"


@dataclass(frozen=True)
class Named(Rule):
    """Takes devices that somebody chose by name (Ito 2021, §4.2: a device picks its partners)."""

    names: Collection[str]

    def __post_init__(self) -> None:
        if not self.names or not all(self.names):
            raise BadInput("name at least one device to merge, and none without letters")

    def choose(self, device: str, contributions: Sequence[Contribution], ridge: float) -> Choice:
        """Chooses those with one of the names."""
        there = {one.origin for one in contributions}
        missing = sorted({*self.names} - there - {device})
        chosen = frozenset(there & {*self.names}) - {device}
        return Choice(chosen, dict.fromkeys(missing, "contributed nothing"))

    def __str__(self) -> str:
        return ",".join(self.names)


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

    def __str__(self) -> str:
        return "quality"

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise BadInput(f"the limit of quality must be above 0, not {self.limit}")
        if not self.tolerance >= 0:
            raise BadInput(f"the tolerance of quality can't be {self.tolerance}")

    def choose(self, device: str, contributions: Sequence[Contribution], ridge: float) -> Choice:
        """Chooses all but the odd ones out."""
        return self.choose_by(device, judge(contributions, ridge))

    def choose_by(self, device: str, found: Judgement) -> Choice:
        """Chooses by a table of all, which is the same for each device."""
        if found.chances is not None:
            return self._alike(device, found.with_rows)
        others = found.of([name for name in found.names if name != device])
        if len(others.names) < 4:
            return Choice(frozenset(others.names))
        kept = self._usual(others.strangeness) & self._usual(others.foreignness)
        return others.keeping({one for one, keep in zip(others.names, kept, strict=True) if keep})

    def _usual(self, times: Array) -> Array:
        worse = np.log(np.clip(times, 1e-300, 1e300))
        middle = np.median(worse)
        # 1.4826 makes the median deviation a standard one; log 1.1 stands for "all alike".
        spread = max(1.4826 * float(np.median(np.abs(worse - middle))), np.log(1.1))
        usual: Array = worse <= middle + self.limit * spread
        return usual

    def _alike(self, device: str, found: Judgement) -> Choice:
        # What joining two loses beyond chance, as groups have it.
        losses = np.maximum(found.error, found.error.T) - 1.0
        alike = losses - np.asarray(found.chances) <= self.tolerance
        np.fill_diagonal(alike, False)
        kept = 2 * alike.sum(axis=0) >= len(found.names) - 1
        if device in found.names:
            kept &= alike[found.names.index(device)]
        chosen = {name for name, keep in zip(found.names, kept, strict=True) if keep}
        return found.keeping(chosen - {device}, device)


@dataclass(frozen=True)
class SameGroup(Rule):
    """Takes devices that have a part in what MLMG's Algorithm 3 sends back to this one.

    Those in whose groups this device's own patterns are: with one model for everything, those whose
    rows are like one's own (multi-global).
    """

    def choose(self, device: str, contributions: Sequence[Contribution], ridge: float) -> Choice:
        """Chooses the partners in one's own groups."""
        if not contributions:
            return Choice(frozenset())
        grouping = group(contributions, ridge)
        groups = StandingGroups(contributions[0].basis, ridge, grouping)
        return in_groups(device, groups, contributions)

    def __str__(self) -> str:
        return "group"


def in_groups(
    device: str, groups: StandingGroups, contributions: Sequence[Contribution], least: int = 1
) -> Choice:
    """Chooses a device's partners by groups that are there already."""
    partners = groups.partners(device, least)
    others = {one.origin for one in contributions} - {device}
    return Choice(partners, dict.fromkeys(sorted(others - partners), "of another group"))


EVERYONE = Everyone()
#: The rules that a setting can name.
RULES: dict[str, Rule] = {"everyone": EVERYONE, "group": SameGroup(), "quality": Quality()}


def rule_of(text: str) -> Rule:
    """Makes the rule that a setting names: one of ``RULES``, or devices by name, with commas."""
    return RULES[text] if text in RULES else Named(tuple(text.split(",")))
