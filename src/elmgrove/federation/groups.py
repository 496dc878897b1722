"""Groups: which patterns of which devices one model explains as well (MLMG, multi-global)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.kmeans import cluster, k_means
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import Step, apart, fit, join, kind_tolerance
from elmgrove.errors import BadInput, require_whole
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.sums import BoundedSum

#: What Algorithm 1 tries unless a number of groups is asked for.
MOST_GROUPS = 16
#: A weaker structure than this is none; the paper's Algorithm 1 has no such limit for users (−1).
SILHOUETTE = 0.1


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

    ``labels`` has the group of each of ``models``; new groups are numbered in the order of
    their first member. By ``parameters``: ``silhouettes`` of each number of groups that was tried.
    By ``evidence``: ``steps`` are the joins (by places in ``models``) with the loss of each, and
    ``refused`` is the next one, which was not made any more. Standing groups have no reasons.
    """

    distance: str
    models: tuple[LocalPattern, ...]
    labels: tuple[int, ...]
    silhouettes: dict[int, float] = field(default_factory=dict)
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
        inside = [s.loss for s in self.steps if self.labels[s.first[0]] == group]
        return max(inside, default=0.0)

    @property
    def fields(self) -> dict[str, Any]:
        """The grouping as JSON holds it."""
        models = [
            {"origin": origin, "pattern": pattern, "rows": evidence.count, "group": label}
            for (origin, pattern, evidence), label in zip(self.models, self.labels, strict=True)
        ]
        return {
            "distance": self.distance,
            "groups": self.count,
            "models": models,
            "silhouettes": {str(count): score for count, score in self.silhouettes.items()},
            "steps": [step._asdict() for step in self.steps],
            "refused": None if self.refused is None else self.refused._asdict(),
        }


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


