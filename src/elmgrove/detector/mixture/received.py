"""What others know, as it came, and where it belongs among the patterns of a device."""

from collections.abc import Sequence
from typing import NamedTuple

from elmgrove.algebra import Basis, Evidence, Fitted, groups
from elmgrove.detector.mixture.pattern import Pattern


class Place(NamedTuple):
    """Where some of what was received belongs: an own pattern's number, or none of them."""

    received: tuple[int, ...]
    number: int | None


class Received:
    """Evidence of others by kind: what one model explains as well as several is one."""

    def __init__(self, parts: Sequence[Evidence], ridge: float, tolerance: float) -> None:
        self.parts = tuple(parts)
        self._ridge, self._tolerance = ridge, tolerance
        # A model of no rows at all would explain any row of zeros.
        filled = [index for index, part in enumerate(parts) if part.count > 0.0]
        found = groups([Fitted(parts[index], ridge) for index in filled], tolerance)
        self._kinds = [
            (members, Fitted(self.sum(members), ridge))
            for members in (tuple(filled[index] for index in group) for group in found)
        ]

    @staticmethod
    def require_fitting(parts: Sequence[Evidence], basis: Basis) -> None:
        """Raises unless these can be taken in by a device with this basis."""
        for part in parts:
            basis.require(part.basis)
            part.require_admissible("this evidence can't be merged")

    def sum(self, members: Sequence[int]) -> Evidence:
        """Some of what was received, by its places."""
        return Evidence.sum(self.parts[index] for index in members)

    def places(self, own: Sequence[Pattern]) -> list[Place]:
        """The pattern of the same kind for each kind, or none."""
        known = [
            (pattern.number, Fitted(pattern.evidence, self._ridge))
            for pattern in own
            if pattern.learned and self._kinds
        ]
        places = []
        for members, kind in self._kinds:
            losses = {number: kind.loss_with(mine) for number, mine in known}
            nearest = min(losses, key=lambda number: losses[number], default=None)
            same = nearest is not None and losses[nearest] <= self._tolerance
            places.append(Place(members, nearest if same else None))
        return places
