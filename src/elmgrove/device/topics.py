"""The topics of a device on a broker: its rows, what it publishes, and where it is asked."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, zip_longest

from elmgrove.errors import BadInput
from elmgrove.exchange.broker_address import BrokerAddress
from elmgrove.federation.charter import address_of

#: What can be asked of a device through a broker.
ACCEPT, REJECT, UNDO = "accept", "reject", "undo"
#: Whether the agent is there, in its status.
ONLINE, OFFLINE = "online", "offline"
#: The state of an agent that does not know yet what its rows are like.
WAITING = "waiting"


@dataclass(frozen=True)
class RowTopics:
    """Which topics hold rows: some ``filters``, and what is before a column's name in them all.

    No message is under two of them: a broker would give it out for each, and it would be two rows.

    >>> RowTopics.of("mqtt://host/plant/pump1/#").name_of("plant/pump1/motor/temp")
    'motor/temp'
    >>> RowTopics.of("mqtt://host/plant", "pump1/+ hall/temp").filters
    ('plant/pump1/+', 'plant/hall/temp')
    """

    filters: tuple[str, ...]
    base: str

    @classmethod
    def of(cls, source: str, pattern: str = "") -> "RowTopics":
        """Reads a broker's URL whose topic holds the rows, or has those of the pattern below it.

        What another topic of the pattern covers is left out; ``BadInput`` for two that overlap.
        """
        topic = BrokerAddress.parsed(source).topic
        if pattern:
            below = [f"{source.rstrip('/')}/{one}" for one in pattern.split()]
            return cls(_apart(BrokerAddress.parsed(one).topic for one in below), topic)
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


def _apart(filters: Iterable[str]) -> tuple[str, ...]:
    """Leaves out what another one covers; ``BadInput`` for two that overlap otherwise."""
    levels = {one: one.split("/") for one in filters}
    covered = {
        one for one in levels for two in levels if one != two and _covers(levels[two], levels[one])
    }
    left = [one for one in levels if one not in covered]
    for one, two in combinations(left, 2):
        if _overlap(levels[one], levels[two]):
            raise BadInput(
                f"pattern: a message may be under {one} and under {two}, and would be two rows; "
                "name topics that do not overlap, or one that covers both"
            )
    return tuple(left)


def _covers(one: list[str], two: list[str]) -> bool:
    """Says whether all topics of the second are also topics of the first."""
    if _is_special(one) != _is_special(two):
        return False
    for here, there in zip_longest(one, two):
        if here == "#":
            return True
        if there in (None, "#") or here not in ("+", there):
            return False
    return True


def _overlap(one: list[str], two: list[str]) -> bool:
    """Says whether a topic of the first may be one of the second."""
    if _is_special(one) != _is_special(two):
        return False
    for here, there in zip_longest(one, two):
        if "#" in (here, there):
            return True
        if here != there and (None in (here, there) or "+" not in (here, there)):
            return False
    return True


def _is_special(levels: list[str]) -> bool:
    """Says whether these are the broker's own topics, which + and # do not stand for."""
    return levels[0].startswith("$")
