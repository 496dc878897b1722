"""What others leave on a broker, and brokers that lie: it is left out, told, and bounded."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from elmgrove.errors import Unreachable
from elmgrove.exchange import mqtt as module
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.mqtt import MqttExchange
from elmgrove.exchange.session import connect
from support.brokered import CHARTER, TOPIC, Place, epochs
from support.factories import contribution_from
from support.false_broker import false_broker, scripted
from support.mosquitto import running_broker

BLOB = contribution_from("fan-1").to_bytes()


@pytest.fixture
def place(mosquitto: None, tmp_path: Path) -> Iterator[Place]:
    with running_broker(tmp_path) as broker, ExitStack() as opened:
        MqttExchange.create(broker.url(TOPIC), CHARTER)
        yield Place(broker, opened)


# What is no entry


@pytest.mark.parametrize(
    ("blob", "told"),
    [
        (b"x", "left out"),
        (b"[" * 2000, "left out"),
        (bytes(5000), "left out"),
        (BLOB[:-1], "left out"),
        (BLOB[:100] + bytes([BLOB[100] ^ 1]) + BLOB[101:], "left out"),
        (bytes(1_000_000), "bytes it may have"),
        (contribution_from("fan-2").to_bytes(), "an entry of 'fan-2' under another name"),
        (contribution_from("pump-1").to_bytes(), "'pump-1'"),
    ],
    ids=["text", "nested", "zeros", "cut", "altered", "gigantic", "another's", "who may not join"],
)
def test_what_is_no_entry_is_left_out_and_told_once(
    place: Place, blob: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    place.open("fan-2").publish(contribution_from("fan-2"))
    topic = "entries/pump-1" if b"pump-1" in blob else "entries/fan-1"
    place.retain({topic: blob})
    reader = place.open("fan-3")
    for _ in range(3):
        assert epochs(reader) == {"fan-2": 5}
    assert caplog.text.count(f"{TOPIC}/{topic} is left out") == 1
    assert told in caplog.text
    place.open("fan-1").publish(contribution_from("fan-1"))
    assert epochs(reader) == {"fan-1": 5, "fan-2": 5}, "its device replaces it"


def test_what_was_cleared_is_gone(place: Place) -> None:
    place.open("fan-1").publish(contribution_from("fan-1"))
    reader = place.open("fan-3")
    assert epochs(reader) == {"fan-1": 5}
    place.retain({"entries/fan-1": b""})
    assert epochs(reader) == {}
    place.open("fan-1").publish(contribution_from("fan-1"))
    assert epochs(reader) == {"fan-1": 5}


def test_of_many_that_are_none_few_are_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.retain({f"entries/fan-{n}": b"x" for n in range(200)})
    assert place.open("fan-3").held() == {}
    assert caplog.text.count("is left out") == 5
    assert "195 more are left out" in caplog.text


def test_more_than_a_device_keeps_is_left_out_and_told_once(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    charter = len(json.dumps(CHARTER.fields)) + len(f"{TOPIC}/charter")
    monkeypatch.setattr(module, "MOST_KEPT", charter + 5 * (len(BLOB) + len(TOPIC) + 20))
    for number in range(9):
        place.retain({f"entries/fan-{number}": contribution_from(f"fan-{number}").to_bytes()})
    reader = place.open("fan-3")
    for _ in range(2):
        assert 4 <= len(reader.held()) <= 5
    assert caplog.text.count("retains more than the") == 1


def test_no_lie_ends_a_device_that_learns(place: Place) -> None:
    lies = [b"x" * 3000, b"{}", BLOB, bytes(2000)]
    place.retain({f"entries/fan-{number}": lie for number, lie in enumerate(lies)})
    place.retain({"entries/a/b": BLOB, "entries": BLOB, "charter/more": b"x"})
    place.open("fan-7").publish(contribution_from("fan-7", 500))
    with connect(place.url, "fan-9") as session:
        assert session.sync().devices == 1


# Brokers that lie


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "patience", 1.0)
    monkeypatch.setattr(Broker, "longest_wait", 1.0)


CHARTER_TOPIC = (f"{TOPIC}/charter", json.dumps(CHARTER.fields).encode())


def test_a_broker_that_drops_messages_is_told_of(soon: None) -> None:
    """It drops the first answer, and so maybe what came before."""
    asked = list[bytes]()

    def unsubscribed(number: bytes) -> bool:
        asked.append(number)
        return len(asked) > 1

    with (
        false_broker(scripted(answers=unsubscribed)) as port,
        MqttExchange(f"mqtt://127.0.0.1:{port}/{TOPIC}", "fan-1") as one,
        pytest.raises(Unreachable, match=r"drops messages.*raise max_queued_messages"),
    ):
        _ = one.charter


def endless() -> Iterator[tuple[str, bytes]]:
    yield CHARTER_TOPIC
    number = 0
    while True:
        number += 1
        time.sleep(0.001)
        yield f"{TOPIC}/entries/fan-{number}", bytes(500)


def silent() -> Iterator[tuple[str, bytes]]:
    yield CHARTER_TOPIC
    time.sleep(60)


@pytest.mark.parametrize("retained", [endless, silent])
def test_a_broker_that_does_not_come_to_an_end_is_unreachable_in_time(
    soon: None, monkeypatch: pytest.MonkeyPatch, retained: Callable[[], Iterator[tuple[str, bytes]]]
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 16_000)
    with (
        false_broker(scripted(retained=retained)) as port,
        MqttExchange(f"mqtt://127.0.0.1:{port}/{TOPIC}", "fan-1") as one,
    ):
        with pytest.raises(Unreachable, match="no answer in time"):
            _ = one.charter
        assert one._kept <= 16_000


def test_a_broker_that_acknowledges_nothing_is_unreachable_and_keeps_nothing(soon: None) -> None:
    def published(_topic: str, _payload: bytes) -> list[tuple[str, bytes]]:
        raise TimeoutError

    with (
        false_broker(scripted(published, retained=lambda: iter([CHARTER_TOPIC]))) as port,
        MqttExchange(f"mqtt://127.0.0.1:{port}/{TOPIC}", "fan-1") as one,
    ):
        for _ in range(3):
            with pytest.raises(Unreachable):
                one.publish(contribution_from("fan-1"))
            assert one._broker is None, "what nobody acknowledges does not pile up"
