"""The agent at work: rows in, verdicts and alarms out, in step with others, come what may."""

import json
import logging
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, Detector, HiddenLayer
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.errors import BadInput
from elmgrove.exchange import Unauthorized
from elmgrove.federation import Charter, Member, Merged
from elmgrove.storage.disk import load, save
from support.agents import (
    COMMAND,
    NAMES,
    Start,
    address,
    append_rows,
    sessions,
    state,
    verdicts,
    write_rows,
)
from support.serving import (
    ADMIN,
    Federation,
    Server,
    answers,
    charter,
    evidence,
    free_port,
    process,
    rows,
    said,
    wait_until,
)


@contextmanager
def at_work(**settings: Any) -> Iterator[Agent]:
    """An agent in a thread of its own; stopped at the end, if its rows have not ended by then."""
    agent, failures = Agent(Settings(**settings)), list[BaseException]()

    def run() -> None:
        try:
            agent.run()
        except BaseException as error:
            # Whatever ends the agent's thread is for the test's own thread to raise.
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield agent
    finally:
        agent.stop()
        thread.join(60)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def learned(path: Path) -> int:
    return load(path, Member.from_bytes).detector.learned if path.exists() else 0


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests work in a folder of their own, with a file that fixes the layer."""
    monkeypatch.chdir(tmp_path)
    save(Path("like.evidence"), said("x", 99))


# Sources


LIKE = {"like": "like.evidence", "state": "fan.elm", "verdicts": "fan.jsonl", "name": "fan"}


def expect_learned(X: np.ndarray) -> None:
    """Rows that were all learned in their order, one verdict each."""
    member = load(Path("fan.elm"), Member.from_bytes)
    assert member.detector.learned == len(X)
    assert member.detector.evidence.close_to(evidence(X), 1e-12)
    assert [one["learned"] for one in verdicts(Path("fan.jsonl"))] == [True] * len(X)


def test_rows_from_a_file() -> None:
    X = rows(1, 50)
    write_rows(Path("fan.csv"), X)
    Agent(Settings(**LIKE, source="fan.csv")).run()
    expect_learned(X)
    where = [one["where"] for one in verdicts(Path("fan.jsonl"))]
    assert where == [f"fan.csv, line {number}" for number in range(1, 51)]


def test_a_file_that_was_read_is_not_read_again() -> None:
    X = rows(1, 50)
    write_rows(Path("fan.csv"), X[:30])
    Agent(Settings(**LIKE, source="fan.csv")).run()
    Agent(Settings(**LIKE, source="fan.csv")).run()
    append_rows(Path("fan.csv"), X[30:])
    Agent(Settings(**LIKE, source="fan.csv")).run()
    expect_learned(X)


def test_rows_from_a_file_that_grows() -> None:
    X = rows(1, 50)
    with at_work(**LIKE, source="fan.csv", follow=True, save_seconds=0.1):
        write_rows(Path("fan.csv"), X[:20])
        wait_until(lambda: learned(Path("fan.elm")) == 20)
        append_rows(Path("fan.csv"), X[20:])
        wait_until(lambda: len(verdicts(Path("fan.jsonl"))) == 50)
    expect_learned(X)


def test_rows_from_a_folder() -> None:
    X = rows(1, 50)
    Path("inbox").mkdir()
    write_rows(Path("inbox/a.csv"), X[:20])
    with at_work(**LIKE, source="inbox", save_seconds=0.1):
        wait_until(lambda: Path("inbox/done/a.csv").exists())
        assert learned(Path("fan.elm")) == 20, "what is moved away was saved before"
        write_rows(Path("inbox/b.csv"), X[20:])
        wait_until(lambda: Path("inbox/done/b.csv").exists())
    expect_learned(X)


def test_rows_from_standard_input_and_verdicts_on_standard_output(tmp_path: Path) -> None:
    X = rows(1, 50)
    write_rows(Path("rows.csv"), X)
    command = [COMMAND, "device", "run", "--state", "fan.elm", "--like", "like.evidence"]
    with Path("rows.csv").open() as given:
        ran = subprocess.run(command, stdin=given, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    Path("fan.jsonl").write_text(ran.stdout)
    expect_learned(X)
    assert verdicts(Path("fan.jsonl"))[-1]["where"] == "standard input, line 50"


def test_columns_by_name_and_without_some(tmp_path: Path) -> None:
    X = rows(1, 50)
    write_rows(Path("a.csv"), np.hstack([np.arange(50)[:, None], X]), ["time", *NAMES])
    Agent(Settings(state="fan.elm", source="a.csv", drop=["time"], verdicts="")).run()
    assert load(Path("fan.elm"), Member.from_bytes).detector.basis.features == tuple(NAMES)
    order = [3, 0, 5, 1, 4, 2]
    write_rows(Path("b.csv"), X[:, order], [NAMES[i] for i in order])
    Agent(Settings(state="fan.elm", source="b.csv", verdicts="")).run()
    detector = load(Path("fan.elm"), Member.from_bytes).detector
    twice = Detector(detector.basis.layer, scaling=detector.basis.scaling, features=NAMES)
    twice.learn_many(np.vstack([X, X]))
    assert detector.evidence.close_to(twice.evidence, 1e-12)


# How a device begins


@pytest.mark.parametrize(("start_rows", "fitted"), [(20, 20), (100, 50)])
def test_the_first_rows_decide_where_nothing_else_does(start_rows: int, fitted: int) -> None:
    X = rows(1, 50) * 7 + 3
    write_rows(Path("fan.csv"), X)
    chosen = {"units": 4, "seed": 8, "rate": 0.05, "forgetting": 0.999, "scaling": "minmax"}
    Agent(Settings(**LIKE | chosen | {"like": ""}, source="fan.csv", start_rows=start_rows)).run()
    detector = load(Path("fan.elm"), Member.from_bytes).detector
    assert detector.basis == Basis.fitted(X[:fitted], None, scaling="minmax", units=4, seed=8)
    assert (detector.policy.rate, detector.model.forgetting) == (0.05, 0.999)
    assert len(verdicts(Path("fan.jsonl"))) == 50


def test_too_few_rows_to_begin_with_make_no_state(caplog: pytest.LogCaptureFixture) -> None:
    write_rows(Path("fan.csv"), rows(1, 5))
    agent = Agent(Settings(source="fan.csv", state="fan.elm", verdicts=""))
    agent.stop()
    agent.run()
    assert not Path("fan.elm").exists()
    with at_work(source="fan.csv", follow=True, state="fan.elm", verdicts="") as working:
        wait_until(lambda: len(working._first) == 5)
    assert "5 rows are too few to begin with" in caplog.text
    assert not Path("fan.elm").exists()
    Agent(Settings(source="fan.csv", state="fan.elm", verdicts="")).run()
    assert learned(Path("fan.elm")) == 5, "nothing of a file is lost by that"


def test_bad_rows_are_left_out_and_told_up_to_a_point(caplog: pytest.LogCaptureFixture) -> None:
    X = rows(1, 50)
    write_rows(Path("fan.csv"), X[:25])
    with Path("fan.csv").open("a") as file:
        file.write("1,2,three,4,5,6\n" * 15)
    append_rows(Path("fan.csv"), X[25:])
    Agent(Settings(**LIKE, source="fan.csv")).run()
    expect_learned(X)
    assert caplog.text.count("is left out: ") == 10
    assert "fan.csv, line 26 is left out: " in caplog.text
    assert "15 bad rows were left out" in caplog.text


def test_rows_of_another_width_are_an_error_and_make_no_state() -> None:
    write_rows(Path("narrow.csv"), rows(1, 50)[:, :4])
    with pytest.raises(BadInput, match="4 columns, where 6 are learned"):
        Agent(Settings(**LIKE, source="narrow.csv")).run()
    assert not Path("fan.elm").exists()


# Verdicts and alarms


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A web address, and what was posted to it."""
    heard: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", heard
        finally:
            server.shutdown()
            thread.join()


