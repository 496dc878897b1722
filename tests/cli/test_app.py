"""The command as a whole: help, version, names as they are, and a process of its own."""

import ast
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from elmgrove import Detector, HiddenLayer, __version__
from elmgrove.cli import app as module
from elmgrove.cli.app import GROUPS, app
from elmgrove.federation.member import Member
from elmgrove.storage.disk import save
from support.commands import Elmgrove, Ran, elmgrove_fixture, one_clear_line
from support.fans import NAMES, fan_rows, write_fan_rows
from support.places import ROOT

COMMAND = Path(sys.executable).parent / "elmgrove"


COMMANDS = [
    "learn",
    "score",
    "tune",
    "share",
    "merge",
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
    table = elmgrove("score", "a.csv", "--state", "a[b].elm", "--worst", 5).out
    shown = elmgrove("inspect", "a[b].elm").out
    for name in names:
        assert name in shown
    assert any(name in table for name in names)
    ran = elmgrove("share", "--state", "a[b].elm", "-o", "x.evidence")
    assert (ran.code, "[/red]:fire:" in ran.err) == (0, True)
    elmgrove("learn", "a.csv", "--state", "b.elm", "--like", "x.evidence")
    ran = elmgrove("merge", "--state", "b.elm", "x.evidence")
    assert (ran.code, "[/red]:fire:, 150 rows learned: taken in" in ran.err) == (0, True)
    assert "[bold]" in one_clear_line(elmgrove("merge", "-s", "b.elm", "--forget", "[bold]"))


def _first_paragraph(command: Any) -> str:
    return " ".join(command.help.partition("\n\n")[0].split())


def test_the_help_says_of_each_command_what_it_says_of_itself() -> None:
    group = typer.main.get_group(app)
    context = typer.Context(group)
    names = group.list_commands(context)
    said = {name: _first_paragraph(group.get_command(context, name)) for name in names}
    assert said == {name: what for group in GROUPS.values() for name, (_, what) in group.items()}


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
    needless = {"httpx", "sklearn", "matplotlib", "fastapi", "granian", "scipy.signal"}
    needless |= {"elmgrove.papers", "elmgrove.rounds", "elmgrove.server", "elmgrove.exchange.http"}
    assert not needless & loaded
    assert Path("device.elm").exists()


# What goes wrong is one clear line and an exit code, and changes nothing


def bad_files() -> None:
    state = Path("fan-1.elm").read_bytes()
    Path("half.elm").write_bytes(state[: len(state) // 2])
    altered = bytearray(state)
    altered[-9] ^= 1
    Path("altered.elm").write_bytes(altered)
    Path("half.evidence").write_bytes(Path("fan-1.evidence").read_bytes()[:-1])
    Path("empty.csv").write_text("")
    write_fan_rows("header.csv", fan_rows(1, 0))
    write_fan_rows("text.csv", fan_rows(1, 3))
    with Path("text.csv").open("a") as file:
        file.write("1,2,hot,4,5,6\n")
    Path("latin.csv").write_bytes("Wärme,b\n1,2\n".encode("latin-1"))
    write_fan_rows("other-names.csv", fan_rows(1, 3), [*NAMES[:-1], "Zug"])
    write_fan_rows("narrow.csv", fan_rows(1, 3)[:, :4], None)
    np.save("narrow.npy", fan_rows(1, 3)[:, :4])
    np.save("flat.npy", np.ones(6))
    for name, value in {"overflow.csv": "1e308", "fill.csv": "-1e30"}.items():
        write_fan_rows(name, fan_rows(1, 30))
        with Path(name).open("a") as file:
            file.write(f"1,2,{value},4,5,6\n")
    elsewhere = Member(
        "elsewhere", Detector(HiddenLayer(6, 3, seed=99), features=NAMES), merges=True
    )
    elsewhere.detector.learn_many(fan_rows(1, 30))
    save(Path("elsewhere.evidence"), elsewhere.contribution())


ERRORS = {
    "learn text.csv -s fan-1.elm": "text.csv, line 5, column 3 ('speed [m/s]'): 'hot' is not",
    "learn text.csv -s new.elm": "text.csv, line 5, column 3 ('speed [m/s]'): 'hot' is not",
    "score text.csv -s fan-1.elm": "text.csv, line 5, column 3",
    "learn overflow.csv -s new.elm": "line 32, column 3 ('speed [m/s]'): '1e308' is larger than",
    "score fill.csv -s fan-1.elm": "line 32, column 3 ('speed [m/s]'): '-1e30' is larger than any",
    "learn normal-1.csv -s new.elm --delimiter ;": "several numbers in one cell: --delimiter ','",
    "learn latin.csv -s new.elm": "latin.csv: not text in UTF-8",
    "learn other-names.csv -s fan-1.elm": "other-names.csv: no column 'draft' among ['heat'",
    "learn narrow.csv -s fan-1.elm": "narrow.csv: 4 columns, where 6 were learned",
    "learn narrow.npy -s new.elm --like fan-1.elm": "narrow.npy: 4 columns",
    "score narrow.npy -s fan-1.elm": "narrow.npy: 4 columns, where 6 were learned",
    "learn flat.npy -s new.elm": "flat.npy: expected rows × columns",
    "learn empty.csv -s new.elm": "empty.csv: no rows to learn from",
    "learn header.csv -s new.elm": "header.csv: no rows to learn from",
    "score empty.csv -s fan-1.elm": "empty.csv: 0 columns, where 6 were learned",
    "score normal-1.csv -s half.elm": "half.elm: truncated or damaged",
    "score normal-1.csv -s altered.elm": "altered.elm: altered since it was written",
    "score normal-1.csv -s normal-1.csv": "normal-1.csv: not a file of Elmgrove's",
    "score normal-1.csv -s fan-1.evidence": "fan-1.evidence: this holds 'elmgrove.evidence'",
    "learn normal-1.csv -s half.elm": "half.elm: truncated or damaged",
    "learn normal-1.csv -s new.elm --like half.elm": "half.elm: truncated or damaged",
    "learn normal-1.csv -s new.elm --like text.csv": "text.csv: not a file of Elmgrove's",
    "share -s altered.elm": "altered.elm: altered since it was written",
    "share -s fan-1.elm -o fan-1.elm": "fan-1.elm is the state itself",
    "share -s fan-1.elm -o nowhere/x.evidence": "nowhere/x.evidence: No such file or directory",
    "inspect half.evidence": "half.evidence: truncated or damaged",
    "inspect text.csv": "text.csv: not a file of Elmgrove's",
    "merge -s fan-1.elm half.evidence": "half.evidence: truncated or damaged",
    "merge -s fan-1.elm fan-1.elm": "'elmgrove share --state fan-1.elm -o fan-1.ev",
    "merge -s fan-1.elm fan-1.evidence": "'fan-1' can't merge its own evidence",
    "merge -s fan-1.elm elsewhere.evidence": "\n  layer.seed: 0 here, 99 there\n",
    "merge -s fan-1.elm --forget nobody": "fan-1 never merged 'nobody'",
    "learn normal-1.csv -s fan-1.elm --units 3": "--units: fan-1.elm exists and keeps",
    "learn normal-1.csv -s fan-1.elm --name x --drop hum": "--drop, --name: fan-1.elm exists",
    "learn normal-1.csv -s fan-1.elm --like fan-1.elm": "--like: fan-1.elm exists and keeps",
    "learn normal-1.csv -s new.elm --like fan-1.elm --units 3": "--units: --like takes this from",
    "learn normal-1.csv -s new.elm --scaling log": "scaling must be one of none, minmax, standard",
    "learn normal-1.csv -s new.elm --activation x": "activation must be one of identity,",
    "learn normal-1.csv -s new.elm --rate 2": "rate must lie between 0 and 1",
    "learn normal-1.csv -s new.elm --drop nothing": "normal-1.csv: no column 'nothing' among",
    "learn normal-1.csv -s nowhere/new.elm": "nowhere/new.elm: No such file or directory",
    "learn normal-1.csv -s new.elm --window some": "window: auto or a number from 1 on, not 'some'",
    "learn normal-1.csv -s new.elm --window 0": "window: auto or a number from 1 on, not '0'",
    "learn normal-1.csv -s new.elm --score length": "score must be one of distance, loss",
    "learn normal-1.csv -s new.elm --score distance --activation tanh": "needs a linear layer",
    "learn normal-1.csv -s fan-1.elm --window 2": "--window: fan-1.elm exists and keeps",
    "learn normal-1.csv -s new.elm --like fan-1.elm --score loss": "--score: --like takes this",
}


@pytest.mark.parametrize("line", ERRORS)
@pytest.mark.usefixtures("fan_1")
def test_an_error_is_one_clear_line_and_changes_nothing(elmgrove: Elmgrove, line: str) -> None:
    bad_files()
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert ERRORS[line] in one_clear_line(elmgrove(*line.split()))
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("score nothing.csv -s fan-1.elm", "'nothing.csv' does not exist"),
        ("score normal-1.csv -s nothing.elm", "'nothing.elm' does not exist"),
        ("merge -s fan-1.elm nothing.evidence", "'nothing.evidence' does not exist"),
        ("learn normal-1.csv -s new.elm --like nothing.elm", "'nothing.elm' does not exist"),
        ("learn normal-1.csv -s .", "'.' is a directory"),
        ("inspect .", "'.' is a directory"),
        ("learn normal-1.csv", "--state"),
        ("learn normal-1.csv -s new.elm --units 0", "--units"),
        ("learn normal-1.csv -s new.elm --rate one", "--rate"),
        ("score normal-1.csv -s fan-1.elm --format xml", "xml"),
        ("merge fan-1.evidence", "--state"),
        ("teach normal-1.csv", "teach"),
        ("train normal-1.csv", "No such command 'train'. Did you mean learn?"),
        ("evalaute normal-1.csv", "No such command 'evalaute'. Did you mean evaluate?"),
        ("device ruun", "No such command 'ruun'. Did you mean 'run'?"),
        ("learn normal-1.csv --stat fan-1.elm", "--state"),
    ],
)
@pytest.mark.usefixtures("fan_1")
def test_wrong_usage_is_told_apart_by_its_exit_code(
    elmgrove: Elmgrove, line: str, complaint: str
) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    ran = elmgrove(*line.split())
    assert ran.code == 2
    assert complaint in ran.err
    assert "Traceback" not in ran.err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_a_full_disk_is_one_clear_line_and_leaves_the_state(fan_1: Path) -> None:
    before = fan_1.read_bytes()
    learn = (COMMAND, "learn", "normal-1.csv", "--state", "fan-1.elm")
    # No file may grow beyond 4 blocks, of 512 bytes or 1024 as the shell has it.
    text = one_clear_line(run("sh", "-c", 'ulimit -f 4 && exec "$@"', "sh", *learn))
    assert "fan-1.elm: File too large" in text
    assert fan_1.read_bytes() == before
    assert not list(Path().glob(".*"))


def test_an_agent_without_a_source_does_not_wait_for_somebody_to_type_rows(fan_1: Path) -> None:
    other, terminal = pty.openpty()
    try:
        ran = subprocess.run(
            [COMMAND, "device", "run", "--state", "new.elm"],
            **{"stdin": terminal, "capture_output": True, "text": True, "timeout": 300},
        )
    finally:
        os.close(other)
        os.close(terminal)
    assert "no source of rows is given: --source names a file" in one_clear_line(
        Ran(ran.returncode, ran.stdout, ran.stderr)
    )


def test_columns_without_names_are_said_to_be_in_the_order_that_was_learned(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    swapped = fan_rows(1, 30)[:, [1, 0, 2, 3, 4, 5]]
    said = elmgrove("score", write_fan_rows("bare.csv", swapped, None), "-s", fan_1).err
    assert "Rows have no names: their columns are taken for 'heat', " in said
    assert "in this order; if it is another, put a line of names above them." in said
    assert (
        "no names" not in elmgrove("score", write_fan_rows("named.csv", swapped), "-s", fan_1).err
    )


# The appendix: explained where it is not installed

__all__ = ["elmgrove_fixture"]
SOURCES = sorted((ROOT / "src/elmgrove").rglob("*.py"))
#: What only the appendix needs.
APPENDIX = {"elmgrove_papers", "torch"}
#: Functions that import what their first argument names.
BY_NAME = ("require_extra", "import_module")


@pytest.mark.parametrize("arguments", [(), ("mlmg", "table2", "--data", "."), ("--help",)])
def test_without_the_appendix_the_command_says_how_to_get_it(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.delitem(sys.modules, "elmgrove_papers.command", raising=False)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert one_clear_line(elmgrove("paper", *arguments)) == (
        "Error: elmgrove paper needs the appendix: pip install elmgrove-papers "
        "(from a checkout: pip install ./papers)\n"
    )
    assert "paper " in elmgrove("--help").out


def _imported(path: Path) -> Iterator[str]:
    """The packages that a file imports, by a statement or by a function that takes a name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
            yield from (one.value for one in node.args[:1] if isinstance(one, ast.Constant))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_device_has_nothing_of_the_appendix(path: Path) -> None:
    packages = {name.partition(".")[0] for name in _imported(path)}
    assert not packages & APPENDIX
    # Pictures are drawn by commands and by a detector that is asked for one, with an extra.
    assert "matplotlib" not in packages or {"cli", "plot.py"} & set(path.parts)
