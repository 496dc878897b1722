"""What exchanges have in common that hold entries and no sums: who asks adds them up."""

from abc import ABC, abstractmethod
from typing import Any

from elmgrove.exchange.base import merged_of, others_of, returned_of
from elmgrove.federation import Charter, Entry, Errand, Merged, Summary


class BareExchange(ABC):
    """An exchange without a server of its own: sums and groups are made when a device asks.

    Nobody looks on there, and devices have no keys unless it says so.
    """

    #: Groups are made when somebody asks.
    standing = False

    @property
    def somebody_looks(self) -> bool:
        """Says False: there is no page that shows devices."""
        return False

    @property
    @abstractmethod
    def charter(self) -> Charter:
        """The federation's charter."""

    @abstractmethod
    def _revision(self, without: str | None) -> int:
        """Names the state of all entries, or of all but one device's: another one, another name."""

    @abstractmethod
    def _entries_but(self, without: str | None) -> list[Entry]:
        """Gives all entries, or all but one device's, as of the last revision."""

    def merged(
        self, without: str, known: Merged | None, grouped: str | None = None
    ) -> Merged | None:
        """Adds up all entries but one device's; None if ``known`` is still what it would be."""
        # In groups, one's own change matters: it may lead to another group.
        left_out = without if grouped is None else None
        revision = self._revision(left_out)
        if known is not None and (known.revision, known.grouped) == (revision, grouped):
            return None
        entries = self._entries_but(left_out)
        if grouped is not None:
            return returned_of(self.charter, revision, entries, without, grouped)
        return merged_of(self.charter, revision, entries)

    def others(self, without: str, known: Merged | None) -> Merged | None:
        """Tells a device of all others at once; None if ``known`` is still what it would be."""
        revision = self._revision(None)
        if known is not None and known.revision == revision:
            return None
        return others_of(self.charter, revision, self._entries_but(None), without)

    def groups(self) -> dict[str, Any] | None:
        """Gives None: groups are made when a device asks for its sums, and not kept."""
        return None

    def report(self, summary: Summary) -> tuple[Errand, ...]:
        """Gives nothing: nobody looks here."""
        return ()

    def rotate_key(self) -> bool:
        """Says False: nobody needs a key here."""
        return False
