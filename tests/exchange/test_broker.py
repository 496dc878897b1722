"""A broker as a device sees it: acknowledged or told why not, on a real mosquitto."""

import logging
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
from support.mosquitto import Mosquitto, running_broker
from support.ports import reserved_port
from support.serving import Authority, wait_until


@pytest.fixture
def place(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as found:
        yield found


def opened(place: Mosquitto, user: str = "", **more: object) -> Broker:
    return Broker(BrokerAddress.parsed(place.url("a", user)), **more)


@contextmanager
def killed(url: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a will that publishes something, to be killed."""
    program = (
        "import sys, time; from elmgrove.exchange.broker import *;"
        "from elmgrove.exchange.broker_address import *;"
        "one = Broker(BrokerAddress.parsed(sys.argv[1]), will=Message(sys.argv[2], b'offline'));"
        "one.publish(sys.argv[2], b'online'); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, url, topic]) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(broker: Broker, *topics: str) -> list[Message]:
    """What comes under some topics."""
    found = list[Message]()
    broker.subscribe(topics, found.append)
    return found


# Publishing


def test_what_is_retained_is_there_for_latecomers_and_the_rest_is_not(place: Mosquitto) -> None:
    with opened(place) as one, opened(place) as other:
        one.publish("a/1", b"kept", retain=True)
        one.publish("a/2", b"gone")
        found = heard(other, "a/+")
        one.publish("a/3", b"new")
        wait_until(lambda: len(found) == 2)
    assert found == [Message("a/1", b"kept", True), Message("a/3", b"new", False)]


def test_many_are_sent_without_waiting_for_each(place: Mosquitto) -> None:
    with opened(place) as one, opened(place) as other:
        found = heard(other, "a/#")
        for sent in [one.send("a/n", str(number).encode()) for number in range(500)]:
            sent.result(60)
        wait_until(lambda: len(found) == 500)
    assert [message.payload for message in found] == [b"%d" % number for number in range(500)]


def test_what_nobody_takes_does_not_pile_up() -> None:
    with reserved_port() as port, Broker(BrokerAddress.parsed(f"mqtt://127.0.0.1:{port}")) as one:
        sent = [one.send("a", b"x") for _ in range(1000)]
        with pytest.raises(Unreachable, match="1,000 messages wait"):
            one.send("a", b"x")
        one.close()
        for each in sent:
            with pytest.raises(Unreachable, match="closed"):
                each.result(60)


def test_a_broker_that_takes_no_such_size_refuses(mosquitto: None, tmp_path: Path) -> None:
    with running_broker(tmp_path, "max_packet_size 2000") as place, opened(place) as one:
        with pytest.raises(Refused, match=r"takes messages of 2,000 bytes.*max_packet_size"):
            one.publish("a/1", bytes(2000))
        one.publish("a/1", bytes(1000))


def test_what_ends_each_link_is_given_up(mosquitto: None, tmp_path: Path) -> None:
    """This broker refuses by a code that no acknowledgement may have, and paho hangs up."""
    with running_broker(tmp_path, "message_size_limit 2000") as place, opened(place) as one:
        with pytest.raises(Unreachable, match=r"3 times while this was sent; is it more"):
            one.publish("a/1", bytes(3000), timeout=180)
        one.send("a/1", bytes(1000), timeout=180).result(180)


def test_a_broker_that_retains_nothing_refuses(mosquitto: None, tmp_path: Path) -> None:
    with running_broker(tmp_path, "retain_available false") as place, opened(place) as one:
        with pytest.raises(Refused, match="retains nothing"):
            one.publish("a/1", b"x", retain=True)
        one.publish("a/1", b"x")


# Who may

USERS = {"fan-1": "secret", "fan-2": "other"}
ACL = "pattern write a/%u/#\npattern read a/#\n"


def test_who_may_not_write_there_is_told_so(mosquitto: None, tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, users=USERS, acl=ACL) as place,
        opened(place, "fan-1", password="secret") as one,
    ):
        one.publish("a/fan-1/x", b"mine", retain=True)
        with pytest.raises(Refused, match=r"let 'fan-1' write a/fan-2/x: Not authorized; allow"):
            one.publish("a/fan-2/x", b"not mine", retain=True)
        with pytest.raises(Refused):
            one.send("a/fan-2/x", b"not mine").result(60)
        found = heard(one, "a/#")
        wait_until(lambda: found == [Message("a/fan-1/x", b"mine", True)])


@pytest.mark.parametrize(
    ("user", "password"), [("", None), ("fan-1", "wrong"), ("fan-9", "secret"), ("fan-1", None)]
)
def test_who_is_not_known_is_not_let_in(
    mosquitto: None, tmp_path: Path, user: str, password: str | None
) -> None:
    with (
        running_broker(tmp_path, users=USERS) as place,
        opened(place, user, password=password) as one,
    ):
        with pytest.raises(Unauthorized, match=r"does not let .* in: .*state user and password"):
            one.publish("a/1", b"x")
        with pytest.raises(Unauthorized):
            heard(one, "a/#")
        assert isinstance(one.trouble, Unauthorized)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, trustme.CA())


def test_only_who_trusts_the_authority_speaks_with_the_broker(
    mosquitto: None, tmp_path: Path, authority: Authority
) -> None:
    with running_broker(tmp_path, users=USERS, acl=ACL, authority=authority) as place:
        with opened(place, "fan-1", password="secret", tls=Tls(authority.ca)) as one:
            one.publish("a/fan-1/1", b"x")
        blind = opened(place, "fan-1", password="secret")
        with blind as one, pytest.raises(Unreachable, match=r"certificate.*as ca"):
            one.publish("a/fan-1/1", b"x")
        plain = BrokerAddress.parsed(place.url("a", "fan-1").replace("mqtts", "mqtt"))
        with Broker(plain, password="secret") as one, pytest.raises(Unreachable):
            one.publish("a/fan-1/1", b"x")


def test_a_certificate_says_who_one_is(
    mosquitto: None, tmp_path: Path, authority: Authority
) -> None:
    asked = "require_certificate true\nuse_identity_as_username true"
    with running_broker(tmp_path, asked, acl=ACL, authority=authority) as place:
        with opened(place, tls=Tls(authority.ca, **authority.signed("fan-1"))) as one:
            one.publish("a/fan-1/1", b"x")
            with pytest.raises(Refused, match="Not authorized"):
                one.publish("a/fan-2/1", b"x")
        with opened(place, tls=Tls(authority.ca)) as one, pytest.raises(Unreachable):
            one.publish("a/fan-1/1", b"x")


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
                one.publish("a/1", b"x")
        patient = one.send("a/1", b"patient", retain=True, timeout=180)
        place.start()
        patient.result(180)
        assert (one.links, one.linked, one.trouble) == (1, True, None)
        found = heard(one, "a/1")
        wait_until(lambda: found == [Message("a/1", b"patient", True)])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_lost_link_comes_back_with_what_it_heard(place: Mosquitto, how: signal.Signals) -> None:
    with opened(place) as one, opened(place) as other:
        found = heard(other, "a/#")
        one.publish("a/1", b"before")
        wait_until(lambda: len(found) == 1)
        place.stop(how)
        place.start()

        def hears_again() -> bool:
            one.send("a/1", b"after", timeout=180).result(180)
            return found[-1].payload == b"after"

        wait_until(hears_again)
        assert other.links == 2


def test_a_subscription_that_does_not_last_is_not_made_again(place: Mosquitto) -> None:
    with opened(place) as one:
        one.publish("a/1", b"x", retain=True)
        one.publish("b/1", b"y", retain=True)
        once = list[Message]()
        one.subscribe(["a/+"], once.append, lasts=False)
        lasting = heard(one, "b/+")
        wait_until(lambda: len(once) == 1 and len(lasting) == 1)
        place.stop()
        place.start()
        wait_until(lambda: len(lasting) == 2)
        one.publish("a/2", b"x")
        one.publish("b/2", b"y")
        wait_until(lambda: len(lasting) == 3)
    assert [message.topic for message in once] == ["a/1"]


def test_what_is_not_listened_to_any_more_does_not_come(place: Mosquitto) -> None:
    with opened(place) as one:
        first = heard(one, "a/1", "a/2")
        one.unsubscribe(["a/1"])
        one.publish("a/1", b"x")
        one.publish("a/2", b"y")
        wait_until(lambda: len(first) == 1)
        second = heard(one, "a/2")
        one.publish("a/2", b"z")
        wait_until(lambda: len(second) == 1)
    assert [message.topic for message in first] == ["a/2"]


def test_a_will_is_for_those_who_end_without_a_goodbye(place: Mosquitto) -> None:
    will = Message("a/status", b"offline", True)
    with opened(place) as other:
        found = heard(other, "a/status")
        with opened(place, will=will) as one:
            one.publish("a/status", b"online", retain=True)
        with killed(place.url("a"), "a/status") as lost:
            wait_until(lambda: len(found) == 2)
            lost.kill()
            wait_until(lambda: len(found) == 3)
    assert [message.payload for message in found] == [b"online", b"online", b"offline"]


def test_what_came_meanwhile_is_kept_for_one_that_comes_back(place: Mosquitto) -> None:
    with opened(place) as other:
        with opened(place, client_id="fan-1", clean=False) as one:
            heard(one, "a/#")
        other.publish("a/1", b"meanwhile")
        with opened(place, client_id="fan-1", clean=False) as one:
            found = heard(one, "a/#")
            wait_until(lambda: found == [Message("a/1", b"meanwhile", False)])
        other.publish("a/1", b"for nobody")
        with opened(place, client_id="fan-1") as one:
            found = heard(one, "a/#")
            other.publish("a/2", b"now")
            wait_until(lambda: found == [Message("a/2", b"now", False)])


# Those who hear


def test_what_a_broker_gives_out_is_heard_once_though_several_topics_match(
    place: Mosquitto,
) -> None:
    with opened(place) as one:
        found = heard(one, "a/#", "a/+")
        for payload in (b"x", b"y"):
            one.publish("a/1", payload)
        wait_until(lambda: [message.payload for message in found].count(b"y") >= 2)
    # This broker gives a message out for each of them.
    assert [message.payload for message in found] == [b"x", b"x", b"y", b"y"]


def test_one_that_fails_to_hear_ends_nothing(
    place: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(place) as one:
        one.subscribe(["a/1"], lambda message: one.publish("a/2", b"echo"))
        found = heard(one, "a/2")
        with caplog.at_level(logging.ERROR):
            one.publish("a/1", b"x")
            wait_until(lambda: "can't wait for the broker" in caplog.text)
        one.publish("a/2", b"y")
        wait_until(lambda: len(found) == 1)
