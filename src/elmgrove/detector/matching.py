"""Matching: which own patterns are in which group that came back from others (MLMG)."""

from dataclasses import dataclass, replace
from typing import Any

from elmgrove.errors import BadInput, require_whole


@dataclass(frozen=True)
class Matching:
    """What MLMG's Algorithm 3 puts in the place of which pattern of a device.

    ``groups`` has the patterns of the device, and for each the group it is in: the place of the sum
    that came back for that group, or a number beyond these for a group of nobody else. ``kept`` are
    the patterns that nothing takes the place of: those that a device has more than there are
    groups. An exchange names patterns by their place in the contribution, a detector by number.
    """

    groups: tuple[tuple[int, int], ...]
    kept: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for number in (*self.kept, *(one for pair in self.groups for one in pair)):
            require_whole("matching", number, 0)
        patterns = [pattern for pattern, _ in self.groups]
        if len(set(patterns)) < len(patterns) or not {*self.kept} <= {*patterns}:
            raise BadInput("each pattern is in one group, also those that are kept")

    def numbered(self, numbers: tuple[int, ...]) -> "Matching":
        """Gives the same with the number of each pattern instead of its place."""
        return replace(
            self,
            groups=tuple((numbers[place], group) for place, group in self.groups),
            kept=tuple(numbers[place] for place in self.kept),
        )

    @property
    def fields(self) -> dict[str, Any]:
        """The matching as JSON holds it."""
        return {"groups": [list(pair) for pair in self.groups], "kept": list(self.kept)}

    @classmethod
    def from_fields(cls, fields: dict[str, Any] | None) -> "Matching | None":
        """Makes a matching of what ``fields`` gave; None of nothing."""
        if fields is None:
            return None
        return cls(tuple((one, group) for one, group in fields["groups"]), tuple(fields["kept"]))