def test_alarms_reach_an_address_and_a_command(device: Start) -> None:
    X = np.vstack([rows(1, 150), np.full((2, 6), 50.0), rows(2, 5), np.full((1, 6), -50.0)])
    write_rows(Path("fan.csv"), X)
    with webhook() as (url, heard):
        started = device("fan", webhook=url, command="tee -a told.json", only="alarms")
        assert started.end() == 0, started.log
    strange = [f"fan.csv, line {number}" for number in (151, 152, 158)]
    assert [one["where"] for one in heard if one["where"] in strange] == strange
    assert verdicts(Path("fan.jsonl")) == heard
    assert json.loads(f"[{Path('told.json').read_text().replace('}{', '},{')}]") == heard
    assert {one["device"] for one in heard} == {"fan"}
    assert heard[-1]["alarm"]
    assert heard[-1]["causes"]


@pytest.mark.parametrize("only", ["all", "anomalies"])
def test_only_wanted_verdicts_are_written(only: str) -> None:
    X = np.vstack([rows(1, 150), np.full((2, 6), 50.0)])
    write_rows(Path("fan.csv"), X)
    rule = {"alarm_k": 2, "alarm_n": 2, "alarm_cooldown": 9}
    Agent(Settings(**LIKE, **rule, source="fan.csv", only=only)).run()
    written = verdicts(Path("fan.jsonl"))
    assert (len(written) == 152) == (only == "all")
    assert [one["anomalous"] for one in written[-2:]] == [True, True]
    assert [one["alarm"] for one in written[-2:]] == [False, True]


