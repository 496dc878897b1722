"""The ledger: the newest entry of each device, and the rule of which may follow which."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from elmgrove.algebra.distance import agreed
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments
from elmgrove.errors import Outdated
from elmgrove.federation.contribution import Contribution, Departure, Entry


@dataclass(frozen=True)
class Version:
    """What ``follows`` needs to know of an entry; ``count`` is None for a departure."""

    epoch: int
    count: float | None
    digest: str


def follows(held: Version | None, new: Version) -> bool:
    """Decides whether ``new`` is to be stored; False if it is what is held already.

    Raises ``Outdated`` if it is not newer, or if it stands for fewer rows than before though the
    device did not leave in between: two devices under one name, or a state that was restored.
    """
    if held is None:
        return True
    if (new.epoch, new.digest) == (held.epoch, held.digest):
        return False
    if new.epoch <= held.epoch:
        raise Outdated(
            f"a newer entry of this device is held (epoch {held.epoch}, this one has {new.epoch})",
            held.epoch,
            shrinks(held, new),
        )
    if shrinks(held, new):
        raise Outdated(
            f"covers {new.count:g} rows, fewer than the {held.count:g} held of this device, "
            "which did not leave: is its name used twice, or was its state restored?",
            held.epoch,
            True,
        )
    return True


def shrinks(held: Version, new: Version) -> bool:
    """Says whether an entry stands for fewer rows than the one that is held."""
    if held.count is None or new.count is None:
        return False
    # Where old rows are forgotten, the count ends up at a constant, but for rounding.
    return new.count < held.count * (1.0 - 1e-9)


class Ledger:
    """Keeps the newest entry of each origin: what that device contributed, or that it left.

    Joining keeps the newest, so receiving the same twice, in any order and by any route, ends in
    the same ledger. The sum is taken in the order of the names each time: equal ledgers give
    equal sums to the last bit, and a device that left leaves no trace in them.
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
        """The devices that are known to have left."""
        return [entry for entry in self.entries if isinstance(entry, Departure)]

    def get(self, origin: str) -> Entry | None:
        """Finds what is known of a device."""
        return self._newest.get(origin)

    def join(self, entry: Entry) -> bool:
        """Takes an entry in if it is newer than what is held; says whether it was."""
        held = self._newest.get(entry.origin)
        if held is not None and not _newer(entry, held):
            return False
        self._newest[entry.origin] = entry
        return True

    def forget(self, origin: str) -> bool:
        """Takes a contribution out, until it comes again; says whether it was there."""
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
    def parts(self) -> list[Evidence]:
        """The parts of all contributions, in the order of the names."""
        return [part for held in self for part in held.parts]

    @property
    def loan(self) -> Moments | None:
        """What contributors lend together, but for the odd one out; None where nobody does."""
        return agreed(held.lent for held in self)

    def total(self) -> Evidence | None:
        """Adds up all contributions; None when there are none."""
        return Evidence.sum(held.evidence for held in self) if len(self) else None


def _newer(entry: Entry, held: Entry) -> bool:
    """Compares epochs. Of equal ones any will do, as long as every device takes the same one.

    Equal epochs with different content come from a device whose state was restored and that
    learned again before it knew of its earlier self; it corrects that when it does.
    """
    if entry.epoch != held.epoch or entry == held:
        return entry.epoch > held.epoch
    if isinstance(entry, Departure) or isinstance(held, Departure):
        return isinstance(entry, Departure) and not isinstance(held, Departure)
    return entry.to_bytes() > held.to_bytes()
