"""The ledger: what is known of each device, the newest only."""

from collections.abc import Iterable, Iterator

from elmgrove.algebra.evidence import Evidence
from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.departure import Departure, Entry


class Ledger:
    """Origin → newest entry: what that device contributed, or that it left.

    Joining keeps the newest of each origin, so hearing the same twice, in any order and by any
    route, ends in the same ledger. The sum is taken afresh in the order of the names: equal
    ledgers give equal sums to the last bit, and a device that left leaves no trace in them.
    Iterating gives the contributions, in the order of the names.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._newest: dict[str, Entry] = {}
        for entry in entries:
            self.join(entry)

    @property
    def entries(self) -> list[Entry]:
        """Contributions and departures, in the order of the names: all there is to pass on."""
        return [self._newest[origin] for origin in sorted(self._newest)]

    @property
    def departures(self) -> list[Departure]:
        """Who is known to have left."""
        return [entry for entry in self.entries if isinstance(entry, Departure)]

    def get(self, origin: str) -> Entry | None:
        """What is known of a device."""
        return self._newest.get(origin)

    def join(self, entry: Entry) -> bool:
        """Takes an entry in if it is newer than what is held; says whether it was."""
        held = self._newest.get(entry.origin)
        if held is not None and not _newer(entry, held):
            return False
        self._newest[entry.origin] = entry
        return True

    def forget(self, origin: str) -> bool:
        """Takes a contribution out, until it is heard of again; says whether it was there."""
        if origin not in self:
            return False
        del self._newest[origin]
        return True

    def __iter__(self) -> Iterator[Contribution]:
        return (entry for entry in self.entries if isinstance(entry, Contribution))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, origin: str) -> bool:
        return isinstance(self._newest.get(origin), Contribution)

    @property
    def kinds(self) -> list[Evidence]:
        """The evidence of each pattern of each contribution, in the order of the names."""
        return [kind for held in self for kind in held.kinds]

    def total(self) -> Evidence | None:
        """The sum of all contributions; None when there are none."""
        return Evidence.sum(held.evidence for held in self) if len(self) else None


def _newer(entry: Entry, held: Entry) -> bool:
    """By epoch. Of equal ones any will do, as long as everybody takes the same one.

    Equal epochs with different content come from a device whose state was restored and that
    learned anew before it heard of its earlier self; it corrects that when it does.
    """
    if entry.epoch != held.epoch or entry == held:
        return entry.epoch > held.epoch
    if isinstance(entry, Departure) or isinstance(held, Departure):
        return isinstance(entry, Departure) and not isinstance(held, Departure)
    return entry.to_bytes() > held.to_bytes()
