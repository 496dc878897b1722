"""What the library makes public, chapter by chapter, and what is said of each name."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperGroup

from elmgrove.cli.app import app

#: The checks have one name, and the adapters are there only with their extras.
CHAPTERS = (
    "elmgrove",
    "elmgrove.algebra",
    "elmgrove.storage",
    "elmgrove.detector",
    "elmgrove.federation",
    "elmgrove.exchange",
    "elmgrove.rounds",
)


def public() -> list[tuple[str, str]]:
    """Each chapter with each of its names; those of the root are listed there alone."""
    root = import_module("elmgrove")
    modules = [import_module(chapter) for chapter in CHAPTERS]
    return [
        (module.__name__, name)
        for module in modules
        for name in module.__all__
        if module is root or getattr(root, name, None) is not getattr(module, name)
    ]


def title(chapter: str, name: str) -> str:
    """A name as the reference has it."""
    return name if chapter == "elmgrove" else f"{chapter}.{name}"


def words_on(chapter: str, name: str) -> str:
    """Its docstring; of a constant or a type the ``#:`` comment above it."""
    module, here = _definition(import_module(chapter), name)
    if isinstance(here, ast.Assign | ast.AnnAssign):
        lines = _text(module).splitlines()[: here.lineno - 1]
        return " ".join(_comment(lines))
    return inspect.getdoc(getattr(import_module(chapter), name)) or ""


def summary(chapter: str, name: str) -> str:
    """The first sentence of what is said of a name."""
    first = " ".join(words_on(chapter, name).split("\n\n")[0].split())
    return re.split(r"(?<=[^.]\.)\s+(?=[A-ZΣβ`])", first)[0]


def _comment(lines: list[str]) -> list[str]:
    """The ``#:`` lines at the end of these."""
    found: list[str] = []
    while lines and lines[-1].startswith("#:"):
        found.insert(0, lines.pop()[2:].strip())
    return found


def _text(module: ModuleType) -> str:
    return Path(inspect.getfile(module)).read_text()


def _definition(module: ModuleType, name: str) -> tuple[ModuleType, ast.stmt | None]:
    """The statement that binds a name, and its module, wherever it was imported from."""
    for node in ast.walk(ast.parse(_text(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                if (one.asname or one.name) == name:
                    return _definition(import_module(node.module), one.name)
        if isinstance(node, ast.Assign) and name in (getattr(to, "id", "") for to in node.targets):
            return module, node
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name:
            return module, node
        if getattr(node, "name", None) == name and isinstance(node, ast.ClassDef | ast.FunctionDef):
            return module, node
    return module, None


# All commands of ``elmgrove`` by their full names, as the pages have to name them.


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A command and all those in it, by their full names."""
    yield name, command
    if isinstance(command, TyperGroup):
        for part in command.list_commands(None):
            yield from _walk(command.get_command(None, part), f"{name} {part}")


COMMANDS = dict(_walk(typer.main.get_command(app), "elmgrove"))


def is_group(name: str) -> bool:
    """Says whether a command has others in it."""
    return isinstance(COMMANDS[name], TyperGroup)


def flags_of(parameter: Any) -> list[str]:
    """The long names of an option; none of an argument."""
    options = [*parameter.opts, *parameter.secondary_opts]
    return [option for option in options if option.startswith("--")]
