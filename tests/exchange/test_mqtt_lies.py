"""What others leave on a broker, and brokers that lie: it is left out, told, and bounded."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from elmgrove.errors import Unreachable
from elmgrove.exchange import mqtt as board_module
from elmgrove.exchange.connection import connect
from elmgrove.exchange.mqtt import SHARDS, Announcement, MqttExchange
from elmgrove.federation.contribution import Departure
from support.brokered import CHARTER, TOPIC, Place, entry_topic
from support.factories import contribution_from
from support.false_broker import false_broker, scripted
from support.mosquitto import running_broker

BLOB = contribution_from("fan-1").to_bytes()
HONEST = Announcement.of(contribution_from("fan-1"), BLOB)


@pytest.fixture
def place(mosquitto: None, tmp_path: Path) -> Iterator[Place]:
    with running_broker(tmp_path) as broker, ExitStack() as opened:
        MqttExchange.create(broker.url(TOPIC), CHARTER)
        yield Place(broker, opened)


# What is no announcement


def stated(**changes: object) -> bytes:
    return json.dumps(json.loads(HONEST.to_bytes()) | changes).encode()


@pytest.mark.parametrize(
    "payload",
    [
        *(b"x", b"\xff", b"[]", b"{}", b"null", b"[" * 2000, b'{"device": "fan-1"}'),
        *(stated(format=2), stated(device="fan-2"), stated(device=3), stated(device="\ud800")),
        *(stated(epoch="5"), stated(epoch=-1), stated(epoch=2**63), stated(epoch=True)),
        *(stated(rows="5"), stated(rows=-1), stated(rows=float("nan")), stated(rows=10**400)),
        *(stated(size=-1), stated(size=1e3), stated(size=2**62), stated(sha256="0" * 63)),
        *(stated(sha256=["0"]), stated(url=3), stated(url="x" * 600), stated(url="a\nb")),
        *(stated(more=1), stated(sha256="G" * 64)),
    ],
)
def test_what_is_no_announcement_is_left_out_and_told_once(
    place: Place, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    place.open("fan-2").publish(contribution_from("fan-2"))
    place.anybody().publish(entry_topic("fan-1"), payload, retain=True)
    reader = place.open("fan-3")
    for _ in range(3):
        assert [one.origin for one in reader.listings()] == ["fan-2"]
    assert reader.fetch(["fan-1", "fan-2"]) == [contribution_from("fan-2")]
    assert caplog.text.count(f"{entry_topic('fan-1')} is left out") == 1
    place.open("fan-1").publish(contribution_from("fan-1"))
    assert reader.fetch(["fan-1"]) == [contribution_from("fan-1")], "its device replaces it"


def test_an_announcement_under_another_topic_is_left_out(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = next(shard for shard in SHARDS if f"/{shard}/" not in entry_topic("fan-1"))
    for topic in (f"{TOPIC}/entries/{wrong}/fan-1", entry_topic("fan-2")):
        place.anybody().publish(topic, HONEST.to_bytes(), retain=True)
    place.anybody().publish(f"{TOPIC}/entries/x/fan-1", HONEST.to_bytes(), retain=True)
    assert place.open("fan-3").listings() == []
    assert caplog.text.count("which is not that device's topic") == 2


def test_who_may_not_join_is_left_out(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.announce(replace(HONEST, device="pump-1"))
    assert place.open("fan-3").listings() == []
    assert "'pump-1' is not among the devices that may join" in caplog.text


def test_an_announcement_that_was_cleared_is_gone(place: Place) -> None:
    place.open("fan-1").publish(contribution_from("fan-1"))
    reader = place.open("fan-3")
    assert len(reader.listings()) == 1
    place.anybody().publish(entry_topic("fan-1"), b"", retain=True)
    assert reader.listings() == []
    place.open("fan-1").publish(contribution_from("fan-1"))
    assert reader.fetch(["fan-1"]) == [contribution_from("fan-1")]


def test_of_many_that_are_none_few_are_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    anybody = place.anybody()
    sent = [anybody.send(entry_topic(f"fan-{n}"), b"x", retain=True) for n in range(200)]
    for one in sent:
        one.result(60)
    assert place.open("fan-3").listings() == []
    assert caplog.text.count("is left out") == 5
    assert "195 more announcements are left out" in caplog.text


def test_more_than_a_device_remembers_is_left_out_and_told_once(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "MOST_HEARD", 16 * 1000)
    anybody = place.anybody()
    sent = [
        anybody.send(
            entry_topic(f"fan-{n}"),
            replace(HONEST, device=f"fan-{n}").to_bytes(),
            retain=True,
        )
        for n in range(300)
    ]
    for one in sent:
        one.result(60)
    reader = place.open("fan-3")
    some = len(reader.listings())
    assert 20 < some < 100
    assert len(reader.listings()) == some
    assert caplog.text.count("retains more announcements than the 16,000 bytes") == 1


def test_many_in_one_shard_are_told_to_be_more_than_usual(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "MANY", 3)
    writer = place.open("fan-1")
    for number in range(60):
        writer.publish(contribution_from(f"fan-{number}"))
    assert len(place.open("fan-99").listings()) == 60
    assert "raise max_queued_messages there" in caplog.text


# What is announced, and is not there


@pytest.mark.parametrize(
    ("blob", "told"),
    [
        (b"", "it was announced, and is not there"),
        (b"garbage", "left out"),
        (BLOB[:-1], "left out"),
        (bytes(2_000_000), "it was announced, and is not there"),
        (contribution_from("fan-2").to_bytes(), "an entry of 'fan-2' under another name"),
        (contribution_from("fan-1", 4).to_bytes(), r"older (epoch 4) than was announced (epoch 5)"),
        (contribution_from("fan-1", 6, epoch=5).to_bytes(), "not what was announced"),
        (Departure("fan-1", 5).to_bytes(), "not what was announced"),
    ],
    ids=["none", "garbage", "cut", "gigantic", "another's", "older", "altered", "departure"],
)
def test_what_is_not_as_announced_is_left_out(
    place: Place, blob: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    place.open("fan-2").publish(contribution_from("fan-2"))
    place.announce(HONEST)
    if blob:
        place.anybody().publish(f"{TOPIC}/blobs/fan-1", blob, retain=True)
    reader = place.open("fan-3")
    for _ in range(2):
        assert reader.fetch(["fan-1", "fan-2"]) == [contribution_from("fan-2")]
    merged = reader.merged("fan-3", None)
    assert merged is not None
    assert merged.devices == 1
    assert caplog.text.count("the entry of fan-1 is left out") == 1
    assert told in caplog.text


def test_a_newer_one_than_was_announced_is_taken(place: Place) -> None:
    """Its device replaced it, and was killed before it could say so."""
    place.announce(HONEST)
    newer = contribution_from("fan-1", 8)
    place.anybody().publish(f"{TOPIC}/blobs/fan-1", newer.to_bytes(), retain=True)
    reader = place.open("fan-3")
    assert reader.fetch(["fan-1"]) == [newer]
    place.open("fan-1").publish(newer)
    assert [one.epoch for one in reader.listings()] == [8]


def test_lies_about_size_and_rows_are_noticed(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    for lie in (replace(HONEST, size=7), replace(HONEST, rows=6.0), replace(HONEST, rows=None)):
        caplog.clear()
        place.announce(lie)
        place.anybody().publish(f"{TOPIC}/blobs/fan-1", BLOB, retain=True)
        assert place.open("fan-3").fetch(["fan-1"]) == []
        assert "not what was announced" in caplog.text
    place.announce(replace(HONEST, size=10**9))
    assert place.open("fan-3").listings() == []


def test_no_lie_ends_a_device_that_learns(place: Place) -> None:
    anybody = place.anybody()
    for number, payload in enumerate([b"x" * 3000, b"{}", HONEST.to_bytes(), bytes(2000)]):
        anybody.publish(entry_topic(f"fan-{number}"), payload, retain=True)
        anybody.publish(f"{TOPIC}/blobs/fan-{number}", payload, retain=True)
    place.open("fan-7").publish(contribution_from("fan-7", 500))
    with connect(place.url, "fan-9") as session:
        assert session.sync().devices == 1


# Brokers that lie


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "PATIENCE", 0.3)


def test_a_broker_that_drops_messages_is_told_of(soon: None) -> None:
    """It drops the first echo, and so maybe what came before."""
    heard = list[bytes]()

    def published(topic: str, payload: bytes) -> list[tuple[str, bytes]]:
        heard.append(payload)
        return [] if len(heard) == 1 else [(topic, payload)]

    with (
        false_broker(scripted(published)) as port,
        MqttExchange(f"mqtt://127.0.0.1:{port}/{TOPIC}", "fan-1") as one,
        pytest.raises(Unreachable, match=r"drops messages.*raise max_queued_messages"),
    ):
        _ = one.charter


def test_a_broker_that_does_not_come_to_an_end_is_unreachable(
    soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives out one announcement after the other, without end."""
    monkeypatch.setattr(board_module, "SECONDS", 1.0)
    monkeypatch.setattr(board_module, "MOST_HEARD", 16 * 1000)
    charter = json.dumps(CHARTER.fields).encode()
    state = {"charter": False}

    def published(topic: str, payload: bytes) -> Iterator[tuple[str, bytes]]:
        if not state["charter"]:
            state["charter"] = True
            yield f"{TOPIC}/charter", charter
            yield topic, payload
            return
        number = 0
        while True:
            number += 1
            time.sleep(0.001)
            yield f"{TOPIC}/entries/{SHARDS[number % 16]}/fan-{number}", bytes(500)

    with (
        false_broker(scripted(published)) as port,
        MqttExchange(f"mqtt://127.0.0.1:{port}/{TOPIC}", "fan-1") as one,
    ):
        assert one.charter == CHARTER
        with pytest.raises(Unreachable, match="does not come to an end"):
            one.listings()


def test_a_broker_that_stops_in_the_middle_is_unreachable_in_time(
    soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It acknowledges nothing any more, and keeps the line open."""
    monkeypatch.setattr(board_module, "SECONDS", 1.0)
    monkeypatch.setattr("elmgrove.exchange.mqtt.MOST_RETAINED", 1000)

    def published(topic: str, payload: bytes) -> Iterator[tuple[str, bytes]]:
        time.sleep(60)
        yield topic, payload

    with (
        false_broker(scripted(published)) as port,
        MqttExchange(f"mqtt://127.0.0.1:{port}/{TOPIC}", "fan-1") as one,
        pytest.raises(Unreachable),
    ):
        _ = one.charter
