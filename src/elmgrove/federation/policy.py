"""Terms: from how many devices a sum is told, how much one of them weighs, how long keys last."""

import math
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import asdict, dataclass, fields
from typing import Any

from elmgrove.errors import BadInput

#: The seconds of a day: by days, keys, tokens and records of an audit grow old.
DAY = 86400.0


@dataclass(frozen=True)
class Terms:
    """What devices of a federation may know of each other, and how much one of them can weigh.

    A sum is told from ``least`` devices on; where devices share a folder or a broker each sees
    every contribution, and only a server can keep that. In a sum a device counts with at most
    ``most_rows`` rows; None is no bound. A key expires ``key_days`` days after a device got it;
    None is never.
    """

    least: int = 1
    most_rows: float | None = 1e6
    key_days: float | None = None

    def __post_init__(self) -> None:
        if type(self.least) is not int or not 1 <= self.least <= 2**31:
            raise BadInput(f"the fewest devices in a sum are 1 or more, not {self.least!r:.40}")
        if self.most_rows is not None and not _is_positive(self.most_rows):
            raise BadInput(f"most_rows is a number above 0, or none, not {self.most_rows!r:.40}")
        if self.key_days is not None:
            require_days("key_days", self.key_days)

    @property
    def fields(self) -> dict[str, Any]:
        """The terms as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_fields(cls, stated: Any) -> "Terms":
        """Makes terms of what ``fields`` gave; what is not stated is as usual."""
        known = {field.name for field in fields(cls)}
        if not isinstance(stated, dict) or not stated.keys() <= known:
            raise BadInput(f"terms are an object with {', '.join(sorted(known))}: {stated!r:.80}")
        return cls(**stated)


#: Terms by which everything counts as it is stated.
UNBOUNDED = Terms(most_rows=None)


def require_days(name: str, days: Any) -> float:
    """Gives a number of days after which something ends; ``BadInput`` for what is none."""
    # A hundred years: a time that every calendar has.
    if not _is_positive(days) or days > 36525:
        raise BadInput(f"{name} is a number above 0, at most 36525, not {days!r:.40}")
    return float(days)


def tellable(groups: Mapping[int, Set[str]], wanted: Iterable[int], least: int) -> list[int]:
    """Chooses the groups whose sums may be told: each is of at least so many devices.

    So is all that is left out, if anything is: what one device alone is left out with would be the
    sum over everybody without the sums that were told. ``groups`` are the devices of every group.
    """
    kept = [group for group in wanted if len(groups[group]) >= least]
    kept.sort(key=lambda group: (-len(groups[group]), group))
    while kept and 0 < len(_left_out(groups, kept)) < least:
        kept.pop()
    return sorted(kept)


def _left_out(groups: Mapping[int, Set[str]], kept: Collection[int]) -> set[str]:
    return {name for group, names in groups.items() if group not in kept for name in names}


def _is_positive(bound: Any) -> bool:
    return type(bound) in (int, float) and 0 < bound < math.inf
