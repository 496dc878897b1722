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
from elmgrove.federation import Member
from elmgrove.storage.disk import load, save
from support.agents import Start, verdicts, write_rows
from support.serving import rows, said, wait_until

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
KILLS = 40


@contextmanager
def nursery() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()
        assert started.wait(60) == 0


def begin(nursery: subprocess.Popen[str], settings: dict[str, Any]) -> int:
    """The process of a new agent."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(json.dumps(settings) + "\n")
    nursery.stdin.flush()
    return int(nursery.stdout.readline())


def ended(nursery: subprocess.Popen[str]) -> int:
    """How the agent ended, once it has: what ``wait`` says."""
    assert nursery.stdout is not None
    return int(nursery.stdout.readline())


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("like.evidence"), said("x", 99))


def kill_at_random(settings: dict[str, Any], times: int, seed: int) -> int:
    """Kills agents after a few verdicts each; how many of them it hit before their end."""
    chance, hit, log = random.Random(seed), 0, Path(settings["verdicts"])
    with nursery() as place:
        for _ in range(times):
            child = begin(place, settings)
            # Somewhere in a row, in a save, before the first or between two of them.
            wait_for_more(log, chance.choice([0, 1, 500, 2000]))
            for _ in range(chance.randrange(20_000)):
                pass
            os.kill(child, signal.SIGKILL)
            hit += ended(place) == signal.SIGKILL
            if Path(settings["state"]).exists():
                load(Path(settings["state"]), Member.from_bytes)
        begin(place, settings)
        assert ended(place) == 0
    return hit


def wait_for_more(log: Path, size: int) -> None:
    """Waits until a file has grown by so much."""
    before = size_of(log)
    wait_until(lambda: size_of(log) >= before + size)


def size_of(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def expect_the_same(one: str, other: str) -> None:
    """Equal models, but for the last bits: sums over rows are taken up anew after a restart."""
    found, expected = (
        load(Path(one), Member.from_bytes).detector,
        load(Path(other), Member.from_bytes).detector,
    )
    assert found.learned == expected.learned
    assert found.evidence.count == expected.evidence.count
    assert found.evidence.close_to(expected.evidence, 1e-12)
    assert found.threshold == pytest.approx(expected.threshold, rel=1e-9)


@pytest.mark.parametrize("save_rows", [1, 7])
def test_killed_at_any_point_it_ends_as_if_it_never_was(save_rows: int, tmp_path: Path) -> None:
    write_rows(Path("fan.csv"), rows(1, 1500))
    settings = {"name": "fan", "source": "fan.csv", "like": "like.evidence"}
    calm = settings | {"state": "calm.elm", "verdicts": "calm.jsonl"}
    Agent(Settings(**calm)).run()
    restless = settings | {"state": "fan.elm", "verdicts": "fan.jsonl", "save_rows": save_rows}
    assert kill_at_random(restless, KILLS, save_rows) == KILLS

    expect_the_same("fan.elm", "calm.elm")
    # Verdicts of rows after the last save come again, and say the same.
    expected = {one["where"]: one for one in verdicts(Path("calm.jsonl"))}
    again = [json.loads(line) for line in Path("fan.jsonl").read_text().splitlines()]
    assert {one["where"] for one in again} == set(expected)
    assert len(again) - len(expected) <= KILLS * (save_rows + 1)
    for one in again:
        calm_one = expected[one["where"]]
        assert one["score"] == pytest.approx(calm_one["score"], rel=1e-9)
        assert (one["learned"], one["alarm"]) == (calm_one["learned"], calm_one["alarm"])


def test_of_standard_input_no_more_is_lost_than_said(device: Start, tmp_path: Path) -> None:
    write_rows(Path("rows.csv"), rows(1, 90))
    lines = Path("rows.csv").read_bytes().splitlines(keepends=True)
    fan = device("fan", stdin=subprocess.PIPE, source="-", like="like.evidence", save_rows=7)
    assert fan.process.stdin is not None
    fan.process.stdin.writelines(lines[:40])
    fan.process.stdin.flush()
    fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 40)
    fan.kill()
    kept = load(Path("fan.elm"), Member.from_bytes).detector.learned
    assert 40 - 7 <= kept <= 40

    fan = device("fan", stdin=subprocess.PIPE, source="-")
    assert fan.process.stdin is not None
    fan.process.stdin.writelines(lines[40:])
    fan.process.stdin.close()
    assert fan.end() == 0
    assert load(Path("fan.elm"), Member.from_bytes).detector.learned == kept + 50


def test_a_folder_loses_no_row_and_reads_none_twice(tmp_path: Path) -> None:
    """Each file is there until its rows are in the state for good."""
    X = rows(1, 900)
    Path("inbox").mkdir()
    for number in range(9):
        path = write_rows(Path(f"inbox/{number}.csv"), X[number * 100 : number * 100 + 100])
        os.utime(path, (0, 0))  # written long ago, so not being written now
    write_rows(Path("all.csv"), X)
    settings = {"name": "fan", "like": "like.evidence", "verdicts": "fan.jsonl", "save_rows": 7}
    Agent(Settings(**settings | {"source": "all.csv", "state": "calm.elm"})).run()
    Path("fan.jsonl").unlink()
    folder = settings | {"source": "inbox", "state": "fan.elm", "save_seconds": 0.1}
    chance = random.Random(5)
    with nursery() as place:
        for _ in range(15):
            child = begin(place, folder)
            wait_for_more(Path("fan.jsonl"), chance.choice([0, 500, 4000]))
            os.kill(child, signal.SIGKILL)
            assert ended(place) == signal.SIGKILL
        child = begin(place, folder)
        wait_until(lambda: len(list(Path("inbox/done").glob("*.csv"))) == 9)
        os.kill(child, signal.SIGKILL)
        ended(place)
    expect_the_same("fan.elm", "calm.elm")
