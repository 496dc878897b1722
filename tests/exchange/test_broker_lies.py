"""Brokers that are none, or mean no good: a device notices, in time, and needs little memory."""

import random
import resource
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elmgrove.errors import Refused, Unauthorized, Unreachable
from elmgrove.exchange.broker import MOST_PAYLOAD, Broker
from elmgrove.exchange.broker_address import BrokerAddress, Message
from support.brokered import publish, publish_at_once
from support.false_broker import LET_IN, false_broker
from support.mosquitto import running_broker
from support.paho_client import somebody_at
from support.serving import wait_until


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost link is followed by the next one at once."""
    monkeypatch.setattr(Broker, "delays", (0.001, 0.001))
    monkeypatch.setattr(Broker, "patience", 0.5)


def opened(port: int, *topics: str, **more: object) -> Broker:
    return Broker(BrokerAddress.parsed(f"mqtt://127.0.0.1:{port}/a"), topics, **more)


def sends(*parts: bytes) -> Callable[[socket.socket], None]:
    """Says something, and waits for the other to hang up."""

    def answer(line: socket.socket) -> None:
        for part in parts:
            line.sendall(part)
        while line.recv(1 << 16):
            pass

    return answer


def hangs_up(line: socket.socket) -> None:
    line.close()


@pytest.mark.parametrize(
    "answer",
    [
        hangs_up,
        sends(b""),
        sends(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        sends(bytes([0x20, 3, 0, 0x84, 0])),  # speaks no MQTT 5
        sends(bytes([0x20, 2, 0, 1])),  # nor does this one, in the words of MQTT 3
        sends(LET_IN),
        sends(LET_IN, bytes([0xE0, 2, 0x8B, 0])),  # goes down
        sends(LET_IN, bytes([0x40, 4, 0, 9, 0, 0])),  # acknowledges what was not said
        sends(LET_IN, bytes([0x30, 9, 0, 4]) + b"\xff\xfe\xfd\xfc\x00x"),  # a topic that is no text
    ],
)
def test_what_is_no_broker_is_unreachable_in_time(
    soon: None, answer: Callable[[socket.socket], None]
) -> None:
    with false_broker(answer) as port, opened(port) as one:
        began = time.monotonic()
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
            publish_at_once(one, "a", b"x")
        assert time.monotonic() - began < 60


@pytest.mark.parametrize("code", [0x86, 0x87, 0x8A, 0x8C])
def test_who_is_turned_away_is_told_what_to_do(code: int) -> None:
    told = r"anybody without a name.*state user and password"
    with (
        false_broker(sends(bytes([0x20, 3, 0, code, 0]))) as port,
        opened(port) as one,
        pytest.raises(Unauthorized, match=told),
    ):
        publish(one, "a", b"x")


def test_what_is_refused_by_any_code_is_refused(soon: None) -> None:
    for code in (0x80, 0x83, 0x87, 0x90, 0x97, 0x99):
        answer = sends(LET_IN, bytes([0x40, 4, 0, 1, code, 0]))
        with (
            false_broker(answer) as port,
            opened(port) as one,
            pytest.raises(Refused, match="does not let"),
        ):
            publish_at_once(one, "a", b"x")


def test_topics_that_may_not_be_heard_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(line: socket.socket) -> None:
        line.sendall(LET_IN)
        line.recv(1 << 16)
        line.sendall(bytes([0x90, 4, 0, 1, 0, 0x87]))
        line.recv(1 << 16)

    told = "read a/1: Not authorized; allow it in the broker's access list"
    with (
        false_broker(refuse) as port,
        opened(port, "a/1") as one,
        pytest.raises(Unauthorized, match=told),
    ):
        one.catch_up()
    assert told in caplog.text


def test_a_packet_that_is_larger_than_asked_for_is_not_read(soon: None) -> None:
    """It would have 256 MB; of the first bytes that say so no more than a few are read."""
    links = list[int]()

    def answer(line: socket.socket) -> None:
        links.append(1)
        line.sendall(LET_IN + bytes([0x30, 0xFF, 0xFF, 0xFF, 0x7F, 0, 1]) + b"a")
        while True:
            line.sendall(bytes(1 << 20))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with false_broker(answer) as port, opened(port) as one:
        sent = one.publish("a", b"x")
        wait_until(lambda: sent.settled)
        assert "times while this was sent" in str(sent.error)
    assert len(links) >= one.most_lost
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "100 MB"


def test_a_message_that_is_larger_than_asked_for_does_not_come(
    mosquitto: None, tmp_path: Path
) -> None:
    found = list[Message]()
    with (
        running_broker(tmp_path) as place,
        somebody_at(place) as anybody,
        opened(place.port, "a/#", hear=found.append) as one,
    ):
        anybody.say("a/1", bytes(2_000_000), retain=True)
        anybody.say("a/2", bytes(MOST_PAYLOAD), retain=True)
        one.catch_up()
        assert [message.topic for message in found] == ["a/2"]
        assert one.links == 1


def test_what_comes_with_more_than_anybody_asked_for_ends_the_link(soon: None) -> None:
    """With QoS 2: the client would keep each until the broker releases it."""
    links, came = list[int](), list[Message]()

    def answer(line: socket.socket) -> None:
        links.append(1)
        line.sendall(LET_IN)
        for number in range(1, 1000):
            body = b"\0\1a" + number.to_bytes(2, "big") + b"\0" + bytes(100_000)
            line.sendall(bytes([0x34, 0xA6, 0x8D, 0x06]) + body)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with false_broker(answer) as port, opened(port, "a", hear=came.append):
        wait_until(lambda: len(links) >= 5)
    assert came == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "50 MB"


def test_nonsense_ends_neither_the_thread_nor_the_program(soon: None) -> None:
    """Some of it begins like what a broker says."""
    rng, links = random.Random(1), list[int]()
    threads = threading.active_count()

    def answer(line: socket.socket) -> None:
        links.append(1)
        kinds = [0x20, 0x30, 0x32, 0x34, 0x40, 0x50, 0x60, 0x70, 0x90, 0xB0, 0xD0, 0xE0, 0xF0, 0]
        for _ in range(rng.randrange(1, 4)):
            body = rng.randbytes(rng.randrange(0, 30))
            kind = rng.choice(kinds) | rng.choice([0, 0, 1, 2, 8])
            start = LET_IN if rng.random() < 0.7 else b""
            line.sendall(start + bytes([kind, len(body)]) + body)
        line.shutdown(socket.SHUT_WR)
        line.recv(1 << 16)

    with false_broker(answer) as port, opened(port, "a") as one:
        one.publish("a", b"x")
        wait_until(lambda: len(links) >= 1500)
        with pytest.raises(Unreachable):
            one.wait(lambda: False)
    wait_until(lambda: threading.active_count() <= threads)
