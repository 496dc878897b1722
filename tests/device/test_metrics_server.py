"""The port of an agent's metrics: whatever comes costs a few seconds of a thread at most."""

import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from elmgrove.device import metrics
from elmgrove.device.metrics import AgentMetrics
from support.serving import http_get

Place = tuple[str, int]


@pytest.fixture
def place() -> Iterator[Place]:
    with AgentMetrics("127.0.0.1:0") as made:
        yield made._server.server_address[:2]  # type: ignore[misc]


def answers(place: Place) -> bool:
    answer = http_get(f"http://{place[0]}:{place[1]}/metrics", timeout=60)
    return answer.status_code == 200 and "elmgrove_agent_rows_read_total 0.0" in answer.text


def test_it_listens_on_version_six_as_well() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with AgentMetrics("[::1]:0") as made:
        port = made._server.server_address[1]
        assert http_get(f"http://[::1]:{port!r}/metrics").status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ],
    ids=lambda text: repr(text)[:16],
)
def test_what_is_no_request_is_refused(place: Place, text: bytes) -> None:
    with socket.create_connection(place, 60) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        assert b"rror" in connection.makefile("rb").read()
    assert answers(place)


def test_slow_callers_are_hung_up_on_and_nobody_waits_for_them() -> None:
    with AgentMetrics("127.0.0.1:0", timeout=1.0) as made:
        place = made._server.server_address[:2]
        held = [socket.create_connection(place, 60) for _ in range(3)]
        for connection, text in zip(held, (b"", b"GET", b"GET /metrics HTTP/1.1\r\n"), strict=True):
            connection.sendall(text)
        assert answers(place)  # type: ignore[arg-type]
        for connection in held:
            assert connection.recv(1) == b""
            connection.close()


def test_callers_that_stay_make_room_for_one_that_asks(place: Place) -> None:
    with ExitStack() as held:
        first = held.enter_context(socket.create_connection(place, 60))
        for number in range(3 * metrics._Server.most):
            caller = held.enter_context(socket.create_connection(place, 60))
            if number % 2:
                caller.sendall(b"GET /met")
        assert answers(place)
        assert first.recv(1) == b"", "it came first of all"


def test_a_caller_without_a_thread_leaves_its_place(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(metrics._Server.most):
            with pytest.raises(httpx.TransportError):
                answers(place)
    assert answers(place)


def test_a_call_that_cannot_be_taken_is_not_asked_for_without_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[float]()

    def no_file(_: object) -> None:
        tries.append(time.monotonic())
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("socketserver.TCPServer.get_request", no_file)
        with socket.create_connection(place):
            time.sleep(0.35)
    assert 1 <= len(tries) <= 5
    assert answers(place)


def test_a_caller_that_hangs_up_is_forgotten(
    place: Place, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(20):
        with socket.create_connection(place, 60) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert answers(place)
    assert (capfd.readouterr().err, caplog.text) == ("", "")
