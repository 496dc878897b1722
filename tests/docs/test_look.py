"""What the page about pictures and evaluation shows is what happens."""

import re
from pathlib import Path

import pytest
from matplotlib.image import imread

from support.commands import Elmgrove
from support.places import ROOT

PAGE = (ROOT / "docs" / "look.md").read_text()
#: What these say depends on their own releases.
OTHERS = ("HalfSpaceTrees", "ECOD", "IForest", "KNN", "PyOD", "River")


def _block(language: str, number: int) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found[number])


def _kept(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if not line.startswith(OTHERS)]


def test_its_commands_print_and_draw_what_it_shows(elmgrove: Elmgrove) -> None:
    exec(compile(_block("python", 0), "look.md", "exec"), {})
    for command in re.findall(r"^\$ elmgrove (.*)$", _block("console", 0), re.MULTILINE):
        assert elmgrove(*command.split()).code == 0
    command, _, shown = _block("console", 1).partition("\n")
    ran = elmgrove(*command.removeprefix("$ elmgrove ").split())
    assert ran.code == 0
    *before, last = _kept(ran.err)
    assert [*before, *_kept(ran.out), last] == _kept(shown)
    for name in ("look-plot.png", "look-evaluate.png"):
        assert imread(name).shape == pytest.approx(imread(ROOT / "docs" / name).shape, abs=20)
        assert (ROOT / "docs" / name).stat().st_size < 150_000


def test_each_picture_of_the_page_is_made_by_a_command_on_it() -> None:
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE)
    assert sorted(shown) == ["look-evaluate.png", "look-plot.png"]
    commands = _block("console", 0) + _block("console", 1)
    assert all(name in commands for name in shown)
    assert all((Path(ROOT) / "docs" / name).exists() for name in shown)
