"""Contributions that are too large for a message: on a server, and announced by the broker."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from elmgrove.errors import Outdated, Refused, Unauthorized, Unreachable
from elmgrove.exchange import mqtt as blobs_module
from elmgrove.exchange.http import HttpExchange
from elmgrove.exchange.mqtt import Announcement, MqttExchange
from elmgrove.federation.contribution import Departure
from support.brokered import CHARTER, TOPIC, Place, entry_topic
from support.factories import contribution_from
from support.mosquitto import running_broker
from support.serving import Server, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(f"sqlite:///{tmp_path}/store.db") as found:
        yield found


@pytest.fixture
def blobs(server: Server) -> dict[str, str]:
    """Where what is too large goes, and what lets a device in there."""
    return {"blobs": f"{server.base}/fans", "token": server.found(CHARTER).token}


@pytest.fixture
def place(mosquitto: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A broker of which is thought that it retains nothing but departures."""
    monkeypatch.setattr(blobs_module, "MOST_BLOB", 100)
    with running_broker(tmp_path) as broker, ExitStack() as opened:
        MqttExchange.create(broker.url(TOPIC), CHARTER)
        yield Place(broker, opened)


def announced(place: Place, device: str) -> Announcement:
    found = place.retained(entry_topic(device))
    assert found is not None
    return Announcement.from_bytes(found)


def test_what_is_too_large_is_on_the_server_and_announced(
    place: Place, blobs: dict[str, str]
) -> None:
    one, other = place.open("fan-1", **blobs), place.open("fan-2", **blobs)
    one.publish(contribution_from("fan-1"))
    assert announced(place, "fan-1").url == blobs["blobs"]
    assert place.retained(f"{TOPIC}/blobs/fan-1") is None
    assert other.fetch(["fan-1"]) == [contribution_from("fan-1")]
    merged = other.merged("fan-2", None)
    assert merged is not None
    assert merged.evidence == contribution_from("fan-1").evidence
    with pytest.raises(Outdated):
        one.publish(contribution_from("fan-1", 4))
    one.publish(contribution_from("fan-1", 9))
    assert other.fetch(["fan-1"]) == [contribution_from("fan-1", 9)]


def test_leaving_is_known_at_both(place: Place, blobs: dict[str, str], server: Server) -> None:
    one = place.open("fan-1", **blobs)
    one.publish(contribution_from("fan-1"))
    one.publish(Departure("fan-1", 6))
    assert place.open("fan-2").fetch(["fan-1"]) == [Departure("fan-1", 6)]
    with HttpExchange(blobs["blobs"], "fan-3", token=blobs["token"]) as there:
        assert there.fetch(["fan-1"]) == [Departure("fan-1", 6)]


def test_what_grows_moves_to_the_server_and_back(
    place: Place, blobs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = place.open("fan-1", **blobs), place.open("fan-2", **blobs)
    for epoch, most in ((5, 10**6), (6, 100), (7, 10**6)):
        monkeypatch.setattr(blobs_module, "MOST_BLOB", most)
        one.publish(contribution_from("fan-1", 5, epoch=epoch))
        assert bool(announced(place, "fan-1").url) == (most == 100)
        assert (place.retained(f"{TOPIC}/blobs/fan-1") is None) == (most == 100)
        assert other.fetch(["fan-1"]) == [contribution_from("fan-1", 5, epoch=epoch)]


def test_what_a_broker_does_not_take_is_on_the_server_as_well(
    mosquitto: None, tmp_path: Path, blobs: dict[str, str]
) -> None:
    size = len(contribution_from("fan-1").to_bytes())
    with running_broker(tmp_path, f"max_packet_size {size}") as broker, ExitStack() as opened:
        MqttExchange.create(broker.url(TOPIC), CHARTER)
        place = Place(broker, opened)
        with pytest.raises(Refused, match=r"127\.0\.0\.1:\d+ retains no more than .*; set blobs"):
            place.open("fan-1").publish(contribution_from("fan-1"))
        place.open("fan-1", **blobs).publish(contribution_from("fan-1"))
        assert announced(place, "fan-1").url == blobs["blobs"]
        assert place.open("fan-2", **blobs).fetch(["fan-1"]) == [contribution_from("fan-1")]


def test_without_a_server_it_is_refused_or_left_out(
    place: Place, blobs: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    one = place.open("fan-1")
    with pytest.raises(Refused, match=r"retains no more than 100; set blobs"):
        one.publish(contribution_from("fan-1"))
    one.publish(Departure("fan-1", 1))
    place.open("fan-2", **blobs).publish(contribution_from("fan-2"))
    assert one.fetch(["fan-2"]) == []
    assert f"it is on the server at {blobs['blobs']}; set blobs" in caplog.text


def test_nothing_is_asked_of_an_address_that_somebody_announced(
    place: Place, blobs: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """It would get the key of each device that reads."""
    place.open("fan-1", **blobs).publish(contribution_from("fan-1"))
    with closing(socket.create_server(("127.0.0.1", 0))) as trap:
        trap.settimeout(0.2)
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/fans"
        for device in ("fan-1", "fan-2"):
            entry = contribution_from(device)
            place.announce(Announcement.of(entry, entry.to_bytes(), url))
        reader = place.open("fan-3", **blobs)
        assert reader.fetch(["fan-1", "fan-2"]) == [contribution_from("fan-1")]
        with pytest.raises(TimeoutError):
            trap.accept()
    assert f"to be at {url}, and is not on this device's server" in caplog.text


def test_the_server_is_believed_as_far_as_the_announcement(
    place: Place, blobs: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    place.open("fan-1", **blobs).publish(contribution_from("fan-1"))
    honest, reader = announced(place, "fan-1"), place.open("fan-2", **blobs)
    for lie in (replace(honest, epoch=6), replace(honest, sha256="0" * 64)):
        place.announce(lie)
        assert reader.fetch(["fan-1"]) == []
    assert "older (epoch 5) than was announced (epoch 6)" in caplog.text
    assert "not what was announced" in caplog.text


def test_a_server_that_is_away_or_does_not_know_the_device_is_told(
    place: Place, blobs: dict[str, str], server: Server
) -> None:
    stranger = place.open("fan-1", blobs=blobs["blobs"], token="wrong")
    with pytest.raises(Unauthorized):
        stranger.publish(contribution_from("fan-1"))
    away = place.open("fan-1", blobs="http://127.0.0.1:1/fans", token="any")
    with pytest.raises(Unreachable):
        away.publish(contribution_from("fan-1"))
    assert place.open("fan-2").listings() == [], "what was not stored is not announced"


def test_the_key_for_the_server_is_changed_there(
    place: Place, blobs: dict[str, str], tmp_path: Path
) -> None:
    one = place.open("fan-1", **blobs, keyfile=tmp_path / "fan-1.key")
    one.publish(contribution_from("fan-1"))
    before = (tmp_path / "fan-1.key").read_text()
    assert one.rotate_key()
    assert (tmp_path / "fan-1.key").read_text() != before
    one.publish(contribution_from("fan-1", 7))
    assert place.open("fan-2").rotate_key() is False
