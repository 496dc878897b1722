"""Agents on the files that people have: what is read, what is said, and what is refused."""

import gzip
import json
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from support.agents import LIKE, PATIENCE, Start, learned, verdicts
from support.factories import member_in, normal_rows, write_rows
from support.fork_server import ForkServer

pytestmark = pytest.mark.usefixtures("own_folder")

START = datetime(2024, 5, 1, tzinfo=UTC)


def pump(count: int = 300, seed: int = 1) -> pd.DataFrame:
    """A pump: one load is behind all but the voltage."""
    rng = np.random.default_rng(seed)
    load = rng.normal(size=count)
    noise = rng.normal(size=(4, count))
    return pd.DataFrame(
        {
            "rpm": 1480 + 20 * load + noise[0],
            "temp": 61 + 2 * load + 0.5 * noise[1],
            "volt": 230 + noise[2],
            "amp": 8 + load + 0.1 * noise[3],
        }
    ).round(3)


def with_times(form: str = "%Y-%m-%d %H:%M:%S") -> pd.DataFrame:
    frame = pump()
    moments = [START + timedelta(minutes=n) for n in range(len(frame))]
    frame.insert(0, "ts", [one.strftime(form) for one in moments])
    return frame


def test_what_was_said_once_is_remembered_with_the_state(device: Start) -> None:
    frame = pump()
    frame[:200].to_csv("pump.csv", sep=";", decimal=",", index=False)
    assert device("pump", decimal=",").end() == 0
    frame[200:].to_csv("pump.csv", sep=";", decimal=",", index=False, header=False, mode="a")
    assert device("pump").end() == 0
    assert len(verdicts(Path("pump.jsonl"))) == 300


def test_words_that_were_learned_are_read_and_a_new_one_is_anomalous(
    device: Start, elmgrove: Any
) -> None:
    frame = pump(600)
    frame["mode"] = np.where(frame["amp"] > 8, "high", "low")
    frame.loc[598, "mode"] = "wild"
    frame[:300].to_csv("normal.csv", index=False)
    elmgrove("learn", "normal.csv", "--state", "pump.elm", "--categories", "mode")
    frame[300:599].to_csv("pump.csv", index=False)
    run = device("pump")
    assert run.end() == 0, run.log
    assert member_in("pump.elm").detector.basis.features[-2:] == ("mode=high", "mode=low")
    assert run.log.count("mode=wild was never learned") == 1
    assert [one["anomalous"] for one in verdicts(Path("pump.jsonl"))[-2:]] == [False, True]
    with Path("pump.csv").open("a") as file:
        file.write(frame[599:].to_csv(index=False, header=False))
    again = device("pump")
    assert again.end() == 0, again.log
    assert len(verdicts(Path("pump.jsonl"))) == 300


# Time


def test_a_gap_is_said_and_windows_begin_again(device: Start) -> None:
    frame = with_times()
    later = START + timedelta(days=2)
    frame.loc[200:, "ts"] = [
        (later + timedelta(minutes=n)).strftime("%Y-%m-%d %H:%M:%S") for n in range(100)
    ]
    frame.to_csv("pump.csv", index=False)
    run = device("pump", start_rows=50, window="5")
    assert run.end() == 0
    said = "gap: no rows from 2024-05-01 03:19:00 to 2024-05-03 00:00:00 (44.7 h)"
    assert run.log.count("gap: ") == run.log.count(said) == 1
    unlearned = [n for n, one in enumerate(verdicts(Path("pump.jsonl"))) if not one["learned"]]
    assert {0, 1, 2, 3, 200, 201, 202, 203} <= set(unlearned)
    assert member_in("pump.elm").notes["input"]["gaps"] == 1


def test_a_verdict_has_the_row_s_time_or_else_the_present(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float | None] = []
    observe = "elmgrove.detector.detector.Detector.observe"
    with_times().to_csv("pump.csv", index=False)
    write_rows(Path("fan.csv"), normal_rows(1, 5))

    def heard(self: Any, row: Any, time: float | None = None) -> Any:
        seen.append(time)
        raise KeyboardInterrupt

    monkeypatch.setattr(observe, heard)
    for source in ("pump.csv", "fan.csv"):
        with pytest.raises(KeyboardInterrupt):
            Agent(Settings(source=source, state=f"{source}.elm", verdicts="", start_rows=5)).run()
    assert seen[0] == START.timestamp()
    assert seen[1] is not None
    assert abs(seen[1] - datetime.now(UTC).timestamp()) < PATIENCE


# Killed in the middle of each format


NAMES = [f"c{n}" for n in range(6)]


def frame_of(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES)


def write_json(X: np.ndarray, path: Path) -> None:
    lines = [json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in X.tolist()]
    path.write_text("".join(lines))


def write_gzip(X: np.ndarray, path: Path) -> None:
    write_rows(Path("plain"), X, NAMES)
    path.write_bytes(gzip.compress(Path("plain").read_bytes()))


def write_tabs(X: np.ndarray, path: Path) -> None:
    write_rows(path, X, NAMES)
    path.write_text(path.read_text().replace(",", "\t"))


FORMATS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "fan.tsv": write_tabs,
    "fan.csv.gz": write_gzip,
    "fan.jsonl": write_json,
    "fan.npy": lambda X, path: np.save(path, X),
    "fan.parquet": lambda X, path: frame_of(X).to_parquet(path),
}


@pytest.mark.parametrize("name", FORMATS)
def test_killed_in_any_format_it_ends_as_if_it_never_was(name: str, forks: ForkServer) -> None:
    """The agent can't be ahead of the test by more than a pipe holds."""
    X = normal_rows(1, 600)
    FORMATS[name](X, Path(name))
    command = ["device", "run", "--source", name, "--state", "fan.elm"]
    command += ["--like", "like.evidence", "--name", "fan", "--save-rows", "7"]
    for lines in (100, 150):
        with forks.piped(command) as (agent, said):
            for _ in range(lines):
                assert said.readline()
            agent.kill()
            assert agent.wait(PATIENCE) == -signal.SIGKILL
    between = learned(Path("fan.elm"))
    assert 200 < between < 600
    with forks.piped(command) as (agent, said):
        assert len(said.readlines()) == 600 - between
        assert agent.wait(PATIENCE) == 0
    write_rows(Path("calm.csv"), X, NAMES)
    Agent(Settings(**LIKE | {"state": "calm.elm", "verdicts": ""}, source="calm.csv")).run()
    found, expected = member_in("fan.elm").detector, member_in("calm.elm").detector
    assert found.learned == expected.learned
    assert found.evidence.close_to(expected.evidence, 1e-12)


# A source without a row


@pytest.mark.parametrize("content", ["", "rpm,temp\n"])
def test_a_source_without_a_row_is_an_error(device: Start, content: str) -> None:
    Path("pump.csv").write_text(content)
    run = device("pump")
    assert run.end() == 1
    assert "Error: no rows in pump.csv" in run.log
    run = device("pump", source="-")
    assert run.end() == 1
    assert "Error: no rows in standard input" in run.log
