"""What an agent has to say waits until the broker has it: nothing of it is lost without a word."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from elmgrove.device.mqtt import AT_ONCE, BIRTH, MOST_WAITING, Outbox, Sink
from elmgrove.device.settings import Settings
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.broker_address import BrokerAddress
from support.false_broker import LET_IN, false_broker, scripted
from support.mosquitto import running_broker
from support.paho_client import somebody_at
from support.serving import wait_until


@pytest.fixture(autouse=True)
def _links_come_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "delays", (0.01, 0.01))


@contextmanager
def outbox_at(port: int) -> Iterator[Outbox]:
    with Broker(BrokerAddress.parsed(f"mqtt://127.0.0.1:{port}/a")) as broker:
        outbox = Outbox(broker)
        yield outbox
        outbox.close(60.0)


def test_links_that_are_lost_lose_no_message() -> None:
    links, came = count(), list[bytes]()

    def take(_topic: str, payload: bytes) -> list[tuple[str, bytes]]:
        came.append(payload)
        return []

    def answer(line: socket.socket) -> None:
        if next(links) >= 10:
            scripted(take)(line)
        line.sendall(LET_IN)
        while b"verdict" not in line.recv(1 << 16):
            pass
        line.shutdown(socket.SHUT_RDWR)

    sent = [b"%d" % number for number in range(3 * AT_ONCE)]
    with false_broker(answer) as port, outbox_at(port) as outbox:
        for payload in sent:
            outbox.put("verdict", "verdict", payload)
        wait_until(lambda: len(came) == len(sent))
    assert came == sent


def test_what_is_too_large_is_dropped_alone_and_told(
    mosquitto: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By message_size_limit, of which a broker says nothing before."""
    with (
        running_broker(tmp_path, "message_size_limit 2000") as place,
        somebody_at(place, "verdict", "state") as plant,
        outbox_at(place.port) as outbox,
    ):
        outbox.put("state", "state", bytes(3000))
        for number in range(2 * AT_ONCE):
            outbox.put("verdict", "verdict", b"%d" % number if number != 5 else bytes(3000))
        wait_until(lambda: len(plant.under("verdict")) == 2 * AT_ONCE - 1)
        came = [int(one.payload) for one in plant.under("verdict")]
        assert came == [number for number in range(2 * AT_ONCE) if number != 5]
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one[:14] for one in told] == ["not published:"] * 2
    assert all("Quota exceeded; let the broker take larger messages" in one for one in told)


def test_what_ends_each_link_is_dropped_alone_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Broker, "most_lost", 3)
    came = list[bytes]()

    def take(topic: str, payload: bytes) -> list[tuple[str, bytes]]:
        if payload in (b"5", b"state"):
            raise OSError
        came.append(payload)
        return []

    with false_broker(scripted(take)) as port, outbox_at(port) as outbox:
        outbox.put("state", "state", b"state")
        for number in range(3 * AT_ONCE):
            outbox.put("verdict", "verdict", b"%d" % number)
        wait_until(lambda: b"%d" % (3 * AT_ONCE - 1) in came)
    # Each once: what was acknowledged when the link was lost came twice.
    wanted = [b"%d" % number for number in range(3 * AT_ONCE) if number != 5]
    assert list(dict.fromkeys(came)) == wanted
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one[:14] for one in told] == ["not published:"] * 2
    assert all("3 times while this was sent; is it more than" in one for one in told)


def test_a_broker_that_is_there_and_takes_nothing_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def silent(line: socket.socket) -> None:
        line.sendall(LET_IN)
        while line.recv(1 << 16):
            pass

    with (
        false_broker(silent) as port,
        Broker(BrokerAddress.parsed(f"mqtt://127.0.0.1:{port}/a")) as broker,
    ):
        outbox = Outbox(broker)
        outbox.put("state", "state", b"here")
        wait_until(lambda: broker.linked)
        for _ in range(2):
            for _ in range(2 * MOST_WAITING):
                outbox.put("verdict", "verdict", b"x")
            wait_until(lambda: "messages for it were dropped" in caplog.text)
        assert caplog.text.count("messages for it were dropped") == 1
        outbox.close(0.0)
        assert broker.links == 1
    # And the rest at the end: all but those that wait, and those that are under way.
    dropped = caplog.text.rpartition("dropped, ")[2].partition(" ")[0]
    assert 3 * MOST_WAITING - AT_ONCE <= int(dropped) <= 3 * MOST_WAITING


def test_however_often_home_assistant_begins_no_thread_more_waits(
    mosquitto: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmgrove.device.mqtt.SPREAD", 3600.0)
    usual: dict[str, str] = {"source": "fan.csv", "state": str(tmp_path / "fan.elm")}
    with (
        running_broker(tmp_path) as place,
        somebody_at(place, "told/fan/done") as house,
        Sink(Settings(mqtt=place.url("told"), **usual), "fan", lambda *_: {"said": []}),
    ):

        def answers() -> bool:
            house.say("told/fan/do", {"action": "accept"})
            return bool(house.under("told/fan/done"))

        wait_until(answers)
        before, heard = threading.active_count(), len(house.under("told/fan/done"))
        for _ in range(50):
            house.say(BIRTH, b"online")
        house.say("told/fan/do", {"action": "accept"})
        wait_until(lambda: len(house.under("told/fan/done")) > heard)
        assert threading.active_count() == before
