"""What others know, as it came, and where it belongs among the patterns of a device."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Basis, Evidence, fit, groups
from elmgrove.detector.mixture.pattern import Pattern
from elmgrove.errors import BadInput


class Place(NamedTuple):
    """Where some of the received parts belong: to an own pattern by its number, or to none."""

    received: tuple[int, ...]
    number: int | None


class Received:
    """Parts of others in groups: what one model explains as well as several is one group."""

    def __init__(self, parts: Sequence[Evidence], ridge: float, tolerance: float) -> None:
        self.parts = tuple(parts)
        self._ridge, self._tolerance = ridge, tolerance
        # A model of no rows at all would explain any row of zeros.
        filled = [index for index, part in enumerate(parts) if part.count > 0.0]
        found = groups([fit(parts[index], ridge) for index in filled], tolerance)
        self._groups = [
            (members, fit(self.sum(members), ridge))
            for members in (tuple(filled[index] for index in group) for group in found)
        ]

    def sum(self, members: Sequence[int]) -> Evidence:
        """Adds up some of the parts, by their places."""
        if len(members) == 1:
            return self.parts[members[0]]
        return Evidence.sum(self.parts[index] for index in members)

    def places(self, own: Sequence[Pattern]) -> list[Place]:
        """Finds for each group the own pattern that one model could serve as well, or none."""
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
            places.append(Place(members, nearest if same else None))
        return places

    def saved_places(self, places: Sequence[Sequence[Any]], numbers: Sequence[int]) -> list[Place]:
        """Places as a file has them; ``BadInput`` unless each part with rows has one of those."""
        placed = sorted(index for members, _ in places for index in members)
        if placed != [index for index, part in enumerate(self.parts) if part.count > 0.0]:
            raise BadInput("each received part with rows needs one place")
        if not {number for _, number in places} <= {None, *numbers}:
            raise BadInput("a received part has a place that is no pattern")
        return [Place(tuple(members), number) for members, number in places]


def require_usable(parts: Sequence[Evidence], basis: Basis, dtype: np.dtype[Any]) -> None:
    """Raises unless all parts can be used here, alone and together."""
    for part in parts:
        basis.require(part.basis)
        part.require_admissible("this evidence can't be merged")
    if parts:
        Evidence.sum(parts).require_within(dtype)
