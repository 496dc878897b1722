"""The agent at work: rows in, verdicts and alarms out, until it ends or is ended."""

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.exchange.folder import FolderExchange
from support.agents import (
    COMMAND,
    LIKE,
    PATIENCE,
    Start,
    address,
    append_rows,
    at_work,
    expect_learned,
    learned,
    sessions,
    verdicts,
)
from support.commands import Elmgrove, one_clear_line
from support.exchanges import Asked, Reply, saying
from support.factories import normal_rows, write_rows
from support.serving import Federation, charter, wait_until

pytestmark = pytest.mark.usefixtures("own_folder")


# Rows


def test_rows_from_a_file() -> None:
    X = normal_rows(1, 50)
    write_rows(Path("fan.csv"), X)
    Agent(Settings(**LIKE, source="fan.csv")).run()
    expect_learned(X)
    where = [one["where"] for one in verdicts(Path("fan.jsonl"))]
    assert where == [f"fan.csv, line {number}" for number in range(1, 51)]


def test_rows_from_a_file_that_grows() -> None:
    X = normal_rows(1, 50)
    with at_work(**LIKE, source="fan.csv", follow=True, save_seconds=0.1):
        write_rows(Path("fan.csv"), X[:20])
        wait_until(lambda: learned(Path("fan.elm")) == 20)
        append_rows(Path("fan.csv"), X[20:])
        wait_until(lambda: len(verdicts(Path("fan.jsonl"))) == 50)
    expect_learned(X)


def drop(path: Path, X: np.ndarray) -> None:
    """A file that comes into the folder as one written long ago: its writer is done."""
    hidden = write_rows(path.with_name(f".{path.name}"), X)
    os.utime(hidden, (0, 0))
    hidden.rename(path)


def test_rows_from_a_folder() -> None:
    X = normal_rows(1, 50)
    Path("inbox").mkdir()
    drop(Path("inbox/a.csv"), X[:20])
    with at_work(**LIKE, source="inbox", save_seconds=0.1):
        wait_until(lambda: Path("inbox/done/a.csv").exists())
        assert learned(Path("fan.elm")) == 20, "what is moved away was saved before"
        drop(Path("inbox/b.csv"), X[20:])
        wait_until(lambda: Path("inbox/done/b.csv").exists())
    expect_learned(X)


def test_rows_from_standard_input_and_verdicts_on_standard_output(start: Start) -> None:
    X = normal_rows(1, 50)
    write_rows(Path("rows.csv"), X)
    command = ("device", "run", "--state", "fan.elm", "--like", "like.evidence")
    ran = start(*command, stdin=subprocess.PIPE)
    assert ran.told(Path("rows.csv").read_bytes()) == 0, ran.log
    Path("fan.jsonl").write_text(ran.out)
    expect_learned(X)
    assert verdicts(Path("fan.jsonl"))[-1]["where"] == "standard input, line 50"


# Verdicts and alarms


def test_alarms_reach_an_address_and_a_command(device: Start) -> None:
    X = np.vstack(
        [normal_rows(1, 250), np.full((3, 6), 50.0), normal_rows(2, 9), np.full((3, 6), -50.0)]
    )
    write_rows(Path("fan.csv"), X)
    heard = list[dict[str, Any]]()

    def answer(asked: Asked) -> Reply:
        heard.append(json.loads(asked.body))
        return Reply(204)

    with saying(answer) as url:
        soon = {"watch_now": True, "only": "events", "alarm": "3/5/0"}
        started = device("fan", webhook=url, command="tee -a told.jsonl", **soon)
        assert started.end() == 0, started.log
    told = [(one["kind"], one["number"], one["where"]) for one in heard]
    assert told == [
        ("opened", 1, "fan.csv, line 253"),
        ("ended", 1, "fan.csv, line 258"),
        ("opened", 2, "fan.csv, line 265"),
    ]
    assert verdicts(Path("fan.jsonl")) == verdicts(Path("told.jsonl")) == heard
    assert {one["device"] for one in heard} == {"fan"}
    first, ended, second = heard
    assert set(first) == {
        "device", "kind", "where", "number", "begin", "end", "peak", "peak_at", "threshold", "rows",
        "changing", "answered", "known", "causes", "text",
    }  # fmt: skip
    assert first["end"] is second["end"] is None
    assert first["begin"] == ended["begin"] <= ended["end"] <= second["begin"]
    assert datetime.fromisoformat(ended["end"]).utcoffset() == timedelta(0)
    assert (first["rows"], ended["rows"]) == (3, 3)
    assert list(first["causes"][0]) == ["feature", "share", "seen", "expected", "ago"]
    assert ended["text"].startswith(f"event 1 ended: {ended['begin']} to {ended['end']}, 3 rows ")


def test_when_nobody_reads_the_verdicts_it_ends_and_has_saved(tmp_path: Path) -> None:
    write_rows(Path("rows.csv"), normal_rows(1, 50))
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
        assert ran.wait(PATIENCE) == 0
    assert "the program that read them has ended" in told
    assert "Traceback" not in told
    assert learned(Path("fan.elm")) == 11


# Ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_all_rows_saved(device: Start, number: int, tmp_path: Path) -> None:
    X = normal_rows(1, 77)
    write_rows(Path("fan.csv"), X)
    fan = device("fan", like="like.evidence", follow=True)
    fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 77)
    fan.process.send_signal(number)
    assert fan.end() == 0
    expect_learned(X)
    assert "Traceback" not in fan.log
    assert fan.process.pid not in sessions()
    assert not list(tmp_path.glob(".*")), "neither lock nor half a file"


# One state, one process


def test_a_state_is_one_process_s_alone(device: Start, elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 40))
    fan = device("fan", like="like.evidence", follow=True, save_rows=1)
    fan.until(lambda: learned(Path("fan.elm")) == 40)
    for command in (
        ["device", "run", "--state", "fan.elm", "--source", "fan.csv", "--verdicts", "x.jsonl"],
        ["learn", "fan.csv", "--state", "fan.elm"],
        ["share", "--state", "fan.elm"],
        ["device", "leave", "shared", "--state", "fan.elm"],
    ):
        # By this process, which is another one than the agent's.
        assert one_clear_line(elmgrove(*command)).splitlines() == [
            "Error: fan.elm is in use by another process (a running agent?); stop it first"
        ]
    assert not Path("x.jsonl").exists()
    fan.kill()
    append_rows(Path("fan.csv"), normal_rows(2, 5))
    with at_work(state="fan.elm", source="fan.csv", verdicts="fan.jsonl", follow=True):
        wait_until(lambda: len(verdicts(Path("fan.jsonl"))) == 45)
    assert learned(Path("fan.elm")) == 45


# What is loaded


LOADED = """
import sys
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
def loaded():
    return any(name.partition(".")[0] == "httpx" for name in sys.modules)
assert not loaded(), "at the import"
Agent(Settings(state="alone.elm", source="fan.csv", verdicts="")).run()
assert not loaded(), "for a device that is alone"
Agent(Settings(state="shared.elm", source="fan.csv", verdicts="", exchange="shared")).run()
assert not loaded(), "for a folder"
served = {"exchange": sys.argv[1], "token": sys.argv[2]}
Agent(Settings(state="served.elm", source="fan.csv", verdicts="", **served)).run()
assert loaded(), "for a server"
"""


def test_httpx_is_loaded_only_where_it_is_used(federation: Federation) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 20))
    FolderExchange.create(Path("shared"), charter("fans"))
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, address(federation), federation.token],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
