"""Terms: what devices of a federation see of each other, how much one weighs, how keys last."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import asdict, dataclass, fields
from typing import Any

from elmgrove.errors import BadInput

#: A device's key reads sums over others, and what is told of all at once.
SUMS = "sums"
#: It reads what each other device contributed as well.
CONTRIBUTIONS = "contributions"

#: The seconds of a day: by days, keys, tokens and records of an audit grow old.
DAY = 86400.0
# A hundred years: a time that every calendar has.
_MOST_DAYS = 36525


@dataclass(frozen=True)
class Terms:
    """What a device's key ``shows`` of others, and the bounds of what one device can weigh.

    A sum is told from so many devices on (``least``). In a sum a device counts with at most
    ``most_rows`` rows, and with at most ``most_times`` as many as the one in the middle has. One
    whose rows have more than ``most_energy``, the mean square of a scaled column, counts with as
    much as is usual, which is 1. None is no bound. A key expires ``key_days`` days after a device
    got it; None is never.

    They hold where a server keeps what devices contributed. In a shared folder each device
    sees every contribution; the bounds hold there as well.
    """

    shows: str = SUMS
    least: int = 1
    most_rows: float | None = None
    most_times: float | None = 10.0
    most_energy: float | None = 1e4
    key_days: float | None = None

    def __post_init__(self) -> None:
        if self.shows not in (SUMS, CONTRIBUTIONS):
            raise BadInput(f"a key shows {SUMS} or {CONTRIBUTIONS}, not {self.shows!r:.40}")
        if type(self.least) is not int or not 1 <= self.least <= 2**31:
            raise BadInput(f"the fewest devices in a sum are 1 or more, not {self.least!r:.40}")
        if self.key_days is not None:
            require_days("key_days", self.key_days)
        for name in ("most_rows", "most_times", "most_energy"):
            bound = getattr(self, name)
            if bound is not None and not _is_positive(bound):
                raise BadInput(f"{name} is a number above 0, or none, not {bound!r:.40}")

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


def require_days(name: str, days: Any) -> float:
    """Gives a number of days after which something ends; ``BadInput`` for what is none."""
    if not _is_positive(days) or days > _MOST_DAYS:
        raise BadInput(f"{name} is a number above 0, at most {_MOST_DAYS}, not {days!r:.40}")
    return float(days)


def tellable(groups: Mapping[int, Set[str]], wanted: Iterable[int], least: int) -> list[int]:
    """Chooses the groups whose sums may be told: each is of at least so many devices.

    So is all that is left out, if anything is: what one device alone is left out with would be the
    sum over everybody without the sums that were told. ``groups`` are the devices of every group.
    """
    kept = sorted((group for group in wanted if len(groups[group]) >= least), key=_by_size(groups))
    while kept and 0 < len(_left_out(groups, kept)) < least:
        kept.pop()
    return sorted(kept)


def of_enough(made: dict[str, Any], device: str | None, least: int) -> dict[str, Any]:
    """Gives a grouping as JSON without the groups of too few others, and then without reasons."""
    if least == 1:
        return made
    members = {(one["group"], one["origin"]) for one in made["models"]}
    others = Counter(group for group, origin in members if origin != device)
    models = [one for one in made["models"] if others[one["group"]] >= least]
    count = len({one["group"] for one in models})
    reasons: dict[str, Any] = {"silhouettes": {}, "steps": [], "refused": None}
    return {**made, "models": models, "groups": count, **reasons}


def _by_size(groups: Mapping[int, Set[str]]) -> Callable[[int], tuple[int, int]]:
    return lambda group: (-len(groups[group]), group)


def _left_out(groups: Mapping[int, Set[str]], kept: Collection[int]) -> set[str]:
    return {name for group, names in groups.items() if group not in kept for name in names}


def _is_positive(bound: Any) -> bool:
    return type(bound) in (int, float) and 0 < bound < math.inf


#: Terms by which everything counts as it is stated.
UNBOUNDED = Terms(most_times=None, most_energy=None)
