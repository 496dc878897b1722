"""Ratchets: what the project has much of may only become less.

Whoever takes something out lowers the number here; a change that must raise one says in its commit
which other it lowers.
"""

import ast
import io
import tokenize
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import typer.main
from docs.make.reference import commands

from elmgrove.cli.app import app
from elmgrove.device.settings import Settings
from elmgrove.server.routes import ROUTES
from support.places import ROOT

LIBRARY = ROOT / "src" / "elmgrove"
#: Lines of Python without blanks, comments and docstrings, by chapter.
LINES = {
    "adapters": 300,
    "algebra": 2819,
    "checks": 223,
    "cli": 3848,
    "detector": 5519,
    "device": 4006,
    "exchange": 1691,
    "federation": 2677,
    "reading": 1720,
    "rounds": 1087,
    "server": 5316,
    "storage": 214,
}
MOST = {"files": 173, "commands": 31, "options": 225, "settings": 44, "routes": 30, "names": 131}
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def pure_lines(path: Path) -> int:
    text = path.read_text()
    docstrings = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.update(range(first.lineno, (first.end_lineno or 0) + 1))
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SKIPPED and token.type != tokenize.ENDMARKER:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def test_no_chapter_grows() -> None:
    found = {chapter: sum(map(pure_lines, (LIBRARY / chapter).rglob("*.py"))) for chapter in LINES}
    assert {name: lines for name, lines in found.items() if lines > LINES[name]} == {}


def test_there_are_no_more_files_commands_options_settings_routes_and_names() -> None:
    packages = [path.parent.relative_to(ROOT / "src") for path in LIBRARY.rglob("__init__.py")]
    public = [
        getattr(import_module(".".join(one.parts)), "__all__", ())
        for one in packages
        if "flower" not in one.parts
    ]
    known = [one for _, one in commands(typer.main.get_command(app), "elmgrove")]
    found = {
        "files": len(list(LIBRARY.rglob("*.py"))),
        "commands": sum(not hasattr(one, "commands") for one in known),
        "options": sum(len(one.params) for one in known),
        "settings": len(fields(Settings)),
        "routes": len(ROUTES),
        "names": sum(map(len, public)),
    }
    assert {name: count for name, count in found.items() if count > MOST[name]} == {}
