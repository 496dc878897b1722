"""Connections: each has its deadlines, and those that ask for nothing keep nobody out."""

import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from elmgrove.exchange.session import connect
from support.factories import normal_rows
from support.serving import (
    AMPLE,
    Federation,
    answers,
    charter,
    seeded_contribution,
    server_process,
    serving,
    wait_until,
)
from support.slow_clients import HALF, Wires, is_closed, large_federation


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
    log = tmp_path / "log"
    with server_process(database, log=log, files=(256, 1024)) as (server, running):
        limits = Path(f"/proc/{running.pid}/limits").read_text()
        assert limits.partition("Max open files")[2].split()[0] == "1024", "all it may have"
        with Wires(server) as bad:
            large = large_federation(server, 5)
            fans = server.found(charter())
            for number in range(50):
                key = large.readers[number % 5]
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
    assert len(log.read_text().splitlines()) < 10


def test_a_reader_that_is_slow_lets_no_journal_grow(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/store.db") as server, Wires(server) as slow:
        large = large_federation(server, 5)
        wire = slow.ask(f"{large.path}/contributions", large.readers[0], buffer=4096)
        assert wire.recv(1), "the answer has begun"
        for epoch in range(6, 26):
            assert large.publish("large-1", epoch).status_code == 200
        # What is checkpointed at once, and a contribution beyond.
        assert (tmp_path / "store.db-wal").stat().st_size < 8e6


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
        where, key = f"{large.path}/contributions", large.readers[0]
        wire = slow.ask(where, key, buffer=4096)
        assert wire.recv(1), "the answer has begun"
        wait_until(lambda: server.ask("GET", f"{large.path}/entries", key).status_code == 200)
        wait_until(lambda: is_closed(wire))


def test_connections_that_wait_for_nothing_make_room(tmp_path: Path) -> None:
    limits = replace(AMPLE, connections=20, head_deadline=0.5)
    with serving(f"{tmp_path}/store.db", limits=limits) as server, Wires(server) as bad:
        for _ in range(40):
            bad.dial(HALF)
        assert server.ask("GET", "/ready").status_code == 200


def test_the_end_waits_for_what_is_at_work_but_for_no_slow_reader(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/store.db") as server, Wires(server) as slow:
        large = large_federation(server, 5)
        wire = slow.ask(f"{large.path}/contributions", large.readers[0], buffer=4096)
        assert wire.recv(1), "the answer has begun"
        slow.dial(HALF)
    with serving(f"{tmp_path}/store.db") as again:
        assert len(large.at(again).entries()) == 5


def test_a_request_that_has_begun_is_answered_before_the_end(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    blob = seeded_contribution("fan-1", 1).to_bytes()
    with serving(store) as before:
        fans = before.found(charter())
        fans.enrol("fan-1")
    with server_process(store) as (server, running), Wires(server) as wires:
        head = f"PUT {fans.path}/contributions/fan-1 HTTP/1.1\r\nHost: x\r\n"
        head += f"Authorization: Bearer {fans.keys['fan-1']}\r\n"
        head += f"Content-Length: {len(blob)}\r\n\r\n"
        wire = wires.dial(head.encode() + blob[:100])
        asked = wires.dial(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in asked.recv(100), "what came before has been taken as well"
        running.send_signal(signal.SIGTERM)
        wait_until(lambda: not answers(int(server.base.rpartition(":")[2])))
        wire.sendall(blob[100:])
        assert b" 200 " in wire.recv(100)
    with serving(store) as again:
        assert list(fans.at(again).entries()) == ["fan-1"]
