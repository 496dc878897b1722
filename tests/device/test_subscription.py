"""Messages of a broker on their way to the agent's thread: each is dealt with once."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from elmgrove.device.settings import Settings
from elmgrove.device.sources.mqtt import MOST_BYTES, MOST_WAITING, Subscription
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.broker_address import Message
from support.false_broker import LET_IN, false_broker
from support.mosquitto import Mosquitto, running_broker
from support.paho_client import Somebody, somebody_at
from support.serving import wait_until


@pytest.fixture(autouse=True)
def _links_come_back_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "delays", (0.05, 0.2))


@pytest.fixture
def place(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as found:
        yield found


def rows_at(place: Mosquitto) -> Subscription:
    return subscription(place.url("a/1"))


def subscription(url: str) -> Subscription:
    return Subscription(Settings(source=url, state="no.elm"), "fan-1")


def taken(rows: Subscription, number: int) -> list[Message]:
    """As many messages as they come, none of them acknowledged."""
    found = list[Message]()

    def has_all() -> bool:
        message = rows.next(0.05)
        found.extend([message] if message is not None else [])
        return len(found) == number

    wait_until(has_all)
    return found


def nothing_more(rows: Subscription, plant: Somebody) -> bool:
    """Whether the next message is one that is sent now."""
    plant.say("a/1", b"last")
    return taken(rows, 1)[0].payload == b"last"


def gone(place: Mosquitto, times: int) -> None:
    """Waits until the broker has noticed that the device went."""
    log = place.folder / "mosquitto.log"
    wait_until(lambda: log.read_text().count("disconnected") >= times)


def test_what_nobody_acknowledged_comes_again_and_the_rest_does_not(place: Mosquitto) -> None:
    with somebody_at(place) as plant:
        with closing(rows_at(place)) as rows:
            subscribed(rows)
            for number in range(4):
                plant.say("a/1", b"%d" % number)
            first = taken(rows, 4)
            rows.acknowledge(first[0])
            rows.acknowledge(first[2])
        gone(place, 1)
        plant.say("a/1", b"meanwhile")
        with closing(rows_at(place)) as rows:
            second = taken(rows, 3)
            assert [one.payload for one in second] == [b"1", b"3", b"meanwhile"]
            for one in second:
                rows.acknowledge(one)
        gone(place, 2)
        with closing(rows_at(place)) as rows:
            subscribed(rows)
            assert nothing_more(rows, plant)


def subscribed(rows: Subscription) -> None:
    """Waits until the broker knows it."""
    wait_until(lambda: rows._told)


def test_what_was_dealt_with_when_the_link_was_lost_is_not_dealt_with_again(
    place: Mosquitto,
) -> None:
    with closing(rows_at(place)) as rows:
        subscribed(rows)
        with somebody_at(place) as plant:
            for payload in (b"x", b"y", b"z"):
                plant.say("a/1", payload)
            (at_work,) = taken(rows, 1)
            wait_until(lambda: len(rows._waiting) == 2)
        place.stop()
        # Too late for the broker to hear of it; and the others come again by the next link.
        rows.acknowledge(at_work)
        place.start()
        with somebody_at(place) as plant:
            for payload in (b"y", b"z"):
                (message,) = taken(rows, 1)
                assert message.payload == payload
                rows.acknowledge(message)
            assert nothing_more(rows, plant)


def test_what_a_broker_has_forgotten_is_still_to_be_dealt_with(
    mosquitto: None, tmp_path: Path
) -> None:
    with running_broker(tmp_path, "persistence false") as place, closing(rows_at(place)) as rows:
        subscribed(rows)
        assert rows.next(0.0) is None
        assert rows.broken, "it has just begun"
        with somebody_at(place) as plant:
            plant.say("a/1", b"x")
            wait_until(lambda: len(rows._waiting) == 1)
        place.stop()
        place.start()
        wait_until(lambda: rows._broker.links == 2)
        assert taken(rows, 1)[0].payload == b"x"
        assert rows.broken, "what came meanwhile is lost"


@pytest.mark.parametrize("size", [10_000, 100_000], ids=["many", "large"])
def test_a_broker_that_gives_out_more_than_it_was_asked_for_waits_and_nothing_is_lost(
    size: int,
) -> None:
    """As mosquitto does after a restart: all that it kept comes at once, whatever was asked."""
    room = min(MOST_WAITING, MOST_BYTES // size)
    many, sent = 5 * room, list[int]()

    def flood(line: socket.socket) -> None:
        line.sendall(LET_IN)
        line.recv(1 << 16)
        line.sendall(bytes([0x90, 4, 0, 1, 0, 1]))
        body = bytes(size)
        for number in range(1, many + 1):
            line.sendall(packet(b"\x00\x03a/1" + number.to_bytes(2) + b"\x00" + body))
            sent.append(number)
        while line.recv(1 << 16):
            pass

    with false_broker(flood) as port, closing(subscription(f"mqtt://127.0.0.1:{port}/a/1")) as rows:
        wait_until(lambda: len(sent) >= room)
        time.sleep(0.3)
        # What was not read is still on its way: in memory is no more than was to wait.
        assert len(sent) < many
        for number in range(1, many + 1):
            (message,) = taken(rows, 1)
            assert message.number == number
            rows.acknowledge(message)


def test_what_waits_for_who_is_slow_has_a_bound_in_bytes_and_the_newest_get_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With QoS 0 no broker waits."""
    body = b"\x00\x03a/1\x00" + bytes(100_000)
    room, ended = MOST_BYTES // 100_000, Event()

    def flood(line: socket.socket) -> None:
        line.sendall(LET_IN)
        line.recv(1 << 16)
        line.sendall(bytes([0x90, 4, 0, 1, 0, 1]))
        for _ in range(3 * room):
            line.sendall(packet(body, first=b"\x30"))
        line.sendall(packet(b"\x00\x03a/1\x00\x01\x00last"))
        ended.set()
        line.recv(1 << 16)

    with false_broker(flood) as port, closing(subscription(f"mqtt://127.0.0.1:{port}/a/1")) as rows:
        assert ended.wait(60)
        found = taken(rows, 1)
        while found[-1].payload != b"last":
            found += taken(rows, 1)
    # Those on their way when it was looked at may have found room.
    assert room <= len(found) < 2 * room
    assert "messages come faster than rows are judged" in caplog.text


def packet(rest: bytes, first: bytes = b"\x32") -> bytes:
    """A message, unless stated with QoS 1."""
    length, size = b"", len(rest)
    while size >> 7:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return first + length + bytes([size]) + rest
