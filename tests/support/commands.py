"""The command, as people use it, without a new process each time."""

import shutil
import sys
import tempfile
from atexit import register
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from elmgrove.cli.app import main


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Elmgrove = Callable[..., Ran]


@pytest.fixture(name="elmgrove")
def elmgrove_fixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Elmgrove:
    """Runs the command in a folder of its own: the real one, but without a new process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["elmgrove", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Ran(int(ended.value.code or 0), *capfd.readouterr())

    return run


def one_clear_line(ran: Ran) -> str:
    """The text of an error: one line (with details indented below), and nothing else."""
    assert ran.code == 1
    assert ran.out == ""
    first, *details = ran.err.splitlines()
    assert first.startswith("Error: ")
    assert all(line.startswith("  ") for line in details)
    return ran.err


# Files that a fixture makes for many tests: once, and each test has a copy of them.


@cache
def _shelf() -> Path:
    """Where the copies are kept until this process ends."""
    made = Path(tempfile.mkdtemp(prefix="elmgrove-made-once-"))
    register(shutil.rmtree, made)
    return made


def made_once(name: str, make: Callable[[], object]) -> None:
    """Makes files in this folder, or copies those that were made under this name before."""
    kept = _shelf() / name
    if not kept.exists():
        there = set(Path().iterdir())
        make()
        kept.mkdir()
        for path in set(Path().iterdir()) - there:
            shutil.copy2(path, kept)
    for path in kept.iterdir():
        shutil.copy2(path, path.name)