def test_when_nobody_reads_the_verdicts_it_ends_and_has_saved(tmp_path: Path) -> None:
    write_rows(Path("rows.csv"), rows(1, 50))
    command = [COMMAND, "device", "run", "--state", "fan.elm", "--like", "like.evidence"]
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as ran,
    ):
        assert ran.stdin is not None
        assert ran.stdout is not None
        assert ran.stderr is not None
        lines = Path("rows.csv").read_bytes().splitlines(keepends=True)
        ran.stdin.writelines(lines[:10])
        ran.stdin.flush()
        for _ in range(10):
            assert ran.stdout.readline()
        ran.stdout.close()
        ran.stdin.write(lines[10])
        ran.stdin.flush()
        told = ran.stderr.read().decode()
        assert ran.wait(60) == 0
    assert "the program that read them has ended" in told
    assert "Traceback" not in told
    assert learned(Path("fan.elm")) == 11


# With others


def joined(federation: Federation, name: str, **more: Any) -> dict[str, Any]:
    """The settings of a device in a federation."""
    usual = {"name": name, "state": f"{name}.elm", "source": f"{name}.csv", "verdicts": ""}
    return usual | {"exchange": address(federation), "token": federation.token} | more


def counts(federation: Federation) -> dict[str, float]:
    """How many rows each device stands for; those that left are not there."""
    entries = federation.entries().items()
    return {name: entry["count"] for name, entry in entries if not entry["left"]}


def sum_without(federation: Federation, name: str) -> Merged:
    answer = federation.ask("GET", "/merged", ADMIN, params={"without": name})
    return Merged.from_bytes(answer.content)


def test_it_syncs_after_so_many_rows(federation: Federation) -> None:
    X = rows(1, 60)
    write_rows(Path("fan.csv"), X[:9])
    settings = joined(federation, "fan", sync_seconds=0, sync_rows=10, follow=True, guard=False)
    with at_work(**settings):
        wait_until(lambda: counts(federation) != {})
        append_rows(Path("fan.csv"), X[9:50])
        # A sync begins at least every ten rows; rows that came while one was under way follow.
        wait_until(lambda: counts(federation)["fan"] >= 40)


def test_it_syncs_so_often(federation: Federation) -> None:
    X = rows(1, 60)
    write_rows(Path("fan.csv"), X[:30])
    settings = joined(federation, "fan", sync_seconds=0.05, follow=True, guard=False)
    with at_work(**settings):
        wait_until(lambda: counts(federation) == {"fan": 30})
        append_rows(Path("fan.csv"), X[30:])
        wait_until(lambda: counts(federation) == {"fan": 60})
    assert sum_without(federation, "nobody").evidence.close_to(evidence(X), 1e-12)


def test_a_file_that_ends_is_published_to_its_end(federation: Federation) -> None:
    X = {name: rows(seed, 40) for seed, name in enumerate(("fan", "pump"))}
    for name, part in X.items():
        write_rows(Path(f"{name}.csv"), part)
        Agent(Settings(**joined(federation, name, sync_seconds=0))).run()
    assert counts(federation) == {"fan": 40, "pump": 40}
    member = load(Path("pump.elm"), Member.from_bytes)
    whole = Detector(federation.charter.basis.layer, ridge=federation.charter.ridge)
    whole.learn_many(np.vstack(list(X.values())))
    assert member.detector.model.beta == pytest.approx(whole.model.beta, rel=1e-9)
    key = Path("fan.key")
    assert key.stat().st_mode & 0o777 == 0o600


