"""The demo: one run of it serves all tests, in whichever process they are."""

import fcntl
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from support.agents import COMMAND, sessions


class Demo(NamedTuple):
    """The folder that a run of the demo wrote, and what it printed."""

    folder: Path
    text: str


def started(folder: Path) -> subprocess.Popen[str]:
    """A demo in a session of its own, with its files in the folder's grandparent."""
    return subprocess.Popen(
        [COMMAND, "demo", "--output", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder.parent.parent)},
        start_new_session=True,
    )


def _run(folder: Path) -> str:
    """What it printed, once it has ended well and left nothing behind."""
    with started(folder) as ran:
        out, err = ran.communicate(timeout=300)
    assert (ran.returncode, err) == (0, "")
    assert ran.pid not in sessions(), "no process of it runs on"
    assert not list(folder.parent.parent.glob("elmgrove-demo-*"))
    return out


@pytest.fixture(name="demo", scope="session")
def demo_fixture(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Of several test processes the first one runs it, and the others wait for that."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, said = base / "the demo" / "made" / "by the demo", base / "the demo.txt"
    with (base / "the demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            folder.parent.parent.mkdir(exist_ok=True)
            said.write_text(_run(folder))
    return Demo(folder, said.read_text())
