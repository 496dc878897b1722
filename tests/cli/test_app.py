"""The command as a whole: help, version, names as they are, and a process of its own."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from elmgrove import __version__
from elmgrove.cli.app import SUMMARIES, app
from support.commands import Elmgrove, Ran, one_clear_line
from support.fans import fan_rows, write_fan_rows

COMMAND = Path(sys.executable).parent / "elmgrove"


COMMANDS = [
    "learn",
    "score",
    "tune",
    "share",
    "merge",
    "forget",
    "inspect",
    "demo",
    "federate",
    "serve",
]
COMMANDS += ["federation create", "device run", "device leave"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(elmgrove: Elmgrove, command: str) -> None:
    ran = elmgrove(*command.split(), "--help")
    assert ran.code == 0
    assert f"Example: elmgrove {command}" in " ".join(ran.out.split())


def test_the_help_is_one_screen_in_groups(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = elmgrove("--help").out.splitlines()
    headings = [line.split("─ ")[1].split(" ─")[0] for line in lines if line.startswith("╭")]
    assert headings == ["Options", "Start", "Device", "Fleet", "Research"]
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 52


def test_help_lists_the_commands_and_the_exit_codes(elmgrove: Elmgrove) -> None:
    asked, alone = elmgrove("--help"), elmgrove()
    assert asked.code == 0
    for text in [*(command.split()[0] for command in COMMANDS), "Exit codes: 0 done"]:
        assert text in asked.out
    assert asked.out.split() == (alone.out + alone.err).split()


def test_the_version_is_printed(elmgrove: Elmgrove) -> None:
    assert elmgrove("--version") == Ran(0, f"elmgrove {__version__}\n", "")


def test_brackets_and_colons_in_names_are_no_markup(elmgrove: Elmgrove) -> None:
    names = ["p [bar]", "[/x]", ":fire:", "[bold]", "v [m/s]", "f"]
    write_fan_rows("a.csv", fan_rows(1, 150), names)
    ran = elmgrove("learn", "a.csv", "--state", "a[b].elm", "--name", "[/red]:fire:")
    assert (ran.code, "[/red]:fire:: learned 150 rows" in ran.err) == (0, True)
    assert "a[b].elm" in ran.err
    table = elmgrove("score", "a.csv", "--state", "a[b].elm", "--worst", 5, "--explain", 6).out
    shown = elmgrove("inspect", "a[b].elm").out
    for name in names:
        assert name in table
        assert name in shown
    ran = elmgrove("share", "--state", "a[b].elm", "-o", "x.evidence")
    assert (ran.code, "[/red]:fire:" in ran.err) == (0, True)
    elmgrove("learn", "a.csv", "--state", "b.elm", "--like", "x.evidence")
    ran = elmgrove("merge", "--state", "b.elm", "x.evidence")
    assert (ran.code, "[/red]:fire:, 150 rows learned: taken in" in ran.err) == (0, True)
    assert "[bold]" in one_clear_line(elmgrove("forget", "-s", "b.elm", "--origin", "[bold]"))


def _first_paragraph(command: Any) -> str:
    return " ".join(command.help.partition("\n\n")[0].split())


def test_the_help_says_of_each_command_what_it_says_of_itself() -> None:
    group = typer.main.get_group(app)
    context = typer.Context(group)
    names = group.list_commands(context)
    said = {name: _first_paragraph(group.get_command(context, name)) for name in names}
    assert said == SUMMARIES


# In a process of its own


def run(*command: str | Path) -> Ran:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.usefixtures("fan_1")
def test_the_installed_command_does_the_same(elmgrove: Elmgrove) -> None:
    write_fan_rows("odd.csv", fan_rows(6, 3, shift=9.0))
    arguments = ("score", "odd.csv", "--state", "fan-1.elm", "--check", "--format", "csv")
    ran = run(COMMAND, *arguments)
    assert ran == elmgrove(*arguments)
    assert ran.code == 3
    assert "odd.csv" in one_clear_line(run(COMMAND, "inspect", "odd.csv"))


LISTED = """
import sys
from elmgrove.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_neither_version_nor_help_loads_what_computes_or_connects(option: str) -> None:
    """Half a second each on this machine, and many on a small one."""
    ran = run(sys.executable, "-c", LISTED, option)
    assert (ran.code, ran.out != "") == (0, True)
    loaded = set(ran.err.split())
    assert {"typer", "elmgrove.cli.app"} <= loaded
    assert not {"numpy", "scipy", "httpx", "threadpoolctl", "safetensors", "sqlite3"} & loaded
    ours = {name for name in loaded if name.startswith("elmgrove")}
    assert ours == {"elmgrove", "elmgrove.cli", "elmgrove.cli.app", "elmgrove.errors"}


LOADED = """
import sys
from elmgrove.cli import main
sys.argv = ["elmgrove", "device", "run", "--source", "rows.csv", "--verdicts", ""]
try:
    main()
except SystemExit as ended:
    assert not ended.code
print(*sorted(sys.modules))
"""


def test_only_the_modules_that_a_command_needs_are_loaded(elmgrove: Elmgrove) -> None:
    """On a small machine the rest would take seconds."""
    write_fan_rows("rows.csv", fan_rows(1, 20))
    ran = run(sys.executable, "-c", LOADED)
    assert ran.code == 0, ran.err
    loaded = set(ran.out.split())
    assert {"elmgrove.cli.device", "elmgrove.device.agent"} <= loaded
    needless = {"httpx", "sklearn", "matplotlib", "fastapi", "uvicorn", "scipy.signal"}
    needless |= {"elmgrove.papers", "elmgrove.rounds", "elmgrove.server", "elmgrove.exchange.http"}
    assert not needless & loaded
    assert Path("device.elm").exists()
