"""A federation on a broker for tests: its charter, what devices say, and those who use it."""

from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.broker_address import BrokerAddress
from elmgrove.exchange.mqtt import Announcement, Board, MqttExchange, shard_of
from elmgrove.federation.charter import Charter, address_of
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.terms import CONTRIBUTIONS, Terms
from support.mosquitto import Mosquitto

TOPIC = "federation/fans"
BASIS = Basis(HiddenLayer(3, 2, activation="tanh", seed=1), 3)
CHARTER = Charter(
    "fans", BASIS, ridge=0.1, members=("fan*", "Lüfter/*"), terms=Terms(shows=CONTRIBUTIONS)
)


def said(origin: str, rows: int = 5, epoch: int | None = None) -> Contribution:
    X = np.random.default_rng(sum(origin.encode())).normal(size=(rows, 3))
    H = BASIS.layer(X)
    evidence = Evidence(BASIS, H.T @ H, H.T @ X, float(np.square(X).sum()), rows)
    return Contribution(origin, rows if epoch is None else epoch, (evidence,))


def publish_until_killed(url: str, epoch: int, told: Connection) -> None:
    """A device publishes one version after the other; ``told`` hears which were acknowledged."""
    with MqttExchange(url, "fan-1") as exchange:
        while True:
            exchange.publish(said("fan-1", 5, epoch=epoch))
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
