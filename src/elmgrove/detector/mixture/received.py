"""What others know, as it came, and where it belongs among the patterns of a device."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Basis, Evidence, fit, groups
from elmgrove.detector.matching import Matching
from elmgrove.detector.mixture.pattern import Pattern
from elmgrove.detector.mixture.pattern_rule import INSTEAD, PatternRule
from elmgrove.errors import BadInput


class Place(NamedTuple):
    """Where some of the received parts belong: to an own pattern by its number, or to none.

    ``also`` are other own patterns, by their numbers, whose rows are in the same group.
    """

    received: tuple[int, ...]
    number: int | None
    also: tuple[int, ...] = ()


class Received:
    """Parts of others in groups: what one model explains as well as several is one group.

    Where a ``matching`` says which own pattern is in which group, each part is a group by itself.
    """

    def __init__(
        self,
        parts: Sequence[Evidence],
        ridge: float,
        basis: Basis,
        rule: PatternRule,
        matching: Matching | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self._instead = rule.others == INSTEAD
        self.matching = matching if self._instead else None
        self._ridge, self._tolerance = ridge, rule.tolerance(basis)
        # A model of no rows at all would explain any row of zeros.
        self._filled = [index for index, part in enumerate(parts) if part.count > 0.0]
        fitted = [] if self.matching else [fit(parts[index], ridge) for index in self._filled]
        found = groups(fitted, self._tolerance)
        self._groups = [
            (members, fit(_added([parts[index] for index in members]), ridge))
            for members in (tuple(self._filled[index] for index in group) for group in found)
        ]

    def sum_at(self, place: Place, own: Sequence[Pattern]) -> Evidence:
        """Adds up what is at a place: received parts, and the rows of patterns in their group."""
        also = [pattern.evidence for pattern in own if pattern.number in place.also]
        return _added([*(self.parts[index] for index in place.received), *also])

    def places(self, own: Sequence[Pattern]) -> list[Place]:
        """Finds for each group the own pattern that one model could serve as well, or none.

        Where others answer instead, what belongs to none has no place (MLMG, Algorithm 3, lines 15
        to 17: it makes more groups than there are patterns here), unless it was matched.
        """
        if self.matching is not None:
            return list(self._matched(self.matching, own))
        known = [
            (pattern.number, fit(pattern.evidence, self._ridge))
            for pattern in own
            if pattern.learned and self._groups
        ]
        places = []
        for members, group in self._groups:
            losses = {number: group.loss_with(mine) for number, mine in known}
            nearest = min(losses, key=lambda number: losses[number], default=None)
            same = nearest is not None and losses[nearest] <= self._tolerance
            if same or not self._instead:
                places.append(Place(members, nearest if same else None))
        return places

    def _matched(self, matching: Matching, own: Sequence[Pattern]) -> Iterator[Place]:
        """Algorithm 3: a group's model in the place of each pattern in it, or beside what is kept.

        Of patterns that were joined since, the one that they are part of; of those that were put
        aside none.
        """
        holder = {number: pattern.number for pattern in own for number in pattern.numbers}
        kept = {holder.get(number) for number in matching.kept}
        for group in sorted({*self._filled, *(group for _, group in matching.groups)}):
            matched = [number for number, one in matching.groups if one == group]
            members = sorted({holder[number] for number in matched if number in holder})
            came = (group,) if group in self._filled else ()
            replaced = [number for number in members if number not in kept]
            for number in replaced:
                also = tuple(other for other in members if other != number)
                if came or also:
                    yield Place(came, number, also)
            # Of one pattern that is kept, and of nobody else, it is that pattern's model.
            if not replaced and (came or len(members) > 1) and (members or not matched):
                yield Place(came, None, tuple(members))

    def fields(self, places: Sequence[Place]) -> dict[str, Any]:
        """Places as JSON holds them, and the matching, if there is one."""
        known = [list(place if place.also else place[:2]) for place in places]
        told = {} if self.matching is None else {"matching": self.matching.fields}
        return {"places": known, **told}

    def saved_places(self, places: Sequence[Sequence[Any]], numbers: Sequence[int]) -> list[Place]:
        """Places as a file has them; ``BadInput`` unless each part with rows has one of those.

        Where others answer instead, a part may have none, or one for each pattern in its group.
        """
        found = [_place(*place) for place in places]
        placed = sorted(index for place in found for index in place.received)
        if not self._instead and placed != self._filled:
            raise BadInput("each received part with rows needs one place")
        named = {number for place in found for number in (place.number, *place.also)}
        if not (named <= {None, *numbers} and {*placed} <= {*self._filled}):
            raise BadInput("a received part has a place that is no pattern")
        return found


def _added(parts: Sequence[Evidence]) -> Evidence:
    """The sum; of one part that part itself, so that what is known of it is not found again."""
    return parts[0] if len(parts) == 1 else Evidence.sum(parts)


def _place(received: Sequence[int], number: int | None, also: Sequence[int] = ()) -> Place:
    return Place(tuple(received), number, tuple(also))


def require_usable(parts: Sequence[Evidence], basis: Basis, dtype: np.dtype[Any]) -> None:
    """Raises unless all parts can be used here, alone and together."""
    for part in parts:
        basis.require(part.basis)
        part.require_admissible("this evidence can't be merged")
    if parts:
        Evidence.sum(parts).require_within(dtype)
