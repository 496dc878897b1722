"""Brokers that are restarted and devices that are killed: nothing that was acknowledged is lost."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from elmgrove.errors import Unreachable
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.mqtt import MqttExchange
from support.brokered import CHARTER, TOPIC, Place, epochs, publish_until_killed
from support.factories import contribution_from
from support.faults import CONTEXT
from support.mosquitto import running_broker
from support.serving import wait_until

RESTARTS = int(os.environ.get("ELMGROVE_TEST_BROKER_RESTARTS", "4"))
KILLS = int(os.environ.get("ELMGROVE_TEST_AGENT_KILLS", "4"))
DEVICES = ("fan-1", "fan-2", "fan-3")


@pytest.fixture
def place(mosquitto: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    # So that many restarts do not take long.
    monkeypatch.setattr(Broker, "delays", (0.02, 0.1))
    with running_broker(tmp_path) as broker, ExitStack() as opened:
        MqttExchange.create(broker.url(TOPIC), CHARTER)
        yield Place(broker, opened)


class Publishing(threading.Thread):
    """A device that publishes one version after the other, and knows which were acknowledged."""

    def __init__(self, exchange: MqttExchange, device: str) -> None:
        super().__init__(daemon=True)
        self._exchange = exchange
        self._device = device
        self._ended = threading.Event()
        self.acknowledged = 0
        self.wrong: Exception | None = None

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self._publish(self.acknowledged + 1)
        except Exception as error:  # for the test to raise
            self.wrong = error

    def _publish(self, epoch: int) -> None:
        try:
            self._exchange.publish(contribution_from(self._device, 5, epoch=epoch))
            self.acknowledged = epoch
        except Unreachable:
            self._ended.wait(0.02)

    def is_past(self, epoch: int) -> bool:
        """Whether something newer than that was acknowledged."""
        assert self.wrong is None, self.wrong
        return self.acknowledged > epoch

    def end(self) -> None:
        self._ended.set()
        self.join(180)
        assert self.wrong is None, self.wrong


def held(reader: MqttExchange) -> dict[str, int]:
    """What is held of each device, once the broker can be asked."""
    found = dict[str, int]()

    def asked() -> bool:
        try:
            found.update(epochs(reader))
        except Unreachable:
            return False
        return True

    wait_until(asked)
    return found


def test_restarts_of_the_broker_lose_nothing(place: Place) -> None:
    """While devices publish as fast as they can, and another reads."""
    devices = [Publishing(place.open(name), name) for name in DEVICES]
    reader = place.open("fan-9")
    for device in devices:
        device.start()
    for _ in range(RESTARTS):
        for device in devices:
            wait_until(partial(device.is_past, device.acknowledged))
        place.broker.stop(signal.SIGTERM)
        known = {name: d.acknowledged for name, d in zip(DEVICES, devices, strict=True)}
        place.broker.start()
        now = held(reader)
        assert all(now[name] >= epoch for name, epoch in known.items()), (now, known)
    for device in devices:
        device.end()
    found = held(reader)
    for name, device in zip(DEVICES, devices, strict=True):
        # A broker may have taken what it could not acknowledge any more.
        assert found[name] >= device.acknowledged


def test_what_a_broker_lost_by_a_power_failure_comes_with_the_next_sync(place: Place) -> None:
    """It saves now and then, and is killed: a device publishes again what is not held."""
    place.broker.stop()  # which saves the charter
    place.broker.start()
    ways = {name: place.open(name) for name in DEVICES}
    reader = place.open("fan-9")
    for epoch in range(1, min(RESTARTS, 10) + 1):
        for name, way in ways.items():
            wait_until(partial(published, way, name, epoch))
        place.broker.stop(signal.SIGKILL)
        place.broker.start()
        for name, way in ways.items():
            wait_until(partial(published, way, name, epoch))
        assert held(reader) == dict.fromkeys(DEVICES, epoch)


def published(way: MqttExchange, name: str, epoch: int) -> bool:
    try:
        way.publish(contribution_from(name, 5, epoch=epoch))
    except Unreachable:
        return False
    return True


def test_a_device_that_is_killed_while_it_publishes_loses_nothing_acknowledged(
    place: Place,
) -> None:
    rng, epoch, reader = random.Random(1), 1, place.open("fan-9")
    for _ in range(KILLS):
        told, tell = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=publish_until_killed, args=(place.url, epoch, tell))
        process.start()
        tell.close()
        for _ in range(rng.randrange(1, 30)):
            acknowledged = told.recv()
        process.kill()
        with suppress(EOFError):
            while True:
                acknowledged = told.recv()
        process.join(60)
        entry = reader.held()["fan-1"].entry
        assert entry == contribution_from("fan-1", 5, epoch=entry.epoch), "whole"
        assert acknowledged <= entry.epoch <= acknowledged + 1
        place.open("fan-1").publish(contribution_from("fan-1", 5, epoch=entry.epoch + 1))
        epoch = entry.epoch + 2
