"""The notebook runs from its first cell to its last, and shows what comes out; its page shows both.

Without Jupyter: a cell is run as those before it left things, and its last expression shown.
"""

import ast
import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.pages import blocks
from support.places import ROOT

NOTEBOOK = json.loads((ROOT / "examples" / "pump.ipynb").read_text())
PAGE = (ROOT / "docs" / "notebook.md").read_text()
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def _shown(cell: dict[str, Any]) -> str:
    parts = [one.get("text") or one["data"]["text/plain"] for one in cell["outputs"]]
    return "\n".join("".join(part).rstrip("\n") for part in parts)


def _ran(source: str, known: dict[str, Any]) -> str:
    """What a cell prints, and what its last expression is."""
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), known)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), known)
            if value is not None:
                print(value)
    return printed.getvalue().rstrip("\n")


def test_each_cell_shows_what_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "examples" / "pump_csv.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = dict[str, Any]()
    for cell in CELLS:
        assert _ran("".join(cell["source"]), known).split() == _shown(cell).split()
    assert Path("day.png").stat().st_size > 10_000


def test_the_page_is_the_notebook() -> None:
    assert blocks(PAGE, "python") == ["".join(cell["source"]) + "\n" for cell in CELLS]
    shown = [_shown(cell) + "\n" for cell in CELLS if cell["outputs"]]
    assert blocks(PAGE, "text") == shown
    texts = [one["source"] for one in NOTEBOOK["cells"] if one["cell_type"] == "markdown"]
    for text in texts[1:]:
        assert "".join(text) in PAGE


def test_the_notebook_holds_no_picture_and_nothing_of_a_machine() -> None:
    text = json.dumps(NOTEBOOK)
    assert not re.search(r"image/|/home/|/tmp/|/work/", text)