def test_what_the_guard_does_not_let_stays_here(
    federation: Federation,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    X = rows(1, 13)  # 3 + 3 · 4 / (2 · 6) = 4 rows are needed
    for number, published in ((3, 0), (8, 8), (11, 8), (12, 12)):
        write_rows(Path("fan.csv"), X[:number])
        Agent(Settings(**joined(federation, "fan"))).run()
        assert learned(Path("fan.elm")) == number
        assert counts(federation).get("fan", 0) == published
    assert "nothing published yet (1 more rows needed)" in caplog.text
    write_rows(Path("fan.csv"), X)
    Agent(Settings(**joined(federation, "fan", guard=False))).run()
    assert counts(federation) == {"fan": 13}


def test_with_a_rule_only_those_are_merged(federation: Federation) -> None:
    for seed, name in enumerate(("fan-1", "fan-2", "pump")):
        write_rows(Path(f"{name}.csv"), rows(seed, 40))
        Agent(Settings(**joined(federation, name, merge="fan-1,nobody"))).run()
    merged = load(Path("pump.elm"), Member.from_bytes).merged
    assert merged is not None
    assert merged.devices == 1
    assert merged.evidence.close_to(evidence(rows(0, 40)), 1e-12)


# Without the server, for as long as it takes


def test_no_server_then_one_then_none_then_one_again(device: Start, tmp_path: Path) -> None:
    X, port, store = rows(1, 80), free_port(), f"sqlite:///{tmp_path}/store.db"
    write_rows(Path("fan.csv"), X[:20])
    with process(store, port=port):
        wait_until(lambda: answers(port))
        federation = Server(f"http://127.0.0.1:{port}", store).found(charter())
    settings = {"exchange": address(federation), "token": federation.token, "follow": True}
    settings |= {"sync_seconds": 0.1, "save_rows": 1, "guard": False}

    fan = device("fan", **settings)
    fan.logs("without the federation's layer nothing can begin")
    assert fan.stop() == 0
    assert not Path("fan.elm").exists()

    fan = device("fan", **settings)
    fan.logs("nothing can begin")
    with process(store, port=port) as server:
        wait_until(lambda: answers(port))
        fan.until(lambda: counts(federation) == {"fan": 20})
        server.kill()
        server.wait()
        append_rows(Path("fan.csv"), X[20:40])
        fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 40)
        fan.logs("sync failed, next try in")
    with process(store, port=port):
        wait_until(lambda: answers(port))
        fan.until(lambda: counts(federation) == {"fan": 40})
    assert fan.stop() == 0

    # With a state it need not wait for anybody.
    append_rows(Path("fan.csv"), X[40:60])
    fan = device("fan", **settings)
    fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 60)
    fan.logs("sync failed")
    with process(store, port=port):
        wait_until(lambda: answers(port))
        fan.until(lambda: counts(federation) == {"fan": 60})
        assert sum_without(federation, "nobody").evidence.close_to(evidence(X[:60]), 1e-12)
        assert fan.stop() == 0
    federation.server.http.close()


