"""The server: whether it works, and what it does not take."""

import asyncio
import re
import ssl
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import trustme

from elmgrove import Basis, HiddenLayer, Scaling
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.errors import BadInput, Unreachable
from elmgrove.exchange.base import Tls
from elmgrove.exchange.http import client, request
from elmgrove.exchange.session import connect
from elmgrove.federation.charter import Charter
from elmgrove.server.app import listen, trusted_proxies
from elmgrove.server.problems import ThrottledLog
from support.commands import Elmgrove, one_clear_line
from support.factories import normal_rows, write_rows
from support.ports import free_port
from support.services import execute
from support.serving import (
    ADMIN,
    Authority,
    Federation,
    Server,
    answers,
    charter,
    process,
    refused,
    seeded_contribution,
    serving,
    wait_until,
)
from support.slow_clients import Wires, is_closed


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_without_its_data_base_a_server_is_alive_but_not_ready(database: str) -> None:
    with serving(database) as server:
        fans = server.found(charter())
        fans.enrol("fan-1")
        schema = database.rpartition("=")[2]
        asyncio.run(execute(database, f"ALTER SCHEMA {schema} RENAME TO {schema}_away"))
        assert server.ask("GET", "/health").status_code == 200
        refused(server.ask("GET", "/ready"), "unavailable")
        refused(fans.put(seeded_contribution("fan-1", 1)), "unavailable")
        asyncio.run(execute(database, f"ALTER SCHEMA {schema}_away RENAME TO {schema}"))
        assert server.ask("GET", "/ready").status_code == 200
        assert fans.put(seeded_contribution("fan-1", 1)).status_code == 200


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_server_finds_its_data_base_again(database: str) -> None:
    name = database.rpartition("=")[2]
    with serving(f"{database}&application_name={name}") as server:
        fans = server.found(charter())
        fans.enrol("fan-1")
        ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ="
        asyncio.run(execute(database, f"{ending} '{name}'"))
        # Some requests may still meet a connection that was lost; each is replaced.
        wait_until(lambda: server.ask("GET", "/ready").status_code == 200)
        wait_until(lambda: fans.put(seeded_contribution("fan-1", 1)).status_code == 200)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_longer_than_any_contribution_is_refused(fans: Federation, chunked: bool) -> None:
    body: Any = b"x" * 1_000_000
    problem = refused(
        fans.ask(
            "PUT",
            "/contributions/fan-1",
            fans.keys["fan-1"],
            content=iter([body[:500_000], body[500_000:]]) if chunked else body,
        ),
        "too-large",
    )
    # The bound follows from the layer: far less than what the server takes at most.
    assert int(re.findall(r"\d+", problem["detail"])[0]) < 20_000


def test_the_longest_honest_contribution_is_not_too_long(database: str) -> None:
    names = tuple(f'"\\ü{n}' * 10 for n in range(200))
    scaling = Scaling.standard([1 / 3] * 200, [2 / 3] * 200)
    made = Charter("long", Basis(HiddenLayer(inputs=200, units=2), 200, names, scaling))
    with serving(database) as server:
        fans = server.found(made)
        name = "ü" * 33
        fans.enrol(name)
        member = made.start(name)
        member.detector.learn_many(np.random.default_rng(0).normal(size=(5, 200)))
        assert fans.put(member.contribution()).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "%00"),
        ("DELETE", "/devices/a%00"),
        ("GET", "/merged?without=%00"),
        ("GET", "/contributions/%00"),
        ("GET", "/contributions?origin=a%00"),
    ],
)
def test_a_nul_character_is_no_part_of_a_name(fans: Federation, method: str, path: str) -> None:
    refused(fans.ask(method, path, ADMIN), "malformed")


# A server with a certificate of its own, which may ask for one of its callers


def test_only_devices_that_know_the_authority_speak_with_the_server(authority: Authority) -> None:
    definition, files = charter(), authority.signed("127.0.0.1")
    with serving(f"{authority.folder}/store.db", **files) as server:
        url, token = f"{server.base}/{definition.name}", server.found(definition).token
        with connect(url, "fan-1", token=token, ca=authority.ca) as session:
            assert session.exchange.charter == definition
        with pytest.raises(Unreachable, match=r"this machine does not trust .* as ca"):
            connect(url, "fan-2", token=token)
        with pytest.raises(Unreachable, match=f"speaks TLS, its URL is {server.base}"):
            connect(url.replace("https", "http"), "fan-3", token=token)


