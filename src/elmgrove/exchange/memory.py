"""An exchange in memory: for devices in one process, and the model for all others."""

from elmgrove.exchange.base import EntriesExchange, Held
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Entry, follows


class MemoryExchange(EntriesExchange):
    """Keeps what can be read of entries' bytes, as if they had travelled.

    An entry is read once, when it comes; everybody gets that one, which nobody can change. Not for
    several threads at once.
    """

    def __init__(self, charter: Charter) -> None:
        self._charter = charter
        self._held: dict[str, Held] = {}

    @property
    def charter(self) -> Charter:
        """The federation's charter, as it was told."""
        return self._charter

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one; see ``Exchange``."""
        self.charter.require(entry)
        held, new = self._held.get(entry.origin), Held.of(entry.to_bytes())
        if follows(None if held is None else held.version, new.version):
            self._held[entry.origin] = new

    def held(self) -> dict[str, Held]:
        """Gives what is held of each device."""
        return dict(self._held)
