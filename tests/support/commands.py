"""The command, as people use it, without a new process each time."""

import sys
from collections.abc import Callable
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
