"""Groups: which patterns of which devices one model explains as well (MLMG, multi-global)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import Step, fit, join, kind_tolerance
from elmgrove.errors import BadInput, require_whole
from elmgrove.federation.contribution import Contribution


class LocalPattern(NamedTuple):
    """A local model: the pattern of a device, by its place in the contribution."""

    origin: str
    pattern: int
    evidence: Evidence

    @property
    def name(self) -> tuple[str, int]:
        """What tells it from all others."""
        return self.origin, self.pattern


@dataclass(frozen=True)
class Grouping:
    """The group of each local model, and why.

    ``labels`` has the group of each of ``models``; new groups are numbered in the order of their
    first member. ``steps`` are the joins (by places in ``models``) with the loss of each, and
    ``refused`` is the next one, which was not made any more. Standing groups have no reasons.
    """

    models: tuple[LocalPattern, ...] = ()
    labels: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()
    refused: Step | None = None

    @property
    def numbers(self) -> list[int]:
        """The groups that there are; of standing ones, some numbers may be unused."""
        return sorted(set(self.labels))

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.numbers)

    def members(self, group: int) -> tuple[LocalPattern, ...]:
        """Lists the local models of a group."""
        pairs = zip(self.models, self.labels, strict=True)
        return tuple(model for model, label in pairs if label == group)

    def loss_within(self, group: int) -> float:
        """Finds the largest loss at which a part of this group was joined; 0 if it is alone."""
        inside = [step.loss for step in self.steps if self.labels[step.first[0]] == group]
        return max(inside, default=0.0)


def local_models(contributions: Iterable[Contribution]) -> list[LocalPattern]:
    """Lists all patterns with rows, in the order of the devices' names."""
    ordered = sorted(contributions, key=lambda contribution: contribution.origin)
    models = [
        LocalPattern(held.origin, pattern, evidence)
        for held in ordered
        for pattern, evidence in enumerate(held.parts)
        if evidence.count > 0
    ]
    for model in models[1:]:
        models[0].evidence.basis.require(model.evidence.basis)
    return models


def group(
    contributions: Iterable[Contribution],
    ridge: float,
    count: int | None = None,
    *,
    tolerance: float | None = None,
) -> Grouping:
    """Groups of what one model explains as well as several, up to ``tolerance`` for each join.

    With a ``count``, joins until so many are left, whatever is lost. By loss it says what belongs
    together where patterns have several times more rows than hidden units; with few rows they stay
    apart. By distance ``tolerance`` is beyond what chance explains of so many rows, and is on the
    mean over all inputs: a column that is moved by three of its own deviations makes 1 of 4, and
    0.1 of 38. A column that never moved on one device and does on the other sets them far apart.
    """
    models = local_models(contributions)
    if tolerance is None:
        tolerance = kind_tolerance(models[0].evidence.basis) if models else 0.0
    limit, least = (tolerance, 1)
    if count is not None:
        require_whole("groups", count, 1)
        if count > len(models):
            raise BadInput(f"{len(models)} patterns with rows can't make {count} groups")
        limit, least = np.inf, count
    found = join([fit(model.evidence, ridge) for model in models], limit, least)
    labels = np.empty(len(models), np.intp)
    for label, members in enumerate(found.groups):
        labels[members] = label
    return Grouping(tuple(models), in_order(labels), tuple(found.steps), found.refused)


def in_order(labels: Array) -> tuple[int, ...]:
    """Numbers groups in the order in which they first occur."""
    names: dict[int, int] = {}
    return tuple(names.setdefault(int(label), len(names)) for label in labels)


def returned(grouping: Grouping) -> dict[str, tuple[int | None, ...]]:
    """Says which group's model replaces each model of each client (back matching).

    A client with at least as many local models as there are groups gets all of them, the k-th in
    the place of its k-th model, and keeps what it has beyond that (None). Another gets, for
    each of its models, the one that this model belongs to. Where the rows of a device are of few
    groups only, the first case replaces what it knew by what others know: that is the paper's.
    """
    own: dict[str, list[int]] = {}
    for model, label in zip(grouping.models, grouping.labels, strict=True):
        own.setdefault(model.origin, []).append(label)
    return {origin: coming_back(labels, grouping.numbers) for origin, labels in own.items()}


def coming_back(groups: Sequence[int], numbers: Sequence[int]) -> tuple[int | None, ...]:
    """Says which of all groups' models replace those of a client whose models are in ``groups``."""
    if len(groups) >= len(numbers):
        return (*numbers, *[None] * (len(groups) - len(numbers)))
    return tuple(groups)
