"""The demo: one run of it serves all tests, in whichever process they are."""

import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from support.agents import COMMAND, sessions
from support.serving import wait_until

#: Seconds for a whole run, on a machine that is busy.
PATIENCE = 300.0
PUMPS = tuple(f"pump-{number}" for number in range(1, 6))


class Demo(NamedTuple):
    """What a run of the demo wrote to a folder and printed, and how many rows it then streamed."""

    folder: Path
    text: str
    streamed: dict[str, int]


def started(folder: Path, out: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
    """A demo that goes on, in a session of its own, with its files in the folder's grandparent."""
    return subprocess.Popen(
        [COMMAND, "demo", "--live", "--output", folder],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder.parent.parent)},
        start_new_session=True,
    )


def _verdicts(folder: Path) -> dict[str, int]:
    """How many rows each agent has judged."""
    found = {path.stem: path for path in folder.parent.parent.glob("elmgrove-demo-*/*.jsonl")}
    return {pump: path.read_bytes().count(b"\n") for pump, path in found.items()}


def _run(folder: Path, said: Path) -> dict[str, int]:
    """Rows that each agent judged after the story, once the demo has ended well, by Ctrl-C."""
    with said.open("w") as out, started(folder, out) as ran:
        try:
            over = "Log in with"
            wait_until(lambda: over in said.read_text() or ran.poll() is not None, PATIENCE)
            before = _verdicts(folder)
            wait_until(
                lambda: (
                    ran.poll() is not None
                    or all(_verdicts(folder)[pump] > before[pump] for pump in PUMPS)
                ),
                PATIENCE,
            )
            streamed = {pump: rows - before[pump] for pump, rows in _verdicts(folder).items()}
        finally:
            ran.send_signal(signal.SIGINT)
            _, err = ran.communicate(timeout=PATIENCE)
    assert (ran.returncode, err) == (0, ""), said.read_text()
    assert ran.pid not in sessions(), "no process of it runs on"
    assert not list(folder.parent.parent.glob("elmgrove-demo-*"))
    return streamed


@pytest.fixture(name="demo", scope="session")
def demo_fixture(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Of several test processes the first one runs it, and the others wait for that."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, said = base / "the demo" / "made" / "by the demo", base / "the demo.txt"
    streamed = base / "the demo.json"
    with (base / "the demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not streamed.exists():
            folder.parent.parent.mkdir(exist_ok=True)
            streamed.write_text(json.dumps(_run(folder, said)))
    return Demo(folder, said.read_text(), json.loads(streamed.read_text()))
