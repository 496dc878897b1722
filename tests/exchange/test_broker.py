"""A broker as a device sees it: acknowledged or told why not, on a real mosquitto."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from elmgrove import BadInput
from elmgrove.errors import Refused, Unauthorized, Unreachable
from elmgrove.exchange.base import Tls
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.broker_address import BrokerAddress, Message
from support.brokered import publish
from support.mosquitto import Mosquitto, running_broker
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


def test_a_broker_that_takes_no_such_size_refuses(mosquitto: None, tmp_path: Path) -> None:
    with running_broker(tmp_path, "max_packet_size 2000") as place, opened(place) as one:
        with pytest.raises(Refused, match=r"takes messages of 2,000 bytes.*max_packet_size"):
            publish(one, "a/1", bytes(2000))
        publish(one, "a/1", bytes(1000))


def test_what_is_more_than_a_broker_takes_is_refused_though_it_did_not_say_so(
    mosquitto: None, tmp_path: Path
) -> None:
    with running_broker(tmp_path, "message_size_limit 2000") as place, opened(place) as one:
        with pytest.raises(Refused, match=r"Quota exceeded; let the broker take larger messages"):
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
        assert isinstance(one.trouble, Unauthorized)


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
        assert (one.links, one.linked, one.trouble) == (1, True, None)
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
