"""The agent's HTTP server: whatever comes costs a few seconds of a thread at most."""

import errno
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from elmgrove.device import http_server
from elmgrove.device.http_server import MOST_BYTES, HttpServer, Request, Response
from elmgrove.errors import Problem
from support import plain
from support.serving import wait_until

POST = b"POST / HTTP/1.1\r\nContent-Type: application/json\r\n"


def answer(call: Request) -> Response:
    """Repeats what it is told; fails for /fault."""
    if call.path == "/fault":
        raise RuntimeError("secret details")
    if call.path == "/refused":
        raise Problem("refused", "not today")
    return Response.of({"path": call.path} if call.method == "GET" else call.json())


@pytest.fixture
def server() -> Iterator[HttpServer]:
    made = HttpServer(("127.0.0.1", 0), answer)
    yield made
    made.close()


def url(server: HttpServer) -> str:
    return f"http://127.0.0.1:{server.address[1]}"


def expect_problem(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "Access-Control-Allow-Origin" not in answer.headers
    found: dict[str, Any] = answer.json()
    assert found["type"] == f"urn:elmgrove:problem:{kind}"
    assert found["status"] == status
    assert found.keys() == {"type", "title", "status", "detail", "instance"}
    return found


def test_it_answers_at_a_port_and_at_a_local_socket(server: HttpServer, tmp_path: Path) -> None:
    assert plain.get(f"{url(server)}/hello?x=1").json() == {"path": "/hello"}
    place = tmp_path / "sock"
    local = HttpServer(place, answer)
    try:
        assert place.stat().st_mode & 0o777 == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(place))) as client:
            assert client.post("http://any/", json={"a": [1]}).json() == {"a": [1]}
    finally:
        local.close()
    with socket.socket(socket.AF_UNIX) as caller, pytest.raises(ConnectionRefusedError):
        caller.connect(str(place))


def test_it_listens_on_version_six_as_well() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    made = HttpServer(("::1", 0), answer)
    try:
        assert plain.get(f"http://[::1]:{made.address[1]}/hi").json() == {"path": "/hi"}
    finally:
        made.close()


def test_a_refusal_is_a_problem_document(server: HttpServer) -> None:
    found = expect_problem(plain.get(f"{url(server)}/refused"), 422, "refused")
    assert (found["detail"], found["instance"]) == ("not today", "/refused")


def test_a_fault_tells_nothing_of_itself(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    answer = plain.get(f"{url(server)}/fault")
    expect_problem(answer, 500, "internal")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "/fault failed" in caplog.text


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "malformed", 400),
        (b"[1]", "malformed", 400),
        (b'{"a": NaN}', "malformed", 400),
        (b"\xff", "malformed", 400),
        (b"[" * 100_000, "malformed", 400),
        (b" " * (MOST_BYTES + 1), "too-large", 413),
    ],
)
def test_what_is_no_object_of_json_is_refused(
    server: HttpServer, content: bytes, kind: str, status: int
) -> None:
    sent = {"Content-Type": "application/json; charset=utf-8"}
    expect_problem(plain.post(url(server), content=content, headers=sent), status, kind)


def test_what_a_page_could_send_unasked_is_refused(server: HttpServer) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        sent = {"Content-Type": kind} if kind else {}
        expect_problem(plain.post(url(server), content=b"{}", headers=sent), 415, "not-json")
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    expect_problem(httpx.options(url(server), headers=asked), 405, "method-not-allowed")


def test_without_a_length_nothing_is_read(server: HttpServer) -> None:
    pieces = iter([b"{", b"}"])
    sent = {"Content-Type": "application/json"}
    expect_problem(plain.post(url(server), content=pieces, headers=sent), 411, "length-required")


def raw(server: HttpServer, text: bytes) -> bytes:
    """What comes back for these very bytes."""
    with socket.create_connection(("127.0.0.1", server.address[1]), 60) as connection:
        connection.sendall(text)
        received = b""
        while data := connection.recv(1 << 16):
            received += data
    return received


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 400),
        (b"BREW / HTTP/1.1\r\n\r\n", 405),
        (POST + b"Content-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: \xb2\r\n\r\n", 400),
        (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
    ],
)
def test_what_is_no_request_is_told_so_in_the_same_words(
    server: HttpServer, text: bytes, status: int
) -> None:
    received = raw(server, text)
    # One that did not say its version gets no head.
    body = received[received.index(b"{") :]
    assert received == body or f" {status} ".encode() in received.splitlines()[0]
    assert json.loads(body)["status"] == status


