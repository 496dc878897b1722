"""A broker as a device sees it: acknowledged or told why not, on a real mosquitto."""

import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from elmgrove import BadInput
from elmgrove.errors import Refused, Unauthorized, Unreachable
from elmgrove.exchange.base import Tls
from elmgrove.exchange.broker import MOST_PAYLOAD, Broker
from elmgrove.exchange.broker_address import BrokerAddress, Message
from support.brokered import publish, publish_at_once
from support.false_broker import LET_IN, false_broker
from support.mosquitto import Mosquitto, running_broker
from support.paho_client import somebody_at
from support.serving import Authority, wait_until


@pytest.fixture(autouse=True)
def _links_come_back_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "delays", (0.05, 0.2))


@pytest.fixture
def place(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as found:
        yield found


def opened(place: Mosquitto, *topics: str, user: str = "", **more: object) -> Broker:
    return Broker(BrokerAddress.parsed(place.url("a", user)), topics, **more)


@contextmanager
def hearing(place: Mosquitto, *topics: str, **more: object) -> Iterator[list[Message]]:
    """What comes under some topics, retained messages first."""
    found = list[Message]()
    with opened(place, *topics, hear=found.append, **more) as broker:
        broker.catch_up()
        yield found


@contextmanager
def killed(url: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a will that publishes something, to be killed."""
    program = (
        "import sys, time; from elmgrove.exchange.broker import *;"
        "from elmgrove.exchange.broker_address import *;"
        "one = Broker(BrokerAddress.parsed(sys.argv[1]), will=Message(sys.argv[2], b'offline'));"
        "one.start(); one.publish(sys.argv[2], b'online'); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, url, topic]) as process:
        try:
            yield process
        finally:
            process.kill()


# Publishing


def test_what_is_retained_is_there_for_latecomers_and_the_rest_is_not(place: Mosquitto) -> None:
    with opened(place) as one:
        publish(one, "a/1", b"kept", retain=True)
        publish(one, "a/2", b"gone")
        with hearing(place, "a/+") as found:
            publish(one, "a/3", b"new")
            wait_until(lambda: len(found) == 2)
    assert found == [Message("a/1", b"kept", True), Message("a/3", b"new", False)]


def test_many_are_sent_in_their_order_without_waiting_for_each(place: Mosquitto) -> None:
    with opened(place) as one, hearing(place, "a/#") as found:
        sent = [one.publish("a/n", b"%d" % number) for number in range(500)]
        one.wait(lambda: all(each.settled for each in sent), 60)
        wait_until(lambda: len(found) == 500)
    assert [message.payload for message in found] == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ("max_packet_size", r"takes messages of 2,000 bytes.*max_packet_size"),
        # Of this one it does not say so before.
        ("message_size_limit", r"Quota exceeded; let the broker take larger messages"),
    ],
)
def test_what_is_more_than_a_broker_takes_is_refused(
    mosquitto: None, tmp_path: Path, limit: str, told: str
) -> None:
    with running_broker(tmp_path, f"{limit} 2000") as place, opened(place) as one:
        with pytest.raises(Refused, match=told):
            publish(one, "a/1", bytes(3000))
        publish(one, "a/1", bytes(1000))
        assert one.links == 1


def test_a_broker_that_retains_nothing_refuses(mosquitto: None, tmp_path: Path) -> None:
    with running_broker(tmp_path, "retain_available false") as place, opened(place) as one:
        with pytest.raises(Refused, match="retains nothing"):
            publish(one, "a/1", b"x", retain=True)
        publish(one, "a/1", b"x")


# Who may

USERS = {"fan-1": "secret", "fan-2": "other"}
ACL = "pattern write a/%u/#\npattern read a/#\n"


@pytest.mark.parametrize(
    ("user", "password"), [("", None), ("fan-1", "wrong"), ("fan-9", "secret"), ("fan-1", None)]
)
def test_who_is_not_known_is_not_let_in(
    mosquitto: None, tmp_path: Path, user: str, password: str | None
) -> None:
    with (
        running_broker(tmp_path, users=USERS) as place,
        opened(place, "a/#", user=user, password=password) as one,
    ):
        with pytest.raises(Unauthorized, match=r"does not let .* in: .*state user and password"):
            one.catch_up()
        assert isinstance(one.failure, Unauthorized)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, trustme.CA())


def test_only_who_trusts_the_authority_speaks_with_the_broker(
    mosquitto: None, tmp_path: Path, authority: Authority
) -> None:
    known = {"user": "fan-1", "password": "secret"}
    with running_broker(tmp_path, users=USERS, acl=ACL, authority=authority) as place:
        with opened(place, **known, tls=Tls(authority.ca)) as one:
            publish(one, "a/fan-1/1", b"x")
        with opened(place, **known) as one, pytest.raises(Unreachable, match=r"certificate.*as ca"):
            publish(one, "a/fan-1/1", b"x")
        plain = BrokerAddress.parsed(place.url("a", "fan-1").replace("mqtts", "mqtt"))
        with Broker(plain, password="secret") as one, pytest.raises(Unreachable):
            publish(one, "a/fan-1/1", b"x")


def test_a_certificate_says_who_one_is(
    mosquitto: None, tmp_path: Path, authority: Authority
) -> None:
    asked = "require_certificate true\nuse_identity_as_username true"
    with running_broker(tmp_path, asked, acl=ACL, authority=authority) as place:
        with opened(place, tls=Tls(authority.ca, **authority.signed("fan-1"))) as one:
            publish(one, "a/fan-1/1", b"x")
            with pytest.raises(Refused, match="Not authorized"):
                publish(one, "a/fan-2/1", b"x")
        with opened(place, tls=Tls(authority.ca)) as one, pytest.raises(Unreachable):
            publish(one, "a/fan-1/1", b"x")


def test_files_that_are_no_certificates_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(BadInput, match=r"ca\.pem"):
        Broker(BrokerAddress.parsed("mqtts://127.0.0.1"), tls=Tls(str(tmp_path / "ca.pem")))


# Links come and go


def test_nobody_there_is_told_at_once_and_once_there_the_link_comes(place: Mosquitto) -> None:
    place.stop()
    with opened(place) as one:
        for _ in range(3):
            with pytest.raises(Unreachable, match="refused"):
                one.wait(lambda: one.linked)
        patient = one.publish("a/1", b"patient", retain=True)
        place.start()
        wait_until(lambda: patient.settled)
        assert (one.links, one.linked, one.failure) == (1, True, None)
    with hearing(place, "a/1") as found:
        assert found == [Message("a/1", b"patient", True)]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_lost_link_comes_back_with_what_it_heard(place: Mosquitto, how: signal.Signals) -> None:
    with opened(place) as one, hearing(place, "a/#") as found:
        publish(one, "a/1", b"before")
        wait_until(lambda: len(found) == 1)
        place.stop(how)
        place.start()

        def hears_again() -> bool:
            sent = one.publish("a/1", b"after")
            wait_until(lambda: sent.settled)
            return found[-1].payload == b"after"

        wait_until(hears_again)
        assert found[-1].link == 2


def test_a_will_is_for_those_who_end_without_a_goodbye(place: Mosquitto) -> None:
    with hearing(place, "a/status") as found:
        with opened(place, will=Message("a/status", b"offline", True)) as one:
            publish(one, "a/status", b"online", retain=True)
        with killed(place.url("a"), "a/status") as lost:
            wait_until(lambda: len(found) == 2)
            lost.kill()
            wait_until(lambda: len(found) == 3)
    assert [message.payload for message in found] == [b"online", b"online", b"offline"]


def test_one_that_fails_to_hear_ends_nothing(
    place: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    found = list[Message]()

    def hear(message: Message) -> None:
        found.append(message)
        raise ValueError(message.payload)

    with opened(place, "a/1", hear=hear) as one:
        one.catch_up()
        for payload in (b"x", b"y"):
            publish(one, "a/1", payload)
        wait_until(lambda: len(found) == 2)
    assert caplog.text.count("a message under a/1") == 2


# Brokers that are none, or mean no good: noticed, in time, and with little memory


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost link is followed by the next one at once."""
    monkeypatch.setattr(Broker, "delays", (0.001, 0.001))
    monkeypatch.setattr(Broker, "patience", 0.5)


def opened_at(port: int, *topics: str, **more: object) -> Broker:
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
    with false_broker(answer) as port, opened_at(port) as one:
        began = time.monotonic()
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
            publish_at_once(one, "a", b"x")
        assert time.monotonic() - began < 60


@pytest.mark.parametrize("code", [0x86, 0x87, 0x8A, 0x8C])
def test_who_is_turned_away_is_told_what_to_do(code: int) -> None:
    told = r"anybody without a name.*state user and password"
    with (
        false_broker(sends(bytes([0x20, 3, 0, code, 0]))) as port,
        opened_at(port) as one,
        pytest.raises(Unauthorized, match=told),
    ):
        publish(one, "a", b"x")


def test_what_is_refused_by_any_code_is_refused(
    soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An answer comes at once, but for a busy machine.
    monkeypatch.setattr(Broker, "patience", 20.0)
    for code in (0x80, 0x83, 0x87, 0x90, 0x97, 0x99):
        answer = sends(LET_IN, bytes([0x40, 4, 0, 1, code, 0]))
        with (
            false_broker(answer) as port,
            opened_at(port) as one,
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
        opened_at(port, "a/1") as one,
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
    with false_broker(answer) as port, opened_at(port) as one:
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
        opened_at(place.port, "a/#", hear=found.append) as one,
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
    with false_broker(answer) as port, opened_at(port, "a", hear=came.append):
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

    with false_broker(answer) as port, opened_at(port, "a") as one:
        one.publish("a", b"x")
        wait_until(lambda: len(links) >= 1500)
        with pytest.raises(Unreachable):
            one.wait(lambda: False)
    wait_until(lambda: threading.active_count() <= threads)


# Where a broker is: what is read, what is shown, and what is refused


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mqtt://host", "mqtt://host:1883/"),
        ("mqtt://host/", "mqtt://host:1883/"),
        ("mqtts://host/elmgrove/fans", "mqtts://host:8883/elmgrove/fans"),
        ("mqtt://host:18830/plant/pump1/#", "mqtt://host:18830/plant/pump1/#"),
        ("mqtt://host/plant/+/what?/now", "mqtt://host:1883/plant/+/what?/now"),
        ("mqtt://fan-1@host/fans/", "mqtt://fan-1@host:1883/fans"),
        ("mqtt://L%C3%BCfter%2F1@host/fans", "mqtt://L%C3%BCfter%2F1@host:1883/fans"),
        ("mqtts://[::1]/fans", "mqtts://[::1]:8883/fans"),
    ],
)
def test_an_address_is_read_and_shown(url: str, shown: str) -> None:
    address = BrokerAddress.parsed(url)
    assert str(address) == shown
    assert BrokerAddress.parsed(shown) == address


def test_a_user_and_a_topic_are_as_they_were_meant() -> None:
    address = BrokerAddress.parsed("mqtts://L%C3%BCfter%2F1@host/a/b")
    assert (address.user, address.secure, address.topic) == ("Lüfter/1", True, "a/b")
    assert address.under("entries", "+") == "a/b/entries/+"
    assert BrokerAddress.parsed("mqtt://host").under("charter") == "charter"


@pytest.mark.parametrize(
    "url",
    [
        *("", "host", "mqtt:", "mqtt://", "mqtt:///fans", "http://host/fans", "mqtt://@/fans"),
        *("mqtt://host:0/fans", "mqtt://host:99999/fans", "mqtt://host:x/fans"),
        *("mqtt://host/a#", "mqtt://host/a/#/b", "mqtt://host/a+/b", "mqtt://host/a\nb"),
        *("mqtt://host/\ud800", "mqtt://host/" + "a" * 70_000, "mqtt://[::1/fans"),
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match=r"mqtt|topic"):
        BrokerAddress.parsed(url)


def test_a_password_in_the_address_is_refused_and_not_told() -> None:
    with pytest.raises(BadInput, match="password") as refused:
        BrokerAddress.parsed("mqtt://fan-1:secret@host/fans")
    assert "secret" not in str(refused.value)