def test_an_address_that_is_no_exchange_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """As a hotel's network answers, or a proxy, or the wrong machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = b"<html>Welcome! Please log in.</html>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            pass

    X = rows(1, 40)
    write_rows(Path("fan.csv"), X[:20])
    Agent(Settings(**LIKE, source="fan.csv")).run()
    Path("fan.key").write_text("key")
    append_rows(Path("fan.csv"), X[20:])
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/fans"
        Agent(Settings(**LIKE, source="fan.csv", exchange=url)).run()
        server.shutdown()
        thread.join()
    expect_learned(X)
    assert "sync failed" in caplog.text


# What is refused


def started_alone(made: Charter, name: str, X: np.ndarray) -> None:
    """A device with a state and a file that it has not read yet."""
    write_rows(Path(f"{name}.csv"), X)
    save(Path(f"{name}.elm"), made.start(name))


def test_a_name_that_is_not_admitted_goes_on_alone(
    running_server: Server,
    caplog: pytest.LogCaptureFixture,
) -> None:
    federation = running_server.found(charter(members=("fan-*",)))
    write_rows(Path("pump.csv"), rows(1, 40))
    with pytest.raises(Unauthorized, match="pump"):
        Agent(Settings(**joined(federation, "pump"))).run()
    started_alone(federation.charter, "pump", rows(1, 40))
    Agent(Settings(**joined(federation, "pump"))).run()
    assert learned(Path("pump.elm")) == 40
    assert "sync failed" in caplog.text
    assert "'pump'" in caplog.text.partition("sync failed")[2]
    assert counts(federation) == {}


def test_a_wrong_token_is_told(federation: Federation, caplog: pytest.LogCaptureFixture) -> None:
    started_alone(federation.charter, "fan", rows(1, 40))
    Agent(Settings(**joined(federation, "fan", token="guessed"))).run()
    assert learned(Path("fan.elm")) == 40
    assert "sync failed" in caplog.text
    assert not Path("fan.key").exists()


def test_another_layer_is_told_and_it_goes_on(
    federation: Federation,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = Charter("other", Basis(HiddenLayer(6, 3, "sigmoid", seed=99), 6))
    started_alone(other, "fan", rows(1, 40))
    Agent(Settings(**joined(federation, "fan"))).run()
    assert learned(Path("fan.elm")) == 40
    assert "layer.seed" in caplog.text
    assert counts(federation) == {}


def test_a_device_that_was_shut_out_says_why_and_goes_on(
    federation: Federation,
    caplog: pytest.LogCaptureFixture,
) -> None:
    X = rows(1, 60)
    write_rows(Path("fan.csv"), X[:30])
    settings = joined(federation, "fan", sync_seconds=0.05, follow=True, verdicts="fan.jsonl")
    with at_work(**settings, guard=False):
        wait_until(lambda: counts(federation) == {"fan": 30})
        assert federation.ask("DELETE", "/devices/fan", ADMIN).status_code < 300
        wait_until(lambda: "sync failed" in caplog.text)
        append_rows(Path("fan.csv"), X[30:])
        wait_until(lambda: len(verdicts(Path("fan.jsonl"))) == 60)
    assert learned(Path("fan.elm")) == 60
    assert "revoked" in caplog.text or "shut out" in caplog.text
    assert counts(federation) == {}


def test_a_state_from_an_older_copy_leaves_and_joins_again(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    X = rows(1, 60)
    write_rows(Path("fan.csv"), X[:20])
    Agent(Settings(**joined(federation, "fan"))).run()
    shutil.copy("fan.elm", "old.elm")
    append_rows(Path("fan.csv"), X[20:50])
    Agent(Settings(**joined(federation, "fan"))).run()
    assert counts(federation) == {"fan": 50}

    shutil.copy("old.elm", "fan.elm")
    write_rows(Path("other.csv"), X[50:])
    Agent(Settings(**joined(federation, "fan", source="other.csv"))).run()
    assert counts(federation) == {"fan": 30}
    assert "refused: " in caplog.text
    assert "50" in caplog.text.partition("refused: ")[2], "the server's reason: what it holds"
    known = np.vstack([X[:20], X[50:]])
    assert sum_without(federation, "nobody").evidence.close_to(evidence(known), 1e-12)

    # From then on all is as usual.
    write_rows(Path("more.csv"), rows(2, 10))
    Agent(Settings(**joined(federation, "fan", source="more.csv"))).run()
    assert counts(federation) == {"fan": 40}


# Ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_all_rows_saved(device: Start, number: int, tmp_path: Path) -> None:
    X = rows(1, 77)
    write_rows(Path("fan.csv"), X)
    fan = device("fan", like="like.evidence", follow=True, listen="127.0.0.1:0")
    fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 77)
    fan.process.send_signal(number)
    assert fan.end() == 0
    expect_learned(X)
    assert "Traceback" not in fan.log
    assert fan.process.pid not in sessions()
    assert not list(tmp_path.glob(".*")), "neither lock nor half a file"


def test_a_server_that_never_answers_does_not_hold_up_the_end(
    device: Start,
    federation: Federation,
) -> None:
    started_alone(federation.charter, "fan", rows(1, 40))
    asked, over = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.set()
            over.wait(60)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/fans"
        fan = device("fan", exchange=url, token="token", follow=True)
        assert asked.wait(60)
        fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 40)
        fan.process.terminate()
        # Half of the time after which a request is given up.
        assert fan.process.wait(15) == 0
        over.set()
        server.shutdown()
    assert learned(Path("fan.elm")) == 40


# One state, one process


def test_a_state_is_one_process_s_alone(device: Start, start: Start, tmp_path: Path) -> None:
    write_rows(Path("fan.csv"), rows(1, 40))
    fan = device("fan", like="like.evidence", follow=True, save_rows=1)
    fan.until(lambda: learned(Path("fan.elm")) == 40)
    for command in (
        ["device", "run", "--state", "fan.elm", "--source", "fan.csv", "--verdicts", "x.jsonl"],
        ["learn", "fan.csv", "--state", "fan.elm"],
        ["share", "--state", "fan.elm"],
        ["device", "leave", "shared", "--state", "fan.elm"],
    ):
        second = start(*command, label="second")
        assert second.end() == 1
        assert second.log.splitlines() == [
            "Error: fan.elm is in use by another process (a running agent?); stop it first"
        ]
    assert not Path("x.jsonl").exists()
    fan.kill()
    append_rows(Path("fan.csv"), rows(2, 5))
    fan = device("fan", follow=True)
    fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 45)
    assert fan.stop() == 0
    member = state(tmp_path, "fan")
    assert member is not None
    assert member.detector.learned == 45
