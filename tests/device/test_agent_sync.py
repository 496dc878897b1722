"""Agents in a federation: when they sync, without a server, and what is refused."""

import logging
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.device import background_sync, start
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.device.status import status_of
from elmgrove.errors import Unauthorized
from elmgrove.exchange.backoff import Backoff
from elmgrove.federation.charter import Charter
from elmgrove.storage.disk import save
from support.agents import (
    LIKE,
    PATIENCE,
    append_rows,
    at_work,
    counts,
    expect_learned,
    joined,
    learned,
    sum_without,
    verdicts,
)
from support.exchanges import Asked, Pieces, Reply, saying
from support.factories import member_in, normal_rows, write_rows
from support.faults import CONTEXT, run_agent
from support.ports import reserved_port
from support.serving import (
    ADMIN,
    Federation,
    Server,
    answers,
    charter,
    client,
    fan_evidence,
    process,
    serving,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("own_folder")


def test_a_file_that_ends_is_published_to_its_end(federation: Federation) -> None:
    X = {name: normal_rows(seed, 40) for seed, name in enumerate(("fan", "pump"))}
    for name, part in X.items():
        write_rows(Path(f"{name}.csv"), part)
        Agent(Settings(**joined(federation, name, sync_seconds=0))).run()
    assert counts(federation) == {"fan": 40, "pump": 40}
    member = member_in("pump.elm")
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
    X = normal_rows(1, 13)  # 3 + 3 · 4 / (2 · 6) = 4 rows are needed
    for number, published in ((3, 0), (8, 8), (11, 8), (12, 12)):
        write_rows(Path("fan.csv"), X[:number])
        Agent(Settings(**joined(federation, "fan"))).run()
        assert learned(Path("fan.elm")) == number
        assert counts(federation).get("fan", 0) == published
    assert "(1 more row" in caplog.text
    write_rows(Path("fan.csv"), X)
    Agent(Settings(**joined(federation, "fan", guard=False))).run()
    assert counts(federation) == {"fan": 13}


def test_whom_it_uses_and_whom_not_is_in_the_status(federation: Federation) -> None:
    for name, seed in (("fan-1", 1), ("fan-2", 2)):
        write_rows(Path(f"{name}.csv"), normal_rows(seed, 40))
        Agent(Settings(**joined(federation, name, merge="fan-1,pump"))).run()
    assert counts(federation) == {"fan-1": 40, "fan-2": 40}
    uses = "fan-1; left out: pump, contributed nothing"
    found = status_of(member_in("fan-2.elm"))
    assert (found["others"], found["uses"]) == (1, uses)
    assert f"uses {uses}" in found["sync"]["said"]


# Without the server, for as long as it takes


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits after a failure are short."""
    for module in (start, background_sync):
        monkeypatch.setattr(module, "Backoff", lambda: Backoff(first=0.05, longest=0.2))


@pytest.mark.usefixtures("hasty")
def test_no_server_then_one_then_none_then_one_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    X, store = normal_rows(1, 60), f"sqlite:///{tmp_path}/store.db"
    write_rows(Path("fan.csv"), X[:20])

    def logs(text: str) -> None:
        wait_until(lambda: text in caplog.text)

    def says(number: int) -> None:
        wait_until(lambda: len(verdicts(Path("fan.jsonl"))) == number)

    with reserved_port() as port, client(f"http://127.0.0.1:{port}") as http:
        with serving(store, port=port) as server:
            federation = server.found(charter())
        federation.server.http = http
        settings = joined(federation, "fan", verdicts="fan.jsonl", follow=True, guard=False)
        settings |= {"sync_seconds": 0.1, "save_rows": 1}

        with at_work(**settings):
            logs("the device can't begin without the federation's layer")
        assert not Path("fan.elm").exists()

        caplog.clear()
        with at_work(**settings):
            logs("can't begin without")
            with process(store, port=port) as killed:
                wait_until(lambda: answers(port))
                wait_until(lambda: counts(federation) == {"fan": 20})
                killed.kill()
                killed.wait()
                append_rows(Path("fan.csv"), X[20:40])
                says(40)
                logs("sync failed, next try in")
            with serving(store, port=port):
                wait_until(lambda: counts(federation) == {"fan": 40})

        # With a state it need not wait for anybody.
        caplog.clear()
        append_rows(Path("fan.csv"), X[40:])
        with at_work(**settings):
            says(60)
            logs("sync failed")
            with serving(store, port=port):
                wait_until(lambda: counts(federation) == {"fan": 60})
                assert sum_without(federation, "nobody").evidence.close_to(fan_evidence(X), 1e-12)


def test_an_address_that_is_no_exchange_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """As a hotel's network answers, or a proxy, or the wrong machine."""

    X = normal_rows(1, 40)
    write_rows(Path("fan.csv"), X[:20])
    Agent(Settings(**LIKE, source="fan.csv")).run()
    Path("fan.key").write_text("key")
    append_rows(Path("fan.csv"), X[20:])
    with saying(lambda asked: Reply(200, b"<html>Welcome! Please log in.</html>")) as url:
        Agent(Settings(**LIKE, source="fan.csv", exchange=f"{url}/fans")).run()
    expect_learned(X)
    assert "sync failed" in caplog.text


def started_alone(made: Charter, name: str, X: np.ndarray) -> None:
    """A device with a state and a file that it has not read yet."""
    write_rows(Path(f"{name}.csv"), X)
    save(Path(f"{name}.elm"), made.start(name))


def test_a_server_that_never_ends_its_answer_does_not_hold_up_the_end(
    federation: Federation,
) -> None:
    X = normal_rows(1, 40)
    write_rows(Path("fan.csv"), X[:20])
    Agent(Settings(**joined(federation, "fan"))).run()
    append_rows(Path("fan.csv"), X[20:])
    begun, over = threading.Event(), threading.Event()

    def drip(asked: Asked) -> Pieces:
        # Byte by byte, so that the agent never gives the request up by itself.
        yield b"HTTP/1.0 200 OK\r\nX-Slow: "
        begun.set()
        while not over.wait(0.2):
            yield b"x"

    with saying(drip) as url:
        fan = joined(federation, "fan", exchange=f"{url}/fans")
        agent = CONTEXT.Process(target=run_agent, args=(fan, 1.0))
        agent.start()
        assert begun.wait(PATIENCE)
        agent.join(PATIENCE)
        assert agent.exitcode == 0, "an agent that waits for the answer never ends"
        over.set()
    assert learned(Path("fan.elm")) == 40


# What is refused


def test_a_name_that_is_not_admitted_goes_on_alone(
    running_server: Server,
    caplog: pytest.LogCaptureFixture,
) -> None:
    federation = running_server.found(charter(members=("fan-*",)))
    write_rows(Path("pump.csv"), normal_rows(1, 40))
    with pytest.raises(Unauthorized, match="pump"):
        Agent(Settings(**joined(federation, "pump"))).run()
    started_alone(federation.charter, "pump", normal_rows(1, 40))
    Agent(Settings(**joined(federation, "pump"))).run()
    assert learned(Path("pump.elm")) == 40
    assert "sync failed" in caplog.text
    assert "'pump'" in caplog.text.partition("sync failed")[2]
    assert counts(federation) == {}


def test_a_device_that_was_shut_out_says_why_and_goes_on(
    federation: Federation,
    caplog: pytest.LogCaptureFixture,
) -> None:
    X = normal_rows(1, 60)
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


@pytest.mark.parametrize("guard", [False, True])
def test_a_state_from_an_older_copy_goes_on_by_itself(
    federation: Federation, caplog: pytest.LogCaptureFixture, guard: bool
) -> None:
    X = normal_rows(1, 60)
    write_rows(Path("fan.csv"), X[:20])
    Agent(Settings(**joined(federation, "fan"))).run()
    shutil.copy("fan.elm", "old.elm")
    append_rows(Path("fan.csv"), X[20:50])
    Agent(Settings(**joined(federation, "fan"))).run()
    assert counts(federation) == {"fan": 50}

    shutil.copy("old.elm", "fan.elm")
    write_rows(Path("other.csv"), X[50:])
    Agent(Settings(**joined(federation, "fan", source="other.csv", guard=guard))).run()
    if guard:
        # It may have the rows again that are held: as many of them count for nothing.
        assert counts(federation) == {"fan": 50}
        told = "'fan' gave away up to 50 rows that this state does not know of"
        assert caplog.text.count(told) >= 1
        # Told once, at the first sync: how many rows it had by then depends on the machine.
        assert "more are needed" in caplog.text
        Y = normal_rows(2, 24)
        write_rows(Path("more.csv"), Y[:23])
        Agent(Settings(**joined(federation, "fan", source="more.csv"))).run()
        assert counts(federation) == {"fan": 50}
        append_rows(Path("more.csv"), Y[23:])
        Agent(Settings(**joined(federation, "fan", source="more.csv"))).run()
        assert counts(federation) == {"fan": 54}
        return
    assert counts(federation) == {"fan": 30}
    assert "refused: " in caplog.text
    assert "50" in caplog.text.partition("refused: ")[2], "the server's reason: what it holds"
    known = np.vstack([X[:20], X[50:]])
    assert sum_without(federation, "nobody").evidence.close_to(fan_evidence(known), 1e-12)

    # From then on all is as usual.
    write_rows(Path("more.csv"), normal_rows(2, 10))
    Agent(Settings(**joined(federation, "fan", source="more.csv"))).run()
    assert counts(federation) == {"fan": 40}
