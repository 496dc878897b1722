"""What the page about pictures and evaluation shows is what happens."""

import re
from pathlib import Path

import pytest
from matplotlib.image import imread

from support.pages import WRITE, play, steps_of
from support.places import ROOT
from support.shells import Shell

PAGE = (ROOT / "docs" / "look.md").read_text()
STEPS = steps_of(PAGE)


def test_its_commands_print_and_draw_what_it_shows(tmp_path: Path) -> None:
    played = play(PAGE, Shell(tmp_path).take)
    if WRITE:
        (ROOT / "docs" / "look.md").write_text(played)
    drawn, kept = (imread(base / "look-plot.png") for base in (tmp_path, ROOT / "docs"))
    assert drawn.shape == pytest.approx(kept.shape, abs=20)
    assert (ROOT / "docs" / "look-plot.png").stat().st_size < 150_000


def test_each_picture_of_the_page_is_made_by_a_command_on_it() -> None:
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE)
    assert sorted(shown) == ["look-plot.png"]
    commands = " ".join(step.source for step in STEPS)
    assert all(name in commands for name in shown)
    assert all((ROOT / "docs" / name).exists() for name in shown)
