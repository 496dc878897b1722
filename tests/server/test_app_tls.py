"""A server with a certificate of its own, which may ask for one of its callers."""

import ssl
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import trustme

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.errors import BadInput, Unreachable
from elmgrove.exchange.base import Tls
from elmgrove.exchange.connection import connect
from elmgrove.exchange.http_client import client, request
from elmgrove.federation.charter import Charter
from elmgrove.server.app import listen
from support.abuse import Wires, is_closed
from support.authority import Authority
from support.commands import Elmgrove, one_clear_line
from support.factories import normal_rows, write_rows
from support.ports import free_port
from support.serving import ADMIN, AMPLE, answers, charter, process, serving, wait_until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, trustme.CA())


def found(base: str, definition: Charter, tls: Tls) -> str:
    """Makes a federation, and gives its token."""
    with client(base, ADMIN, tls=tls, timeout=60) as opened:
        return str(request(opened, "POST", "", json=definition.fields).json()["token"])


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
        url, token = f"{base}/{definition.name}", found(base, definition, Tls(ca, **own))
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
        with client(url, ADMIN, tls=Tls(ca, **own)) as opened:
            joined = request(opened, "GET", "/devices").json()["devices"]
        assert [device["name"] for device in joined] == ["fan-1", "fan-3"]

        monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", ADMIN)
        asked = ("federation", "--server", base, "--ca", ca)
        files = ("--certificate", own["certificate"], "--private-key", own["private_key"])
        ran = elmgrove(*asked, *files, "list")
        assert (ran.code, ran.out.split()) == (0, [definition.name])
        one_clear_line(elmgrove(*asked, "list"))


def test_connections_without_a_handshake_make_room(authority: Authority) -> None:
    limits, files = replace(AMPLE, connections=20), authority.signed("127.0.0.1")
    store = f"{authority.folder}/store.db"
    with serving(store, limits=limits, **files) as server, Wires(server) as bad:
        wires = [bad.dial() for _ in range(40)]
        wait_until(lambda: all(is_closed(wire) for wire in wires[:20]))
        assert server.ask("GET", "/ready").status_code == 200
        assert not is_closed(wires[-1])


def test_a_handshake_that_does_not_come_is_waited_for_until_its_deadline(
    authority: Authority,
) -> None:
    limits, files = replace(AMPLE, head_deadline=0.2), authority.signed("127.0.0.1")
    store = f"{authority.folder}/store.db"
    with serving(store, limits=limits, **files) as server, Wires(server) as bad:
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


def test_files_that_are_no_certificates_are_told(tmp_path: Path) -> None:
    (tmp_path / "some.pem").write_text("nothing")
    for tls in (
        Tls(str(tmp_path / "none.pem")),
        Tls(certificate=str(tmp_path / "some.pem")),
        Tls(private_key=str(tmp_path / "some.pem")),
    ):
        with pytest.raises(BadInput, match=r"\.pem"):
            client("https://127.0.0.1:1", None, tls=tls)


def test_browsers_are_told_to_come_by_tls_alone(authority: Authority) -> None:
    files, port, plain = authority.signed("127.0.0.1"), free_port(), free_port()
    name = "strict-transport-security"
    with process(f"{authority.folder}/store.db", port=port, **files):
        wait_until(lambda: answers(port))
        trusted = ssl.create_default_context(cafile=authority.ca)
        for path in ("/health", "/ui/login", "/v1/federations"):
            answer = httpx.get(f"https://127.0.0.1:{port}{path}", verify=trusted, timeout=60)
            assert answer.headers[name] == "max-age=31536000"
    with process(f"{authority.folder}/store.db", port=plain):
        wait_until(lambda: answers(plain))
        assert name not in httpx.get(f"http://127.0.0.1:{plain}/health", timeout=60).headers
