"""Commands of other distributions: added where they are installed, explained where they are not."""

import ast
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import typer

from elmgrove.cli import app as module
from support.commands import Elmgrove, elmgrove_fixture, one_clear_line
from support.places import ROOT

__all__ = ["elmgrove_fixture"]
SOURCES = sorted((ROOT / "src/elmgrove").rglob("*.py"))
#: What only the appendix needs.
APPENDIX = {"elmgrove_papers", "torch"}
#: Functions that import what their first argument names.
BY_NAME = ("require_extra", "import_module")
greeting = typer.Typer()


@greeting.callback()
def greetings() -> None:
    """A group, though it has one command."""


@greeting.command()
def greet(name: str) -> None:
    """Say hello."""
    print(f"Hello {name}")


def _installed(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Only these are installed; a value is where the command is."""
    entries = EntryPoints(
        EntryPoint(name, value, module.PLUG_INS) for name, value in values.items()
    )
    monkeypatch.setattr(module, "entry_points", lambda group: entries)


@pytest.mark.parametrize("arguments", [(), ("mlmg", "table2", "--data", "."), ("all", "--quick")])
def test_without_the_appendix_the_command_says_how_to_get_it(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    _installed(monkeypatch)
    assert one_clear_line(elmgrove("paper", *arguments)) == (
        "Error: elmgrove paper needs the appendix: pip install elmgrove-papers "
        "(from a checkout: pip install ./papers)\n"
    )


def test_without_the_appendix_help_has_its_command(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed(monkeypatch)
    assert "paper " in elmgrove("--help").out
    assert "pip install elmgrove-papers" in elmgrove("paper", "--help").out


def test_a_command_of_another_distribution_is_added(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A test's own module can't be imported by its name.
    monkeypatch.setattr(module, "greeting", greeting, raising=False)
    _installed(monkeypatch, greeting=f"{module.__name__}:greeting")
    assert elmgrove("greeting", "greet", "fan-1").out == "Hello fan-1\n"
    assert "paper" in elmgrove("--help").out


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:app", "No module named 'no_such_module'"),
        ("os:path", "os:path is not a Typer app"),
    ],
)
def test_a_plug_in_that_is_broken_takes_nothing_else_away(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    _installed(monkeypatch, broken=value)
    said = one_clear_line(elmgrove("broken", "--any"))
    assert said.startswith("Error: elmgrove broken can't be loaded: ")
    assert reason in said
    assert elmgrove("--version").code == 0


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
