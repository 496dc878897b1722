"""The topics of a device on a broker: its rows, what it tells there, and where it is asked."""

from dataclasses import dataclass

from elmgrove.errors import BadInput
from elmgrove.exchange import BrokerAddress
from elmgrove.federation import address_of

#: What can be asked of a device through a broker.
ACCEPT, REJECT = "accept", "reject"
#: Whether the agent is there, in its status.
ONLINE, OFFLINE = "online", "offline"
#: The state of an agent that does not know yet what its rows are like.
WAITING = "waiting"


def is_at_broker(url: str) -> bool:
    """Says whether a URL leads to a broker."""
    return url.startswith(("mqtt://", "mqtts://"))


@dataclass(frozen=True)
class RowTopics:
    """Which topics hold rows: some ``filters``, and what is before a column's name in them all.

    >>> RowTopics.of("mqtt://host/plant/pump1/#").name_of("plant/pump1/motor/temp")
    'motor/temp'
    >>> RowTopics.of("mqtt://host/plant", "pump1/+ hall/temp").filters
    ('plant/pump1/+', 'plant/hall/temp')
    """

    filters: tuple[str, ...]
    base: str

    @classmethod
    def of(cls, source: str, pattern: str = "") -> "RowTopics":
        """Reads a broker's URL whose topic holds the rows, or has those of the pattern below it."""
        topic = BrokerAddress.parsed(source).topic
        if pattern:
            below = [f"{source.rstrip('/')}/{one}" for one in pattern.split()]
            return cls(tuple(BrokerAddress.parsed(one).topic for one in below), topic)
        if not topic:
            raise BadInput("source: name the topics of the rows, as mqtt://host/plant/pump1/#")
        levels = topic.split("/")
        wild = [place for place, level in enumerate(levels) if level in ("+", "#")]
        return cls((topic,), "/".join(levels[: wild[0] if wild else -1]))

    def name_of(self, topic: str) -> str:
        """Gives the name of the column that numbers under a topic are of."""
        return topic.removeprefix(f"{self.base}/") if self.base else topic


@dataclass(frozen=True)
class DeviceTopics:
    """Where a device tells of its rows, events and status, and where it is asked and answers."""

    device: str
    verdict: str
    event: str
    status: str
    do: str
    done: str

    @property
    def all_below(self) -> str:
        """What each of these topics begins with, and no other device's."""
        return self.status.removesuffix("status")

    @classmethod
    def under(cls, address: BrokerAddress, device: str) -> "DeviceTopics":
        """Gives the topics of a device of this name, which is written there as in a URL."""
        own = address_of(device)
        names = ("verdict", "event", "status", "do", "done")
        return cls(device, *(address.under(own, name) for name in names))