def test_a_server_without_tls_is_told_from_one_with_it(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/store.db") as server:
        url, token = f"{server.base}/fans", server.found(charter("fans")).token
        with pytest.raises(Unreachable, match=f"does not speak TLS: its URL is {server.base}"):
            connect(url.replace("http", "https"), "fan-1", token=token)


def test_a_server_that_asks_for_certificates_hears_nobody_without_one(
    authority: Authority, elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition, own = charter(), authority.signed("fan-1")
    stranger = Authority(authority.folder, trustme.CA()).signed("stranger")
    ca, port, files = authority.ca, free_port(), authority.signed("127.0.0.1")
    with process(f"{authority.folder}/store.db", port=port, client_ca=ca, **files):
        wait_until(lambda: answers(port))
        base = f"https://127.0.0.1:{port}"
        url = f"{base}/{definition.name}"
        with client(base, ADMIN, tls=Tls(ca, **own), timeout=60) as opened:
            token = request(opened, "POST", "", json=definition.fields).read(str, "token")
        with connect(url, "fan-1", token=token, ca=ca, **own) as session:
            assert session.exchange.charter == definition
        for other in ({}, stranger):
            with pytest.raises(Unreachable, match="certificate"):
                connect(url, "fan-2", token=token, ca=ca, **other)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{base}/health", verify=ssl.create_default_context(cafile=ca))

        write_rows(authority.folder / "fan.csv", normal_rows(1))
        settings = {"state": f"{authority.folder}/fan.elm", "name": "fan-3", "verdicts": ""}
        source = {"source": f"{authority.folder}/fan.csv", "exchange": url, "token": token}
        both = authority.signed_with_key("fan-3")
        Agent(Settings(**settings, **source, ca=ca, certificate=both)).run()
        root = f"/v1/federations/{definition.name}"
        with client(base, ADMIN, tls=Tls(ca, **own), root=root) as opened:
            joined = request(opened, "GET", "/devices").read(list[dict[str, Any]], "devices")
        assert [device["name"] for device in joined] == ["fan-1", "fan-3"]

        monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", ADMIN)
        asked = ("federation", "--server", base, "--ca", ca)
        ran = elmgrove(*asked, "--certificate", both, "show")
        assert (ran.code, ran.out.split()) == (0, [definition.name])
        one_clear_line(elmgrove(*asked, "show"))


def test_a_handshake_that_does_not_come_is_not_waited_for(authority: Authority) -> None:
    store, files = f"{authority.folder}/store.db", authority.signed("127.0.0.1")
    with serving(store, **files) as server, Wires(server) as bad:
        wire = bad.dial()
        wait_until(lambda: is_closed(wire))


@pytest.mark.parametrize("missing", ["certificate", "private_key"])
def test_what_tls_needs_is_told(tmp_path: Path, missing: str) -> None:
    one = tmp_path / "some.pem"
    files = {"certificate": one, "private_key": one, missing: None}
    with pytest.raises(BadInput, match="--private-key"):
        listen(f"{tmp_path}/store.db", ADMIN, **files)
    with pytest.raises(BadInput, match="--client-ca needs TLS"):
        listen(f"{tmp_path}/store.db", ADMIN, client_ca=one)


def test_a_server_says_which_file_tls_can_not_use(authority: Authority) -> None:
    one, other = (authority.signed(name) for name in ("one", "other"))
    wrong = {"certificate": one["certificate"], "private_key": other["private_key"]}
    for files, named in ((wrong, r"other\.key are no"), (one, r"one\.key is no authority")):
        paths = {name: Path(path) for name, path in files.items()}
        with pytest.raises(BadInput, match=named):
            listen("unused.db", ADMIN, client_ca=Path(one["private_key"]), **paths)


def test_browsers_are_told_to_come_by_tls_alone(authority: Authority) -> None:
    store, files = f"{authority.folder}/store.db", authority.signed("127.0.0.1")
    name = "strict-transport-security"
    with serving(store, **files) as server:
        for path in ("/health", "/ui/login", "/v1/federations"):
            assert server.ask("GET", path).headers[name] == "max-age=31536000"
    with serving(store) as plain:
        assert name not in plain.ask("GET", "/health").headers


# Addresses that a request claims in X-Forwarded-For: believed from stated proxies alone


def guesses(server: Server) -> list[int]:
    """What each guess is answered, each from another address as it claims."""
    return [
        server.ask(
            "POST",
            "/ui/login",
            content=f"token=guess-{number}",
            headers={
                "Content-Type": "application/x-www-form-urlencoded",
                "X-Forwarded-For": f"203.0.113.{number}",
            },
        ).status_code
        for number in range(11)
    ]


def test_a_caller_that_claims_other_addresses_is_limited_by_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmgrove.server.app.throttled_log", ThrottledLog())
    with serving(f"{tmp_path}/store.db") as server:
        assert guesses(server) == [403] * 10 + [429]
    assert "set FORWARDED_ALLOW_IPS=127.0.0.1" in caplog.text


def test_a_stated_proxy_is_believed(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/store.db", proxies="10.1.2.0/24, 127.0.0.1") as server:
        assert guesses(server) == [403] * 11


@pytest.mark.parametrize("stated", ["*", "0.0.0.0/0", "127.0.0.1, 128.0.0.0/1", "::/0"])
def test_not_everybody_can_be_a_proxy(monkeypatch: pytest.MonkeyPatch, stated: str) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", stated)
    with pytest.raises(BadInput, match="addresses or networks of your proxies"):
        trusted_proxies()
