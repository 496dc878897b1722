"""A broker as exchange: who may what, what a fleet on it does, and what is too large for it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trustme

from elmgrove import BadInput
from elmgrove.device.mqtt import DeviceTopics, discovery_topic
from elmgrove.errors import Outdated, Refused, Unauthorized, Unreachable
from elmgrove.exchange import mqtt as blobs_module
from elmgrove.exchange import mqtt as board_module
from elmgrove.exchange.base import Tls
from elmgrove.exchange.broker_address import BrokerAddress, Message
from elmgrove.exchange.connection import connect
from elmgrove.exchange.mqtt import Announcement, MqttExchange
from elmgrove.federation.contribution import Departure
from support.brokered import CHARTER, TOPIC, Place, entry_topic
from support.factories import contribution_from
from support.mosquitto import example_broker, running_broker
from support.serving import Authority, wait_until

USERS = {name: f"{name}'s secret" for name in ("admin", "viewer", "operator", "fan-1", "fan-2")}


@pytest.fixture
def place(mosquitto: None, tmp_path: Path) -> Iterator[Place]:
    with running_broker(tmp_path) as broker, ExitStack() as opened:
        MqttExchange.create(broker.url(TOPIC), CHARTER)
        yield Place(broker, opened)


def batched(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]


# Making a federation


def test_a_federation_is_made_once(place: Place) -> None:
    url = place.url
    place.open("fan-1").publish(contribution_from("fan-1"))
    MqttExchange.create(url, CHARTER)
    assert place.open("fan-2").fetch(["fan-1"]) == [contribution_from("fan-1")]
    with pytest.raises(BadInput, match=f"{TOPIC}/charter defines another federation"):
        MqttExchange.create(url, replace(CHARTER, ridge=0.2))
    assert place.open("fan-3").charter == CHARTER


def test_several_federations_are_on_one_broker(place: Place) -> None:
    other = place.broker.url("federation/pumps")
    MqttExchange.create(other, replace(CHARTER, name="pumps", members=None))
    place.open("fan-1").publish(contribution_from("fan-1"))
    with MqttExchange(other, "pump-1") as pump:
        assert (pump.charter.name, pump.listings()) == ("pumps", [])


@pytest.mark.parametrize("topic", ["", "federation/+", "federation/#"])
def test_a_federation_has_a_topic_of_its_own(topic: str) -> None:
    with pytest.raises(BadInput, match="topic of its own"):
        MqttExchange(f"mqtt://127.0.0.1/{topic}", "fan-1")


def test_where_there_is_no_federation_one_is_told_and_may_ask_again(place: Place) -> None:
    url = place.broker.url("federation/none")
    with MqttExchange(url, "fan-1") as one:
        with pytest.raises(Unreachable, match="no charter under federation/none/charter") as told:
            _ = one.charter
        assert f"federation create NAME --data FILE --exchange {url}" in str(told.value)
        MqttExchange.create(url, CHARTER)
        assert one.charter == CHARTER


@pytest.mark.parametrize("text", [b"[]", b"{}", b"\xff", b"[" * 10**5, b'{"name": "fans"}', b"1"])
def test_a_charter_that_is_none_is_unreachable(place: Place, text: bytes) -> None:
    """A hostile broker ends no agent: another charter may be there later."""
    place.anybody().publish(f"{TOPIC}/charter", text, retain=True)
    with pytest.raises(Unreachable, match="is no charter"):
        _ = place.open("fan-1").charter


def test_a_charter_that_would_take_all_memory_is_none(place: Place) -> None:
    fields = json.loads(json.dumps(CHARTER.fields))
    fields["basis"]["layer"]["units"] = 10**9
    del fields["fingerprint"]
    place.anybody().publish(f"{TOPIC}/charter", json.dumps(fields).encode(), retain=True)
    with pytest.raises(Unreachable, match="is no charter"):
        _ = place.open("fan-1").charter


# Devices


def test_a_device_takes_part_by_a_broker_alone(place: Place, tmp_path: Path) -> None:
    url, rng = place.url, np.random.default_rng(1)
    with (
        connect(url, "fan-1", state=tmp_path / "fan-1.elm") as one,
        connect(url, "fan-2", state=tmp_path / "fan-2.elm") as other,
    ):
        one.detector.learn_many(rng.normal(size=(500, 3)))
        other.detector.learn_many(rng.normal(size=(500, 3)))
        one.sync()
        assert other.sync().devices == 1
        assert one.sync().devices == 1
        other.leave()
        assert one.sync().devices == 0


def test_leaving_is_retained_and_what_was_contributed_is_not(place: Place) -> None:
    one, other = place.open("fan-1"), place.open("fan-2")
    one.publish(contribution_from("fan-1"))
    one.publish(Departure("fan-1", 6))
    assert other.fetch(["fan-1"]) == [Departure("fan-1", 6)]
    assert [(it.origin, it.left) for it in other.listings()] == [("fan-1", True)]
    assert place.retained(f"{TOPIC}/blobs/fan-1") is None
    with pytest.raises(Outdated):
        one.publish(contribution_from("fan-1", 6))
    one.publish(contribution_from("fan-1", 2, epoch=7))
    assert other.fetch(["fan-1"]) == [contribution_from("fan-1", 2, epoch=7)]


def test_a_fleet_that_is_larger_than_a_brokers_queue_is_read_whole(place: Place) -> None:
    """By its usual settings a broker drops what is more than 1,000 messages for one device."""
    entry, anybody = contribution_from("fan-1"), place.anybody()
    made = Announcement.of(entry, entry.to_bytes())
    names = {f"fan-{number}" for number in range(4000)}
    for some in batched(sorted(names), 500):
        sent = [
            anybody.send(entry_topic(name), replace(made, device=name).to_bytes(), retain=True)
            for name in some
        ]
        for one in sent:
            one.result(180)
    reader = place.open("fan-5000")
    assert {listing.origin for listing in reader.listings()} == names
    place.open("fan-5001").publish(contribution_from("fan-5001"))
    assert len(reader.listings()) == 4001


# Who may do what, by the files in examples/mosquitto


@pytest.fixture
def guarded(mosquitto: None, tmp_path: Path) -> Iterator[Callable[[str], MqttExchange]]:
    authority = Authority(tmp_path, trustme.CA())
    with example_broker(tmp_path, USERS, authority) as broker, ExitStack() as opened:

        def way(user: str, device: str | None = None) -> MqttExchange:
            url, tls = broker.url(TOPIC, user), Tls(authority.ca)
            made = MqttExchange(url, device or user, password=USERS[user], tls=tls)
            return opened.enter_context(made)

        admin = broker.url(TOPIC, "admin")
        MqttExchange.create(admin, CHARTER, password=USERS["admin"], tls=Tls(authority.ca))
        yield way


def test_by_the_example_devices_write_what_is_theirs(
    guarded: Callable[..., MqttExchange],
) -> None:
    one, other = guarded("fan-1"), guarded("fan-2")
    one.publish(contribution_from("fan-1"))
    other.publish(contribution_from("fan-2"))
    assert one.fetch(["fan-1", "fan-2"]) == [contribution_from("fan-1"), contribution_from("fan-2")]
    one.publish(Departure("fan-1", 9))
    assert other.fetch(["fan-1"]) == [Departure("fan-1", 9)]


def test_by_the_example_nobody_writes_in_anothers_name(
    guarded: Callable[..., MqttExchange],
) -> None:
    one = guarded("fan-1")
    with pytest.raises(
        Refused, match=r"let 'fan-1' write federation/fans/blobs/fan-2: Not authorized; allow it"
    ):
        one.publish(contribution_from("fan-2"))
    for topic in ("charter", "echoes/fan-2", "entries/0/fan-2", "entries/x/fan-1", "blobs/fan-2"):
        with pytest.raises(Refused, match="Not authorized"):
            one._broker.publish(f"{TOPIC}/{topic}", b"x", retain=True)
    assert guarded("fan-2").listings() == []


def test_by_the_example_who_looks_reads_all_and_writes_nothing(
    guarded: Callable[..., MqttExchange],
) -> None:
    guarded("fan-1").publish(contribution_from("fan-1"))
    viewer = guarded("viewer", "fleet")
    assert viewer.fetch(["fan-1"]) == [contribution_from("fan-1")]
    with pytest.raises(Refused, match="Not authorized"):
        viewer.publish(contribution_from("fan-2"))


def test_by_the_example_agents_tell_what_is_theirs_and_operators_ask(
    guarded: Callable[..., MqttExchange],
) -> None:
    one, operator = guarded("fan-1")._broker, guarded("operator")._broker
    for topic in ("verdict", "event", "status", "done"):
        one.publish(f"elmgrove/fan-1/{topic}", b"{}")
        with pytest.raises(Refused, match="Not authorized"):
            one.publish(f"elmgrove/fan-2/{topic}", b"{}")
        with pytest.raises(Refused, match="Not authorized"):
            operator.publish(f"elmgrove/fan-1/{topic}", b"{}")
    heard = list[Message]()
    one.subscribe(["elmgrove/fan-1/do"], heard.append)
    operator.publish("elmgrove/fan-1/do", b"accept")
    with pytest.raises(Refused, match="Not authorized"):
        one.publish("elmgrove/fan-1/do", b"accept")
    wait_until(lambda: [message.payload for message in heard] == [b"accept"])
    where = BrokerAddress.parsed("mqtt://host/elmgrove")
    own, others = (
        discovery_topic("homeassistant", DeviceTopics.under(where, name))
        for name in ("fan-1", "fan-2")
    )
    one.publish(own, b"{}", retain=True)
    for topic in (others, others.replace("fan-2/", "", 1)):
        with pytest.raises(Refused, match="Not authorized"):
            one.publish(topic, b"{}", retain=True)


def test_by_the_example_the_largest_message_is_a_whole_contribution(
    guarded: Callable[..., MqttExchange],
) -> None:
    one = guarded("fan-1")
    one._broker.publish(f"{TOPIC}/blobs/fan-1", bytes(blobs_module.MOST_RETAINED), retain=True)


def test_who_can_not_read_what_it_writes_is_told(
    mosquitto: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This broker grants the subscription and keeps the messages to itself."""
    monkeypatch.setattr(board_module, "PATIENCE", 0.3)
    acl = "user admin\ntopic readwrite #\npattern write #\n"
    with running_broker(tmp_path, users=USERS, acl=acl) as broker:
        MqttExchange.create(broker.url(TOPIC, "admin"), CHARTER, password=USERS["admin"])
        url = broker.url(TOPIC, "fan-1")
        told = r"echoes/fan-1.*not let it read that; allow it"
        one = MqttExchange(url, "fan-1", password=USERS["fan-1"])
        with one, pytest.raises(Unauthorized, match=told):
            _ = one.charter
