"""A broker as exchange: who may what, what a fleet on it does, and what is too large for it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from elmgrove import BadInput, Basis, HiddenLayer
from elmgrove.device.mqtt import DeviceTopics, discovery_topic
from elmgrove.errors import Refused, Unauthorized, Unreachable
from elmgrove.exchange import mqtt as module
from elmgrove.exchange.base import Tls
from elmgrove.exchange.broker import MOST_PAYLOAD, Broker
from elmgrove.exchange.broker_address import BrokerAddress, Message
from elmgrove.exchange.mqtt import MqttExchange
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Departure
from support.brokered import CHARTER, TOPIC, Place, epochs, publish
from support.factories import contribution_from
from support.mosquitto import Mosquitto, example_broker, running_broker
from support.serving import Authority, wait_until

USERS = {name: f"{name}'s secret" for name in ("admin", "viewer", "operator", "fan-1", "fan-2")}


@pytest.fixture
def place(mosquitto: None, tmp_path: Path) -> Iterator[Place]:
    with running_broker(tmp_path) as broker, ExitStack() as opened:
        MqttExchange.create(broker.url(TOPIC), CHARTER)
        yield Place(broker, opened)


# Making a federation


def test_a_federation_is_made_once(place: Place) -> None:
    url = place.url
    place.open("fan-1").publish(contribution_from("fan-1"))
    MqttExchange.create(url, CHARTER)
    assert place.open("fan-2").held()["fan-1"].entry == contribution_from("fan-1")
    with pytest.raises(BadInput, match=f"{TOPIC}/charter defines another federation"):
        MqttExchange.create(url, replace(CHARTER, ridge=0.2))
    assert place.open("fan-3").charter == CHARTER


def test_several_federations_are_on_one_broker(place: Place) -> None:
    other = place.broker.url("federation/pumps")
    MqttExchange.create(other, replace(CHARTER, name="pumps", members=None))
    place.open("fan-1").publish(contribution_from("fan-1"))
    with MqttExchange(other, "pump-1") as pump:
        assert (pump.charter.name, pump.held()) == ("pumps", {})


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


GIGANTIC = Charter("fans", Basis(HiddenLayer(3, 10**9, activation="tanh", seed=1), 3)).fields


@pytest.mark.parametrize(
    "text",
    [
        *(b"[]", b"{}", b"\xff", b"[" * 10**5, b'{"name": "fans"}', b"1"),
        json.dumps(
            {name: value for name, value in GIGANTIC.items() if name != "fingerprint"}
        ).encode(),
    ],
)
def test_a_charter_that_is_none_is_unreachable(place: Place, text: bytes) -> None:
    """A hostile broker ends no agent: another charter may be there later."""
    place.retain({"charter": text})
    with pytest.raises(Unreachable, match="is no charter"):
        _ = place.open("fan-1").charter


# Devices


def test_a_fleet_is_read_whole_and_may_be_more_than_a_broker_gives_out(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """By its usual settings a broker drops what is more than 1,000 messages for one device."""
    entries = {f"fan-{n}": contribution_from(f"fan-{n}") for n in range(2000)}
    place.retain({f"entries/{name}": entry.to_bytes() for name, entry in entries.items()})
    reader = place.open("fan-5000")
    assert {name: one.entry for name, one in reader.held().items()} == entries
    place.open("fan-5001").publish(contribution_from("fan-5001"))
    assert len(reader.held()) == 2001
    assert caplog.text.count("retains 1,000 entries or more: raise max_queued_messages") == 2


def test_what_is_too_large_for_a_message_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PAYLOAD", 100)
    told = r"contribution has \d+ bytes, and a message has 100 at most; use an Elmgrove server"
    one = place.open("fan-1")
    with pytest.raises(Refused, match=told):
        one.publish(contribution_from("fan-1"))
    assert one.held() == {}


# Who may do what, by the files in examples/mosquitto


class Guarded:
    """The broker of the examples, with a federation, and those who use it."""

    def __init__(self, broker: Mosquitto, tls: Tls, opened: ExitStack) -> None:
        self._broker, self._tls, self._opened = broker, tls, opened
        MqttExchange.create(broker.url(TOPIC, "admin"), CHARTER, password=USERS["admin"], tls=tls)

    def exchange(self, user: str, device: str | None = None) -> MqttExchange:
        url = self._broker.url(TOPIC, user)
        made = MqttExchange(url, device or user, password=USERS[user], tls=self._tls)
        return self._opened.enter_context(made)

    def broker(self, user: str, *topics: str, hear: Callable[[Message], None] = print) -> Broker:
        address = BrokerAddress.parsed(self._broker.url(TOPIC, user))
        made = Broker(address, topics, hear, password=USERS[user], tls=self._tls)
        return self._opened.enter_context(made)


@pytest.fixture
def guarded(mosquitto: None, tmp_path: Path) -> Iterator[Guarded]:
    authority = Authority(tmp_path, trustme.CA())
    with example_broker(tmp_path, USERS, authority) as broker, ExitStack() as opened:
        yield Guarded(broker, Tls(authority.ca), opened)


def test_by_the_example_devices_write_what_is_theirs(guarded: Guarded) -> None:
    one, other = guarded.exchange("fan-1"), guarded.exchange("fan-2")
    one.publish(contribution_from("fan-1"))
    other.publish(contribution_from("fan-2"))
    assert epochs(one) == {"fan-1": 5, "fan-2": 5}
    one.publish(Departure("fan-1", 9))
    assert other.held()["fan-1"].entry == Departure("fan-1", 9)


def test_by_the_example_nobody_writes_in_anothers_name(guarded: Guarded) -> None:
    told = r"let 'fan-1' write federation/fans/entries/fan-2: Not authorized; allow it"
    with pytest.raises(Refused, match=told):
        guarded.exchange("fan-1").publish(contribution_from("fan-2"))
    one = guarded.broker("fan-1")
    for topic in ("charter", "entries/fan-2", "entries/0/fan-1", "entries"):
        with pytest.raises(Refused, match="Not authorized"):
            publish(one, f"{TOPIC}/{topic}", b"x", retain=True)
    assert guarded.exchange("fan-2").held() == {}


def test_by_the_example_who_looks_reads_all_and_writes_nothing(guarded: Guarded) -> None:
    guarded.exchange("fan-1").publish(contribution_from("fan-1"))
    viewer = guarded.exchange("viewer", "fleet")
    assert epochs(viewer) == {"fan-1": 5}
    with pytest.raises(Refused, match="Not authorized"):
        viewer.publish(contribution_from("fan-2"))


def test_by_the_example_agents_tell_what_is_theirs_and_operators_ask(guarded: Guarded) -> None:
    heard = list[Message]()
    one = guarded.broker("fan-1", "elmgrove/fan-1/do", hear=heard.append)
    operator = guarded.broker("operator")
    for topic in ("verdict", "event", "status", "done"):
        publish(one, f"elmgrove/fan-1/{topic}", b"{}")
        with pytest.raises(Refused, match="Not authorized"):
            publish(one, f"elmgrove/fan-2/{topic}", b"{}")
        with pytest.raises(Refused, match="Not authorized"):
            publish(operator, f"elmgrove/fan-1/{topic}", b"{}")
    publish(operator, "elmgrove/fan-1/do", b"accept")
    with pytest.raises(Refused, match="Not authorized"):
        publish(one, "elmgrove/fan-1/do", b"accept")
    wait_until(lambda: [message.payload for message in heard] == [b"accept"])
    where = BrokerAddress.parsed("mqtt://host/elmgrove")
    own, others = (discovery_topic(DeviceTopics.under(where, name)) for name in ("fan-1", "fan-2"))
    publish(one, own, b"{}", retain=True)
    for topic in (others, others.replace("fan-2/", "", 1)):
        with pytest.raises(Refused, match="Not authorized"):
            publish(one, topic, b"{}", retain=True)


def test_by_the_example_the_largest_message_is_a_whole_contribution(guarded: Guarded) -> None:
    one = guarded.broker("fan-1")
    publish(one, f"{TOPIC}/entries/fan-1", bytes(MOST_PAYLOAD), retain=True)


def test_who_can_not_read_what_it_writes_is_told(mosquitto: None, tmp_path: Path) -> None:
    """This broker grants the subscription and keeps the messages to itself."""
    acl = f"user admin\ntopic readwrite #\npattern write #\npattern read {TOPIC}/charter\n"
    with running_broker(tmp_path, users=USERS, acl=acl) as broker:
        MqttExchange.create(broker.url(TOPIC, "admin"), CHARTER, password=USERS["admin"])
        url = broker.url(TOPIC, "fan-1")
        told = r"entries/fan-1, and does not let it read that; allow it"
        one = MqttExchange(url, "fan-1", password=USERS["fan-1"])
        with one, pytest.raises(Unauthorized, match=told):
            one.publish(contribution_from("fan-1"))
