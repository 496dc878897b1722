"""A federation on a broker for tests: its charter, what is retained, and those who use it."""

from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection

from elmgrove import Basis, HiddenLayer
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.broker_address import BrokerAddress, Message
from elmgrove.exchange.mqtt import MqttExchange
from elmgrove.federation.charter import Charter
from support.factories import contribution_from
from support.mosquitto import Mosquitto

TOPIC = "federation/fans"
BASIS = Basis(HiddenLayer(3, 2, activation="tanh", seed=1), 3)
CHARTER = Charter("fans", BASIS, ridge=0.1, members=("fan*", "Lüfter/*"))


def publish(broker: Broker, topic: str, payload: bytes, *, retain: bool = False) -> None:
    """Publishes, and returns when the broker has acknowledged it."""
    broker.wait(lambda: broker.linked)
    publish_at_once(broker, topic, payload, retain=retain)


def publish_at_once(broker: Broker, topic: str, payload: bytes, *, retain: bool = False) -> None:
    """Publishes, before there is a link as well."""
    sent = broker.publish(topic, payload, retain=retain)
    broker.wait(lambda: sent.settled)
    if sent.error is not None:
        raise sent.error


def publish_until_killed(url: str, epoch: int, told: Connection) -> None:
    """A device publishes one version after the other; ``told`` hears which were acknowledged."""
    with MqttExchange(url, "fan-1") as exchange:
        while True:
            exchange.publish(contribution_from("fan-1", 5, epoch=epoch))
            told.send(epoch)
            epoch += 1


def epochs(exchange: MqttExchange) -> dict[str, int]:
    """The newest epoch that is held of each device."""
    return {name: one.version.epoch for name, one in exchange.held().items()}


@dataclass
class Place:
    """A broker with a federation, and those who use it, until the test ends."""

    broker: Mosquitto
    opened: ExitStack

    @property
    def url(self) -> str:
        return self.broker.url(TOPIC)

    def open(self, device: str) -> MqttExchange:
        return self.opened.enter_context(MqttExchange(self.url, device))

    def retain(self, retained: dict[str, bytes]) -> None:
        """Somebody who may do what they want has these retained below the federation's topic."""
        with Broker(BrokerAddress.parsed(self.url)) as anybody:
            anybody.wait(lambda: anybody.linked)
            sent = [
                anybody.publish(f"{TOPIC}/{topic}", payload, retain=True)
                for topic, payload in retained.items()
            ]
            anybody.wait(lambda: all(one.settled for one in sent), 180)
            assert not [one.error for one in sent if one.error]

    def retained(self, topic: str) -> bytes | None:
        """What the broker retains there."""
        found = list[Message]()
        address = BrokerAddress.parsed(self.url)
        with Broker(address, [f"{TOPIC}/{topic}"], found.append) as anybody:
            anybody.catch_up()
        return found[0].payload if found else None
