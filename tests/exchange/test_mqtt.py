"""A broker as exchange: who may what, what a fleet on it does, and what is too large for it."""

import json
import time
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
from elmgrove.exchange.session import connect
from elmgrove.federation.charter import Charter
from support.brokered import CHARTER, TOPIC, Place, epochs, publish
from support.factories import contribution_from
from support.false_broker import false_broker, scripted
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


# What others leave on a broker, and brokers that lie: it is left out, told, and bounded

BLOB = contribution_from("fan-1").to_bytes()


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
