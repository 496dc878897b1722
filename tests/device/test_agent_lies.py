"""An agent that is lied to by its exchange goes on: it reads, watches and alarms."""

import logging
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.device import background_sync, start
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.exchange import http
from elmgrove.exchange.backoff import Backoff
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.storage.disk import save
from support.agents import append_rows, at_work, verdicts
from support.exchanges import HonestExchange, Liar, saying
from support.factories import trained_member, write_rows
from support.serving import wait_until

#: How many different answers are played to the agents; .ci/run plays more.
ANSWERS = int(os.environ.get("ELMGROVE_TEST_ANSWERS", "100"))
#: How often there is a fault meanwhile.
FAULTS = 5
COLUMNS = 4
#: All that an agent asks.
ROUTES = {
    "POST /devices",
    "GET /",
    "PUT /contributions",
    "PUT /reports",
    "GET /others",
    "GET /merged",
}


def normal(seed: int, number: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(number, COLUMNS))


CHARTER = Charter("fans", Detector.for_data(normal(0, 300)).basis)


def contribution_from(number: int) -> Contribution:
    other = trained_member(CHARTER.start(f"fan-{number:02}"), normal(number, 50))
    found = other.offer()
    assert found is not None
    return found


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a day brings comes in seconds: no wait and no deadline is long."""
    for module in (start, background_sync):
        monkeypatch.setattr(module, "Backoff", lambda: Backoff(first=0.001, longest=0.002))
    monkeypatch.setattr("elmgrove.exchange.http.MOST_PATIENCE", 0.01)
    monkeypatch.setattr("elmgrove.exchange.http.SLOWEST", 10**7)
    monkeypatch.setattr("elmgrove.device.sources.text.POLL", 0.002)
    monkeypatch.setattr(http, "HttpExchange", partial(http.HttpExchange, timeout=0.5))


def grown_up(name: str, **settings: object) -> dict[str, object]:
    """The settings of a device that has learned its rows before, and is watching."""
    save(Path("like.evidence"), contribution_from(99))
    write_rows(Path(f"{name}.csv"), normal(7, 400))
    usual = {
        "name": name,
        "state": f"{name}.elm",
        "source": f"{name}.csv",
        "verdicts": f"{name}.jsonl",
        "watch_now": True,
        "alarm": "3/5/10",
        **settings,
    }
    Agent(Settings(**usual, like="like.evidence")).run()
    return usual


def events(name: str) -> int:
    """How many times its rows were anomalous enough for an alarm."""
    return len({one["event"] for one in verdicts(Path(f"{name}.jsonl"))} - {None})


@pytest.mark.usefixtures("hasty")
def test_no_answer_ends_an_agent_or_its_alarms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    # One asks others by name or at once, the other one merges them, and does all that is asked.
    devices = {
        "asks": grown_up("asks", server_commands="none"),
        "merges": grown_up("merges", merged=True),
    }
    assert events("asks") == 0
    truths = [
        HonestExchange(CHARTER, [contribution_from(n) for n in range(many)]) for many in (2, 20)
    ]
    liar = Liar(truths, first=max(ANSWERS // 10, 10))
    fault = np.vstack([normal(8, 60), normal(9, 4) + 30.0])
    with saying(liar) as url:
        joined = {"exchange": f"{url}/fans", "token": "join", "follow": True, "sync_seconds": 0.001}
        with (
            at_work(**devices["asks"] | joined, guard=False),
            at_work(**devices["merges"] | joined, guard=False),
        ):
            for part in range(1, FAULTS + 1):
                for name in devices:
                    append_rows(Path(f"{name}.csv"), fault)
                wait_until(lambda part=part: liar.different >= part * ANSWERS / FAULTS)
                for name in devices:
                    rows = 400 + part * len(fault)
                    path = Path(f"{name}.jsonl")
                    wait_until(lambda path=path, rows=rows: len(verdicts(path)) == rows)
            wait_until(lambda: liar.told.keys() >= ROUTES)
            liar.honest, known = True, len(caplog.records)
            wait_until(
                lambda: any(" and 17 more" in r.getMessage() for r in caplog.records[known:])
            )
    faults = [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]
    assert [r.getMessage() for r in faults] == []
    assert events("asks") == FAULTS
