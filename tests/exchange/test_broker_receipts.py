"""A broker that owes messages until somebody has dealt with them, and topics that are followed."""

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from elmgrove.device.sources.mqtt import RowTopics, Subscription
from elmgrove.errors import Unauthorized
from elmgrove.exchange.broker import MOST_BYTES, MOST_WAITING, Broker, Receipts
from elmgrove.exchange.broker_address import BrokerAddress, Message, Receipt
from support.false_broker import LET_IN, false_broker
from support.mosquitto import Mosquitto, running_broker
from support.ports import reserved_port
from support.serving import wait_until


@pytest.fixture
def place(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as found:
        yield found


def keeping(place: Mosquitto) -> Broker:
    return Broker(BrokerAddress.parsed(place.url("a")), "fan-1", clean=False, receipts=True)


def gone(place: Mosquitto, times: int) -> None:
    """Waits until the broker has noticed that the device went."""
    log = place.folder / "mosquitto.log"
    wait_until(lambda: log.read_text().count("fan-1 disconnected") >= times)


def payloads(heard: list[Message]) -> list[bytes]:
    return [message.payload for message in heard]


def test_what_nobody_acknowledged_comes_again_and_the_rest_does_not(place: Mosquitto) -> None:
    first, second, third = (list[Message]() for _ in range(3))
    with Broker(BrokerAddress.parsed(place.url("a"))) as other:
        with keeping(place) as one:
            one.follow(["a/1"], first.append).result(60)
            for number in range(4):
                other.publish("a/1", b"%d" % number)
            wait_until(lambda: len(first) == 4)
            one.acknowledge(first[0])
            one.acknowledge(first[2])
        gone(place, 1)
        other.publish("a/1", b"meanwhile")
        with keeping(place) as one:
            one.follow(["a/1"], second.append)
            wait_until(lambda: len(second) == 3)
            assert one.resumed
            for message in second:
                one.acknowledge(message)
        gone(place, 2)
        with keeping(place) as one:
            one.follow(["a/1"], third.append).result(60)
            other.publish("a/1", b"new")
            wait_until(lambda: len(third) == 1)
    assert payloads(second) == [b"1", b"3", b"meanwhile"]
    assert payloads(third) == [b"new"]


def test_what_comes_again_by_the_next_link_is_not_owed_by_the_last(place: Mosquitto) -> None:
    heard = list[Message]()
    with keeping(place) as one, Broker(BrokerAddress.parsed(place.url("a"))) as other:
        one.follow(["a/1"], heard.append).result(60)
        other.publish("a/1", b"x")
        wait_until(lambda: len(heard) == 1)
        assert one.owes(heard[0])
        place.stop()
        place.start()
        wait_until(lambda: len(heard) == 2)
        wait_until(lambda: one.links == 2)
        assert one.resumed
        assert [one.owes(message) for message in heard] == [False, True]
        # Too late: by the new link this number may be another message's.
        one.acknowledge(heard[0])
        one.acknowledge(heard[1])
        other.publish("a/1", b"y")
        wait_until(lambda: len(heard) == 3)
        assert payloads(heard) == [b"x", b"x", b"y"]


def test_what_a_broker_has_forgotten_is_still_to_be_dealt_with(
    mosquitto: None, tmp_path: Path
) -> None:
    heard = list[Message]()
    with (
        running_broker(tmp_path, "persistence false") as place,
        keeping(place) as one,
        Broker(BrokerAddress.parsed(place.url("a"))) as other,
    ):
        one.follow(["a/1"], heard.append).result(60)
        other.publish("a/1", b"x")
        wait_until(lambda: len(heard) == 1)
        place.stop()
        place.start()
        wait_until(lambda: one.links == 2)
        assert not one.resumed
        assert one.owes(heard[0])


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

    with false_broker(flood) as port:
        address = BrokerAddress.parsed(f"mqtt://127.0.0.1:{port}/a")
        one = Broker(address, "fan-1", clean=False, receipts=True)
        with closing(Subscription(one, RowTopics(("a/1",), ""))) as rows:
            wait_until(lambda: len(sent) >= room)
            time.sleep(0.3)
            # What was not read is still on its way: in memory is no more than was to wait.
            assert len(sent) < many
            for number in range(1, many + 1):
                message = rows.next(60)
                assert message is not None
                assert message.receipt is not None
                assert message.receipt.number == number
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

    with false_broker(flood) as port:
        address = BrokerAddress.parsed(f"mqtt://127.0.0.1:{port}/a")
        one = Broker(address, "fan-1", clean=False, receipts=True)
        with closing(Subscription(one, RowTopics(("a/1",), ""))) as rows:
            assert ended.wait(60)
            found = list[Message | None]()
            while not found or found[-1] is None or found[-1].payload != b"last":
                found.append(rows.next(60))
    # Those on their way when it was looked at may have found room.
    assert room <= len(found) < 2 * room
    assert "messages come faster than rows are judged" in caplog.text


def test_what_comes_again_counts_until_it_is_let_go_and_is_dealt_with_once() -> None:
    receipts = Receipts()
    large, other = (
        Message("a", bytes(MOST_BYTES), receipt=Receipt(0, number, True)) for number in (1, 2)
    )
    receipts.begin(1, resumed=False)
    lost, late = receipts.taken(large, 1), receipts.taken(other, 1)
    assert lost is not None
    assert late is not None
    assert receipts.owes(late)
    receipts.begin(2, resumed=True)
    again = receipts.taken(other, 2)
    assert again is not None
    # It was at work when it came again.
    receipts.add(late)
    assert not receipts.owes(again)
    assert [receipts.full, receipts.owes(lost), receipts.full] == [True, False, False]
    # What a broker has forgotten does not come again, by whatever link.
    kept = receipts.taken(replace(large, receipt=Receipt(0, 3, False)), 2)
    receipts.begin(3, resumed=False)
    receipts.begin(4, resumed=True)
    assert kept is not None
    assert receipts.owes(kept)


def packet(rest: bytes, first: bytes = b"\x32") -> bytes:
    """A message, unless stated with QoS 1."""
    length, size = b"", len(rest)
    while size >> 7:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return first + length + bytes([size]) + rest


def test_topics_are_followed_as_soon_as_there_is_a_broker(
    mosquitto: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard = list[Message]()
    with reserved_port() as port:
        nowhere = BrokerAddress.parsed(f"mqtt://127.0.0.1:{port}/a")
        with Broker(nowhere) as one:
            done = one.follow(["a/1"], heard.append)
            wait_until(lambda: one.trouble is not None)
            assert not done.done()
    with running_broker(tmp_path) as place:
        place.stop()
        with Broker(BrokerAddress.parsed(place.url("a"))) as one:
            done = one.follow(["a/1"], heard.append)
            wait_until(lambda: one.trouble is not None)
            place.start()
            done.result(60)
            one.publish("a/1", b"x")
            wait_until(lambda: len(heard) == 1)
            # And by each link after that.
            place.stop()
            place.start()
            wait_until(lambda: one.links == 2)
            wait_until(lambda: one.send("a/1", b"y").result(60) is None and len(heard) > 1)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_what_may_not_be_followed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(line: socket.socket) -> None:
        line.sendall(LET_IN)
        line.recv(1 << 16)
        line.sendall(bytes([0x90, 4, 0, 1, 0, 0x87]))
        line.recv(1 << 16)

    with false_broker(refuse) as port:
        address = BrokerAddress.parsed(f"mqtt://127.0.0.1:{port}/a")
        with Broker(address) as one, pytest.raises(Unauthorized):
            one.follow(["a/1"], lambda _: None).result(60)
    assert "read a/1: Not authorized; allow it in the broker's access list" in caplog.text
