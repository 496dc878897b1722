"""Connections: each has its deadlines, and those that ask for nothing keep nobody out."""

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elmgrove.exchange.connection import connect
from elmgrove.server import connections
from support.factories import normal_rows
from support.ports import free_port
from support.serving import (
    AMPLE,
    Federation,
    Server,
    answers,
    charter,
    process,
    serving,
    wait_until,
)
from support.slow_clients import HALF, Wires, asking, is_closed, large_federation


class Honest(threading.Thread):
    """A device that joins, learns, and syncs several times."""

    def __init__(self, fans: Federation, number: int) -> None:
        super().__init__()
        self.fans, self.number = fans, number
        self.error: Exception | None = None

    def run(self) -> None:
        url = f"{self.fans.server.base}/{self.fans.charter.name}"
        try:
            with connect(url, f"fan-{self.number}", token=self.fans.token) as session:
                for turn in range(3):
                    session.detector.learn_many(normal_rows(100 * self.number + turn, 60))
                    assert session.sync().refusal is None
        except Exception as error:  # whatever it is, it is the test's to tell
            self.error = error


@pytest.mark.usefixtures("many_files")
def test_half_open_connections_and_slow_readers_keep_no_device_from_its_sync(
    database: str, tmp_path: Path
) -> None:
    log, port = tmp_path / "log", free_port()
    few = (256, 1024)
    with process(database, port=port, log=log, files=few, log_level="warning") as running:
        wait_until(lambda: answers(port))
        limits = Path(f"/proc/{running.pid}/limits").read_text()
        assert limits.partition("Max open files")[2].split()[0] == "1024", "all it may have"
        server = Server(f"http://127.0.0.1:{port}", database)
        with server.http, Wires(server) as bad:
            large = large_federation(server, 5)
            fans = server.found(charter())
            for number in range(50):
                key = large.keys[f"large-{number % 5}"]
                bad.ask(f"{large.path}/contributions", key, buffer=4096)
            for _ in range(1100):
                bad.dial(HALF)
            devices = [Honest(fans, number) for number in range(20)]
            for device in devices:
                device.start()
            for device in devices:
                device.join()
            assert [device.error for device in devices if device.error] == []
            assert len(fans.entries()) == 20
    lines = log.read_text().splitlines()
    assert 0 < len(lines) < 10, lines


def test_a_reader_that_is_slow_lets_no_journal_grow(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/store.db") as server, Wires(server) as slow:
        large = large_federation(server, 5)
        wire = slow.ask(f"{large.path}/contributions", large.keys["large-0"], buffer=4096)
        assert wire.recv(1), "the answer has begun"
        for epoch in range(6, 26):
            assert large.publish("large-1", epoch).status_code == 200
        # What is checkpointed at once, and a contribution beyond.
        assert (tmp_path / "store.db-wal").stat().st_size < 8e6


# Deadlines


def test_a_head_that_does_not_come_is_waited_for_until_its_deadline(tmp_path: Path) -> None:
    limits = replace(AMPLE, head_deadline=0.2)
    with serving(f"{tmp_path}/store.db", limits=limits) as server, Wires(server) as bad:
        for wire in (bad.dial(), bad.dial(HALF)):
            wait_until(lambda wire=wire: is_closed(wire))


def test_a_body_that_nobody_wants_keeps_no_connection_open(tmp_path: Path) -> None:
    limits = replace(AMPLE, head_deadline=0.2)
    head = b"POST /v1/federations HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    with serving(f"{tmp_path}/store.db", limits=limits) as server, Wires(server) as bad:
        wire = bad.dial(head)
        assert b" 401 " in wire.recv(100)

        def drips_in_vain() -> bool:
            try:
                wire.sendall(b"x")
            except OSError:
                return True
            return is_closed(wire)

        wait_until(drips_in_vain)


def test_an_answer_that_nobody_reads_is_waited_for_until_its_deadline(tmp_path: Path) -> None:
    limits = replace(AMPLE, answer_deadline=0.5, requests_by_key=1)
    with serving(f"{tmp_path}/store.db", limits=limits) as server, Wires(server) as slow:
        large = large_federation(server, 5)
        where, key = f"{large.path}/contributions", large.keys["large-0"]
        whole = len(server.ask("GET", where, key).content)
        wire = slow.ask(where, key, buffer=4096)
        assert wire.recv(1), "the answer has begun"
        wait_until(lambda: server.ask("GET", f"{large.path}/entries", key).status_code == 200)
        assert received(wire) < whole


def test_a_reader_may_be_slow_as_long_as_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    monkeypatch.setattr(connections, "monotonic", lambda: seconds[0])
    limits = replace(AMPLE, head_deadline=0.04, answer_deadline=10.0)
    with serving(f"{tmp_path}/store.db", limits=limits) as server, Wires(server) as slow:
        large = large_federation(server, 5)
        wire = slow.ask(f"{large.path}/contributions", large.keys["large-0"], buffer=2**17)

        def a_second_later() -> None:
            seconds[0] += 1.0
            time.sleep(0.01)  # so that the server looks at its clock

        assert received(wire, between=a_second_later) > 5e6
        assert seconds[0] > 60


def received(
    wire: socket.socket, end: bytes = b"0\r\n\r\n", between: Callable[[], None] = lambda: None
) -> int:
    """How much comes until the end of an answer, or of its connection."""
    total, last = 0, b""
    try:
        while not last.endswith(end) and (some := wire.recv(2**16)):
            total, last = total + len(some), (last + some)[-len(end) :]
            between()
    except ConnectionResetError:
        pass
    return total


# Room


def test_where_there_is_no_more_room_those_who_wait_longest_make_it(tmp_path: Path) -> None:
    limits = replace(AMPLE, connections=20)
    with serving(f"{tmp_path}/store.db", limits=limits) as server, Wires(server) as bad:
        fans = server.found(charter())
        fans.enrol("fan-1")
        known = bad.ask(f"{fans.path}/entries", fans.keys["fan-1"])
        assert received(known, b"}") > 0
        wires = [bad.dial(HALF) for _ in range(40)]
        wait_until(lambda: all(is_closed(wire) for wire in wires[:20]))
        assert server.ask("GET", "/ready").status_code == 200
        assert not is_closed(wires[-1])
        known.sendall(asking(f"{fans.path}/entries", fans.keys["fan-1"]))
        assert received(known, b"}") > 0, "who asked for something stays"


def test_one_address_leaves_only_so_many_connections_half_open(tmp_path: Path) -> None:
    limits = replace(AMPLE, connections_by_address=10)
    with serving(f"{tmp_path}/store.db", limits=limits) as server, Wires(server) as bad:
        wires = [bad.dial(HALF) for _ in range(30)]
        wait_until(lambda: all(is_closed(wire) for wire in wires[:20]))
        assert server.ask("GET", "/ready").status_code == 200
        assert not is_closed(wires[-1])


def test_what_is_not_http_is_logged_seldom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(f"{tmp_path}/store.db") as server, Wires(server) as bad:
        for _ in range(20):
            assert b" 400 " in bad.dial(b"\0\r\n\r\n").recv(100)
    assert len(caplog.records) <= 1
