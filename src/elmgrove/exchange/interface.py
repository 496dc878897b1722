"""What every exchange offers: a place where devices leave entries and find those of others."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from elmgrove.errors import ElmgroveError
from elmgrove.federation import Charter, Cost, Entry, Merged


class Unreachable(ElmgroveError, OSError):
    """The exchange can't be reached at the moment; trying again later is all there is to do."""


class Unauthorized(ElmgroveError):
    """The exchange does not let this device in; somebody has to give it another key."""


@dataclass(frozen=True)
class Listing:
    """One entry that an exchange holds, and what fetching it is likely to cost."""

    origin: str
    epoch: int
    left: bool
    cost: Cost


class Exchange(Protocol):
    """Moves entries between devices; holds one entry of each, the newest.

    Whatever it does is done or not done: ``publish`` has returned means that the others can find
    it. Errors: ``Refused`` (and its ``Outdated``) for what will not do, ``Unauthorized``, and
    ``Unreachable`` for what may work later.
    """

    @property
    def charter(self) -> Charter:
        """What the devices of this federation have in common."""
        ...

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one. The same twice is once.

        MUST refuse with ``Outdated`` what ``federation.follows`` does not let follow.
        """
        ...

    def listings(self) -> list[Listing]:
        """Of every origin what is held, departures as well, in the order of the names."""
        ...

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """The entries of these origins; those that are not there (any more) are left out."""
        ...

    def merged(
        self, without: str, known: Merged | None, grouped: str | None = None
    ) -> Merged | None:
        """The sum over all devices but one; None if ``known`` is still what it would be.

        ``grouped`` by a distance (of ``federation.DISTANCES``): instead, the sums of the groups
        that come back to this device, without its own part (``StandingGroups.returned``). MUST be
        empty for a device that has published nothing, or left.
        """
        ...

    def close(self) -> None:
        """Lets go of connections."""
        ...
