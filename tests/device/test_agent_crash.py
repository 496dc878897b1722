"""An agent that is killed again and again, at any point, ends where one that never was does."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from support.agents import PATIENCE, Start, append_rows, verdicts
from support.factories import detector_in, member_in, normal_rows, write_rows
from support.serving import wait_until

pytestmark = pytest.mark.usefixtures("own_folder")
#: Starts agents as processes of their own, without loading all modules each time.
NURSERY = """
import json, os, sys
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        Agent(Settings(**json.loads(line))).run()
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
#: How often an agent is killed in each test; more where there is time.
KILLS = int(os.environ.get("ELMGROVE_TEST_AGENT_KILLS", "10"))
#: Rows that come with each new agent: more than it is let write verdicts of.
ROWS = 25


@contextmanager
def forks() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()
        assert started.wait(PATIENCE) == 0


def begin(forks: subprocess.Popen[str], settings: dict[str, Any]) -> int:
    """The process of a new agent."""
    assert forks.stdin is not None
    assert forks.stdout is not None
    forks.stdin.write(json.dumps(settings) + "\n")
    forks.stdin.flush()
    return int(forks.stdout.readline())


def ended(forks: subprocess.Popen[str]) -> int:
    """How the agent ended, once it has: what ``wait`` says."""
    assert forks.stdout is not None
    return int(forks.stdout.readline())


def kill(forks: subprocess.Popen[str], child: int) -> None:
    """Kills an agent that can't have ended by itself: only then is the process still its own."""
    os.kill(child, signal.SIGKILL)
    assert ended(forks) == signal.SIGKILL


def wait_for_more(log: Path, before: int, size: int) -> None:
    """Waits until a file has grown by so much."""
    wait_until(lambda: size_of(log) >= before + size)


def size_of(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def expect_the_same(one: str, other: str) -> None:
    """Equal models, but for the last bits: sums over rows begin again after a restart."""
    found, expected = (
        detector_in(one),
        detector_in(other),
    )
    assert found.learned == expected.learned
    assert found.evidence.count == expected.evidence.count
    assert found.evidence.close_to(expected.evidence, 1e-12)
    assert found.threshold == pytest.approx(expected.threshold, rel=1e-9)


@pytest.mark.parametrize("save_rows", [1, 7])
def test_killed_at_any_point_it_ends_as_if_it_never_was(save_rows: int) -> None:
    """Each agent follows a file that grows before it starts: none can run past the killing."""
    X, log, chance = normal_rows(1, ROWS * (KILLS + 8)), Path("fan.jsonl"), random.Random(save_rows)
    settings = {"name": "fan", "source": "fan.csv", "like": "like.evidence"}
    restless = settings | {"state": "fan.elm", "verdicts": "fan.jsonl", "save_rows": save_rows}
    with forks() as place:
        for number in range(KILLS):
            append_rows(Path("fan.csv"), X[number * ROWS :][:ROWS])
            before = size_of(log)
            child = begin(place, restless | {"follow": True})
            # Somewhere in a row, in a save, before the first or between two of them.
            wait_for_more(log, before, chance.choice([0, 1, 500, 2000]))
            for _ in range(chance.randrange(20_000)):
                pass
            kill(place, child)
            if Path("fan.elm").exists():
                member_in("fan.elm")
        append_rows(Path("fan.csv"), X[KILLS * ROWS :])
        begin(place, restless)
        assert ended(place) == 0
    Agent(Settings(**settings | {"state": "calm.elm", "verdicts": "calm.jsonl"})).run()

    expect_the_same("fan.elm", "calm.elm")
    # Verdicts of rows after the last save come again, and say the same.
    expected = {one["where"]: one for one in verdicts(Path("calm.jsonl"))}
    again = [json.loads(line) for line in log.read_text().splitlines()]
    assert {one["where"] for one in again} == set(expected)
    assert len(again) - len(expected) <= KILLS * (save_rows + 1)
    for one in again:
        calm_one = expected[one["where"]]
        assert one["score"] == pytest.approx(calm_one["score"], rel=1e-9)
        assert (one["learned"], one["alarm"]) == (calm_one["learned"], calm_one["alarm"])


def test_of_standard_input_no_more_is_lost_than_said(device: Start, tmp_path: Path) -> None:
    write_rows(Path("rows.csv"), normal_rows(1, 90))
    lines = Path("rows.csv").read_bytes().splitlines(keepends=True)
    fan = device("fan", stdin=subprocess.PIPE, source="-", like="like.evidence", save_rows=7)
    assert fan.process.stdin is not None
    fan.process.stdin.writelines(lines[:40])
    fan.process.stdin.flush()
    fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 40)
    fan.kill()
    kept = detector_in("fan.elm").learned
    assert 40 - 7 <= kept <= 40

    fan = device("fan", stdin=subprocess.PIPE, source="-")
    assert fan.process.stdin is not None
    fan.process.stdin.writelines(lines[40:])
    fan.process.stdin.close()
    assert fan.end() == 0
    assert detector_in("fan.elm").learned == kept + 50


def test_a_folder_loses_no_row_and_reads_none_twice() -> None:
    """Each file is there until its rows are in the state for good."""
    X, log, chance = normal_rows(1, ROWS * KILLS), Path("fan.jsonl"), random.Random(5)
    Path("inbox").mkdir()
    settings = {"name": "fan", "like": "like.evidence", "verdicts": "fan.jsonl", "save_rows": 7}
    folder = settings | {"source": "inbox", "state": "fan.elm", "save_seconds": 0.1}
    with forks() as place:
        for number in range(KILLS):
            path = write_rows(Path(f"inbox/{number:03}.part"), X[number * ROWS :][:ROWS])
            os.utime(path, (0, 0))  # written long ago, so not being written now
            path.rename(path.with_suffix(".csv"))
            before = size_of(log)
            child = begin(place, folder)
            wait_for_more(log, before, chance.choice([0, 500, 4000]))
            kill(place, child)
        child = begin(place, folder)
        wait_until(lambda: len(list(Path("inbox/done").glob("*.csv"))) == KILLS)
        kill(place, child)
    write_rows(Path("all.csv"), X)
    calm = settings | {"source": "all.csv", "state": "calm.elm", "verdicts": ""}
    Agent(Settings(**calm)).run()
    expect_the_same("fan.elm", "calm.elm")