def test_what_is_refused_anyway_is_not_waited_for(server: HttpServer) -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n"
    assert b" 415 " in raw(server, head + b" " * 500_000)


def test_slow_callers_are_hung_up_on_and_nobody_waits_for_them(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SECONDS", 1.0)
    texts = [b"", b"GET", b"POST / HTTP/1.1\r\nContent-Length: 9\r\nContent-Type: application/json"]
    texts.append(texts[2] + b"\r\n\r\n{")
    # Far sooner than each of them could still send something.
    held = [socket.create_connection(("127.0.0.1", server.address[1]), 30) for _ in texts]
    for connection, text in zip(held, texts, strict=True):
        connection.sendall(text)
    assert plain.get(f"{url(server)}/still").json() == {"path": "/still"}
    answers = []
    for connection in held:
        received = b""
        while data := connection.recv(1 << 16):
            received += data
        answers.append(received)
        connection.close()
    assert answers[:3] == [b"", b"", b""]
    assert b" 408 " in answers[3].splitlines()[0]


def test_drop_by_drop_is_slow_as_well(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SECONDS", 1.0)

    def drip() -> None:
        """Sends for far longer than it would take if each drop gave it another second."""
        with socket.create_connection(("127.0.0.1", server.address[1]), 60) as connection:
            for _ in range(600):
                connection.sendall(b"x")
                time.sleep(0.1)

    with pytest.raises(ConnectionError):
        drip()
    assert plain.get(f"{url(server)}/still").json() == {"path": "/still"}


def test_callers_that_ask_for_nothing_make_room_for_one_that_does(server: HttpServer) -> None:
    address = ("127.0.0.1", server.address[1])
    held = [socket.create_connection(address, 60) for _ in range(2 * http_server.MOST_CONNECTIONS)]
    try:
        assert plain.get(f"{url(server)}/still").json() == {"path": "/still"}
        assert held[0].recv(1) == b"", "silent for longest"
    finally:
        for connection in held:
            connection.close()


def test_callers_that_have_asked_are_not_hung_up_on(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine as well.
    monkeypatch.setattr(http_server, "SECONDS", 120.0)
    begun = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{"
    address = ("127.0.0.1", server.address[1])
    held = [socket.create_connection(address, 60) for _ in range(http_server.MOST_CONNECTIONS)]
    try:
        for connection in held:
            connection.sendall(begun)
        # None is silent either before all are let in: one of those would make room.
        wait_until(lambda: not server._server._free._value and not server._server._silent)
        with socket.create_connection(address, 60) as one_more:
            assert one_more.recv(1) == b""
        for connection in held:
            connection.sendall(b"}")
            assert connection.recv(12) == b"HTTP/1.0 200"
    finally:
        for connection in held:
            connection.close()


def test_a_caller_without_a_thread_leaves_its_place(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(http_server.MOST_CONNECTIONS):
            with pytest.raises(httpx.TransportError):
                plain.get(url(server))
    assert plain.get(url(server)).status_code == 200


def test_a_call_that_cannot_be_taken_is_not_asked_for_without_end(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[float]()

    def no_file(_: object) -> None:
        tries.append(time.monotonic())
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("socketserver.TCPServer.get_request", no_file)
        with socket.create_connection(server.address):
            time.sleep(0.35)
    assert 1 <= len(tries) <= 5
    assert plain.get(url(server)).status_code == 200


def test_a_caller_that_hangs_up_is_forgotten(
    server: HttpServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.address[1]), 60) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\n{")
    assert plain.get(f"{url(server)}/still").json() == {"path": "/still"}
    assert capfd.readouterr().err == ""
    assert caplog.text == ""


def test_closing_takes_no_time_and_leaves_no_thread() -> None:
    # Those of an earlier test may end meanwhile.
    before = set(threading.enumerate())
    made = HttpServer(("127.0.0.1", 0), answer)
    began = time.monotonic()
    made.close()
    assert time.monotonic() - began < 30
    assert set(threading.enumerate()) <= before
