"""``elmgrove serve``: as a service is started and ended."""

import re
import socket
import stat
import subprocess
from pathlib import Path

import httpx
import pytest

from support.agents import Running, Start
from support.commands import Elmgrove, one_clear_line
from support.ports import free_port
from support.serving import answers, charter


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ELMGROVE_ADMIN_TOKEN", raising=False)


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def serve(start: Start, port: int) -> Running:
    """A server that is ready."""
    running = start("serve", "--port", port, "--log-level", "warning")
    running.until(lambda: ready(f"http://127.0.0.1:{port}"))
    return running


def ask(port: int, token: str, method: str = "GET", **more: object) -> httpx.Response:
    url, headers = f"http://127.0.0.1:{port}/v1/federations", {"Authorization": f"Bearer {token}"}
    return httpx.request(method, url, headers=headers, timeout=60, **more)


def test_the_first_start_makes_the_token_and_the_next_one_uses_it(start: Start) -> None:
    port = free_port()
    first = serve(start, port)
    path = Path("elmgrove.admin")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text()
    assert token not in first.log
    assert "elmgrove.admin" in first.log
    assert ask(port, "guessed").status_code == 401
    assert ask(port, token, "POST", json=charter("fans").fields).status_code == 201
    assert first.stop() in (0, -15)
    assert "Traceback" not in first.log

    second = serve(start, port)
    assert path.read_text() == token
    assert ask(port, token).json()["federations"] == ["fans"], "what it held is held"
    assert second.stop() in (0, -15)


def test_a_free_port_is_told(start: Start) -> None:
    running = start("serve", "--port", "0", "--log-level", "warning")
    running.logs("The dashboard is at")
    (base,) = re.findall(r"on (http://127.0.0.1:[1-9]\d+) ", running.log)
    running.until(lambda: ready(base))
    assert running.stop() in (0, -15)


@pytest.mark.parametrize("root", ["fleet", "/fleet/", "/a b", "http://x", "/ui", "/v1/x"])
def test_what_is_no_prefix_of_paths_is_told(elmgrove: Elmgrove, root: str) -> None:
    assert "--root-path" in one_clear_line(elmgrove("serve", "--root-path", root))


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_without_tls_beyond_this_machine_it_warns(start: Start, host: str) -> None:
    port = free_port()
    running = start("serve", "--port", port, "--host", host, "--log-level", "warning")
    running.until(lambda: ready(f"http://127.0.0.1:{port}"))
    assert ("Without TLS whoever sees the traffic" in running.log) == (host == "0.0.0.0")
    assert running.stop() in (0, -15)


def test_a_port_that_is_taken_is_told(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        running = start("serve", "--port", taken.getsockname()[1])
        assert running.end() != 0
    assert "address already in use" in running.log.lower()
    assert "Serving" not in running.log
    assert "Traceback" not in running.log


@pytest.mark.parametrize(
    ("store", "why"),
    [
        ("notes.txt", "notes.txt: the store's SQLite file can't be used: file is not a database"),
        ("nowhere/fleet.db", "No such file or directory: 'nowhere/fleet.db'"),
        ("postgresql://127.0.0.1:{port}/fleet", "PostgreSQL can't be used: "),
        ("mysql://127.0.0.1/fleet", "not 'mysql://'"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_clear_line(
    elmgrove: Elmgrove, store: str, why: str
) -> None:
    Path("notes.txt").write_text("What was bought for the fans, and when.\n")
    ran = elmgrove("serve", "--store", store.format(port=free_port()), "--port", free_port())
    assert why in one_clear_line(ran)
    assert len(ran.err.splitlines()) == 1
    assert not Path("elmgrove.admin").exists(), "no token of a server that never was"


@pytest.mark.parametrize("given", ["certificate", "private-key"])
def test_half_of_tls_is_an_error(elmgrove: Elmgrove, given: str) -> None:
    Path("some.pem").write_text("")
    ran = elmgrove("serve", f"--{given}", "some.pem", "--port", free_port())
    assert ran.code == 1
    assert "Error: TLS needs both: --certificate and --private-key" in ran.err


@pytest.fixture
def certificate() -> None:
    """server.pem and server.key, for this machine and signed by nobody else."""
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", "server.key", "-out", "server.pem"),
        ],
        capture_output=True,
    )
    assert made.returncode == 0, made.stderr


@pytest.mark.usefixtures("certificate")
def test_a_server_with_a_certificate_and_a_token_that_is_kept_in_no_file(
    start: Start, elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server for both: that it speaks TLS, and that it takes the token that it is given."""
    port = free_port()
    tls = ("--certificate", "server.pem", "--private-key", "server.key")
    token = {"ELMGROVE_ADMIN_TOKEN": "elm-admin-mine"}
    running = start("serve", "--port", port, "--store", "other.db", *tls, **token)
    running.until(lambda: answers(port))

    base = ("federation", "--server", f"https://127.0.0.1:{port}")
    monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", "elm-admin-mine")
    trusting = elmgrove(*base, "--ca", "server.pem", "show")
    assert trusting.code == 0, trusting.err
    assert "certificate" in one_clear_line(elmgrove(*base, "show")).lower()
    monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", "elm-admin-other")
    assert "token" in one_clear_line(elmgrove(*base, "--ca", "server.pem", "show"))

    assert Path("other.db").exists()
    assert not Path("elmgrove.admin").exists()
    assert "elm-admin-mine" not in running.log
    assert running.stop() in (0, -15)
    assert "Traceback" not in running.log
