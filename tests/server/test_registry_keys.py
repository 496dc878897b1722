"""Keys of devices: they expire where that was asked for, and devices change their own."""

import socket
import time
from urllib.parse import urlsplit

import pytest

from elmgrove.federation.policy import DAY, Terms
from elmgrove.server import federations
from support.serving import (
    ADMIN,
    Federation,
    Server,
    charter,
    refused,
    seeded_contribution,
    wait_until,
)


def rotated(fans: Federation, key: str) -> str:
    answer = fans.ask("POST", "/devices/fan-1/key", key)
    assert answer.status_code == 200, answer.text
    assert answer.json()["name"] == "fan-1"
    return str(answer.json()["key"])


def test_both_keys_are_valid_until_the_new_one_is_used(fans: Federation) -> None:
    old = fans.keys["fan-1"]
    new = rotated(fans, old)
    assert fans.put(seeded_contribution("fan-1", 1)).status_code == 200
    assert fans.put(seeded_contribution("fan-1", 1, 30), new).status_code == 200
    refused(fans.put(seeded_contribution("fan-1", 1, 40), old), "unauthorized")
    assert fans.put(seeded_contribution("fan-1", 1, 40), new).status_code == 200
    assert fans.told("key offered", "key changed") == [
        ("device fan-1", "key offered"),
        ("device fan-1", "key changed"),
    ]


def test_an_answer_that_got_lost_locks_nobody_out(fans: Federation) -> None:
    old = fans.keys["fan-1"]
    where = urlsplit(fans.server.base)
    with socket.create_connection((where.hostname, where.port)) as line:
        path = f"{fans.path}/devices/fan-1/key"
        asked = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {old}\r\n"
        line.sendall(f"{asked}Content-Length: 0\r\n\r\n".encode())
        wait_until(lambda: bool(fans.told("key offered")))
    # It was given a key that it never saw, and goes on with what it has.
    assert fans.put(seeded_contribution("fan-1", 1), old).status_code == 200
    lost = rotated(fans, old)
    new = rotated(fans, old)
    refused(fans.ask("GET", "/entries", lost), "unauthorized")
    assert fans.ask("GET", "/entries", new).status_code == 200
    refused(fans.ask("GET", "/entries", old), "unauthorized")


def test_revoking_ends_both_keys_and_a_readmission_too(fans: Federation) -> None:
    old = fans.keys["fan-1"]
    new = rotated(fans, old)
    assert fans.ask("DELETE", "/devices/fan-1", ADMIN).status_code == 204
    for key in (old, new):
        refused(fans.ask("GET", "/entries", key), "forbidden")
    refused(fans.ask("POST", "/devices/fan-1/key", old), "forbidden")
    key = fans.ask("POST", "/devices", ADMIN, json={"name": "fan-1"}).json()["key"]
    for former in (old, new):
        refused(fans.ask("GET", "/entries", former), "unauthorized")
    assert fans.ask("GET", "/entries", key).status_code == 200


@pytest.fixture(name="short")
def short_fixture(server: Server) -> Federation:
    """A federation whose keys last for 30 days, with a device in it."""
    made = server.found(charter(terms=Terms(key_days=30.0)))
    made.enrol("fan-1")
    return made


def later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """Lets the server's clock run ahead."""
    ahead = time.time() + days * DAY
    monkeypatch.setattr(time, "time", lambda: ahead)


def test_a_key_expires_and_the_refusal_says_what_to_do(
    short: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    [device] = short.ask("GET", "/devices", ADMIN).json()["devices"]
    assert 29.9 * DAY < device["expires"] - time.time() <= 30 * DAY
    assert short.ask("GET", "/entries", short.keys["fan-1"]).status_code == 200
    later(monkeypatch, 31)
    problem = refused(short.ask("GET", "/entries", short.keys["fan-1"]), "forbidden")
    assert "'fan-1' expired on" in problem["detail"]
    assert "elmgrove federation token" in problem["detail"]
    refused(short.ask("POST", "/devices/fan-1/key", short.keys["fan-1"]), "forbidden")
    key = short.ask("POST", "/devices", ADMIN, json={"name": "fan-1"}).json()["key"]
    assert short.ask("GET", "/entries", key).status_code == 200
    assert ("device fan-1", "refused") in short.told()


def test_a_new_key_lasts_as_long_again(short: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as at_first:
        later(at_first, 20)
        new = rotated(short, short.keys["fan-1"])
        assert short.ask("GET", "/entries", new).status_code == 200
    with monkeypatch.context() as then:
        later(then, 40)
        assert short.ask("GET", "/entries", new).status_code == 200
    later(monkeypatch, 51)
    refused(short.ask("GET", "/entries", new), "forbidden")


def test_a_key_that_ends_while_it_asks_for_another_gets_none(
    fans: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The administrator readmits the device between the look at the key and the offer."""
    found = federations.caller_of

    async def caller_of(*asked: object) -> federations.Caller:
        caller = await found(*asked)
        row = federations.DeviceRow("fan-1", "another", False, 1.0)
        await caller.service.store.federations.enrol(caller.charter.name, row, again=True)
        return caller

    monkeypatch.setattr(federations, "caller_of", caller_of)
    refused(fans.ask("POST", "/devices/fan-1/key", fans.keys["fan-1"]), "forbidden")
    assert fans.told("key offered") == []
