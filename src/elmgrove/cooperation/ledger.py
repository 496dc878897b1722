"""The ledger: what is known of each device, the newest only."""

from collections.abc import Iterable, Iterator

from elmgrove.cooperation.contribution import Contribution
from elmgrove.evidence import Evidence


class Ledger:
    """Origin → newest contribution.

    Joining keeps the newest of each origin, so hearing the same twice, in any order and by any
    route, ends in the same ledger. The sum is taken afresh in the order of the names: equal
    ledgers give equal sums to the last bit, and a device that left leaves no trace in them.
    """

    def __init__(self, contributions: Iterable[Contribution] = ()) -> None:
        self._newest: dict[str, Contribution] = {}
        for contribution in contributions:
            self.join(contribution)

    def join(self, contribution: Contribution) -> bool:
        """Takes a contribution in if it is newer than what is held; says whether it was."""
        held = self._newest.get(contribution.origin)
        if held is not None and held.epoch >= contribution.epoch:
            return False
        self._newest[contribution.origin] = contribution
        return True

    def leave(self, origin: str) -> bool:
        """Takes an origin out; says whether it was there."""
        return self._newest.pop(origin, None) is not None

    def __iter__(self) -> Iterator[Contribution]:
        return (self._newest[origin] for origin in sorted(self._newest))

    def __len__(self) -> int:
        return len(self._newest)

    def __contains__(self, origin: str) -> bool:
        return origin in self._newest

    def total(self) -> Evidence | None:
        """The sum of all that is held; None when that is nothing."""
        return Evidence.sum(held.evidence for held in self) if self._newest else None