def by_evidence(
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
    limit, least = (tolerance, 1) if count is None else (np.inf, _wanted(count, models))
    found = join([fit(model.evidence, ridge) for model in models], limit, least)
    labels = np.empty(len(models), np.intp)
    for label, group in enumerate(found.groups):
        labels[group] = label
    return Grouping(
        "evidence", tuple(models), _ordered(labels), {}, tuple(found.steps), found.refused
    )


def by_parameters(
    contributions: Iterable[Contribution],
    ridge: float,
    count: int | None = None,
    *,
    silhouette: float = SILHOUETTE,
) -> Grouping:
    """Groups patterns by K-means on the parameters β, as many as the silhouette says (Algorithm 1).

    With a ``count``, so many groups. Close parameters do not mean that one model serves both:
    the distance knows nothing of where the rows lie. ``by_evidence`` asks just that. A score by
    distance has no β: there this is refused.
    """
    models = local_models(contributions)
    for model in models[:1]:
        require_parameters(model.evidence.basis)
    X = _coordinates(np.array([parameters(model.evidence, ridge) for model in models]))
    if count is not None:
        labels = k_means(X, _wanted(count, models))
        return Grouping("parameters", tuple(models), _ordered(labels))
    if not models:
        return Grouping("parameters", (), ())
    found = cluster(X, MOST_GROUPS, silhouette)
    return Grouping("parameters", tuple(models), _ordered(found.labels), found.scores)


#: The distance by which groups are told apart unless another is asked for.
EVIDENCE = "evidence"
#: All distances by name, each with what makes groups by it.
DISTANCES: dict[str, Callable[..., Grouping]] = {
    EVIDENCE: by_evidence,
    "parameters": by_parameters,
}


def group(
    contributions: Iterable[Contribution],
    ridge: float,
    distance: str = EVIDENCE,
    count: int | None = None,
) -> Grouping:
    """Groups by the ``distance`` of that name: so many, or as many as it finds."""
    require_distance(distance)
    return DISTANCES[distance](contributions, ridge, count)


def require_distance(distance: object) -> None:
    """Raises ``BadInput`` unless ``distance`` is the name of one."""
    if not isinstance(distance, str) or distance not in DISTANCES:
        raise BadInput(f"distance must be one of {', '.join(DISTANCES)}, not {distance!r:.40}")


def require_parameters(basis: Basis) -> None:
    """Raises ``BadInput`` unless models of this basis have parameters β to be compared by."""
    if basis.score == "distance":
        raise BadInput(
            "devices that score by distance have no parameters β to be grouped by: group them by "
            "evidence"
        )


def parameters(evidence: Evidence, ridge: float) -> Array:
    """Solves for β as one vector, which the paper compares models by."""
    beta: Array = np.asarray(evidence.solve(ridge), np.float64).ravel()
    return beta


def _wanted(count: int, models: Sequence[LocalPattern]) -> int:
    require_whole("groups", count, 1)
    if count > len(models):
        raise BadInput(f"{len(models)} patterns with rows can't make {count} groups")
    return count


def _coordinates(X: Array) -> Array:
    """Points that lie as far from each other, with as few numbers as there are points."""
    if X.shape[0] >= X.shape[-1]:
        return X
    return np.asarray(np.linalg.qr(X.T, mode="r")).T


def _ordered(labels: Array) -> tuple[int, ...]:
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
    for model, group in zip(grouping.models, grouping.labels, strict=True):
        own.setdefault(model.origin, []).append(group)
    return {origin: coming_back(groups, grouping.numbers) for origin, groups in own.items()}


def coming_back(groups: Sequence[int], numbers: Sequence[int]) -> tuple[int | None, ...]:
    """Says which of all groups' models replace those of a client whose models are in ``groups``."""
    if len(groups) >= len(numbers):
        return (*numbers, *[None] * (len(groups) - len(numbers)))
    return tuple(groups)


class Nearest(Protocol):
    """Finds a pattern's group, and is told of every pattern that joins or leaves one."""

    def group_for(self, model: LocalPattern) -> int | None:
        """Finds the group that a pattern belongs to; None if it belongs to none of them."""
        ...

    def joined(self, model: LocalPattern, group: int) -> None:
        """Takes note that a pattern is in this group now."""
        ...

    def left(self, model: LocalPattern, group: int) -> None:
        """Takes note that a pattern is in this group no more."""
        ...


class NearestCentre:
    """MLMG's Algorithm 2, user clustering: the nearest centre (L2 of β), which moves.

    A centre is the mean of its members' parameters, computed each time, so that nothing is left of
    a member that is gone. The number of groups stays: a centre whose last member left remains
    where it was.
    """

    def __init__(self, ridge: float) -> None:
        self._ridge = ridge
        self._members = dict[int, dict[tuple[str, int], Array]]()
        self.centres = dict[int, Array]()

    def group_for(self, model: LocalPattern) -> int | None:
        """Finds the group with the nearest centre; None only where there are no centres yet."""
        # Lines 13 to 16: the distance to each centre, and the nearest.
        W = parameters(model.evidence, self._ridge)
        distances = {k: float(np.linalg.norm(W - C)) for k, C in self.centres.items()}
        return min(distances, key=lambda k: distances[k], default=None)

    def joined(self, model: LocalPattern, group: int) -> None:
        """Moves a group's centre to include a pattern."""
        members = self._members.setdefault(group, {})
        members[model.name] = parameters(model.evidence, self._ridge)
        self._move(group)

    def left(self, model: LocalPattern, group: int) -> None:
        """Moves a group's centre to exclude a pattern."""
        del self._members[group][model.name]
        self._move(group)

    def _move(self, group: int) -> None:
        # Line 17, in the order of the names: equal members give an equal centre to the last bit.
        members = self._members[group]
        if members:
            self.centres[group] = np.mean([members[name] for name in sorted(members)], axis=0)


class NearestFit:
    """The group of which one model explains both as well as two do, within a ``tolerance``.

    By distance: whose rows lie about as near to it, and its rows to them, as they do to themselves,
    but for chance. Of several the one that loses least. Needs no fixed number of groups: what is
    like none of them is a new one. Takes a solution for each group.
    """

    def __init__(self, sums: Mapping[int, BoundedSum], ridge: float, tolerance: float) -> None:
        self._sums = sums
        self._ridge = ridge
        self._tolerance = tolerance
        self._fits = dict[int, Any]()

    def group_for(self, model: LocalPattern) -> int | None:
        """Finds the group that loses least by taking a pattern in; None if all lose too much."""
        fitted = fit(model.evidence, self._ridge)
        filled = [group for group, total in self._sums.items() if total.devices]
        losses = {group: apart(self._fit(group), fitted) for group in filled}
        least = min(losses, key=lambda group: losses[group], default=None)
        return least if least is not None and losses[least] <= self._tolerance else None

    def joined(self, model: LocalPattern, group: int) -> None:
        """Forgets the group's model: its sum is another one now."""
        self._fits.pop(group, None)

    def left(self, model: LocalPattern, group: int) -> None:
        """Forgets the group's model: its sum is another one now."""
        self._fits.pop(group, None)

    def _fit(self, group: int) -> Any:
        if group not in self._fits:
            self._fits[group] = fit(self._sums[group].evidence(), self._ridge)
        return self._fits[group]
