"""A federation on a broker for tests: its charter, what devices say, and those who use it."""

from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from elmgrove import Basis, HiddenLayer
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.broker_address import BrokerAddress
from elmgrove.exchange.mqtt import Announcement, Board, MqttExchange, shard_of
from elmgrove.federation.charter import Charter, address_of
from support.factories import contribution_from
from support.mosquitto import Mosquitto

TOPIC = "federation/fans"
BASIS = Basis(HiddenLayer(3, 2, activation="tanh", seed=1), 3)
CHARTER = Charter("fans", BASIS, ridge=0.1, members=("fan*", "Lüfter/*"))


def publish_until_killed(url: str, epoch: int, told: Connection) -> None:
    """A device publishes one version after the other; ``told`` hears which were acknowledged."""
    with MqttExchange(url, "fan-1") as exchange:
        while True:
            exchange.publish(contribution_from("fan-1", 5, epoch=epoch))
            told.send(epoch)
            epoch += 1


def entry_topic(device: str) -> str:
    """Where a device announces its entry."""
    address = address_of(device)
    return f"{TOPIC}/entries/{shard_of(address)}/{address}"


@dataclass
class Place:
    """A broker with a federation, and those who use it, until the test ends."""

    broker: Mosquitto
    opened: ExitStack

    @property
    def url(self) -> str:
        return self.broker.url(TOPIC)

    def open(self, device: str, **more: Any) -> MqttExchange:
        return self.opened.enter_context(MqttExchange(self.url, device, **more))

    def anybody(self) -> Broker:
        """Somebody who may do what they want."""
        return self.opened.enter_context(Broker(BrokerAddress.parsed(self.url)))

    def retained(self, topic: str) -> bytes | None:
        """What the broker retains under a topic."""
        return Board(self.anybody(), "test").contents([topic], 1000).get(topic)

    def announce(self, announcement: Announcement, device: str | None = None) -> None:
        """Announces something, maybe under another device's topic."""
        topic = entry_topic(device or announcement.device)
        self.anybody().publish(topic, announcement.to_bytes(), retain=True)
