"""Where a broker is: what is read, what is shown, and what is refused."""

import pytest

from elmgrove import BadInput
from elmgrove.exchange.broker_address import BrokerAddress


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
