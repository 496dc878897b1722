"""What the README shows is what happens: its commands and its programs are run here."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.demo import Demo
from support.pages import blocks, commands_in, require_same
from support.places import ROOT
from support.shells import PATIENCE, Shell

README = (ROOT / "README.md").read_text()
PROGRAMS = ("two_devices.py",)


def _commands() -> Iterator[tuple[str, str]]:
    """Each command but ``make`` and what the README shows that it prints."""
    for block in blocks(README, "console"):
        yield from (one for one in commands_in(block) if not one[0].startswith("make"))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    opened = Shell(tmp_path)
    yield opened
    opened.close()


def test_the_commands_print_what_the_readme_shows(shell: Shell) -> None:
    ran = 0
    for command, shown in _commands():
        require_same(command, shell.run(command), shown)
        ran += 1
    assert ran >= 8


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_readme_shows_the_program_as_it_is(name: str) -> None:
    assert (ROOT / "examples" / name).read_text().split('"""\n\n', 1)[1] in blocks(README, "python")


def test_the_page_of_your_own_loop_shows_its_example_as_it_is() -> None:
    page = (ROOT / "docs" / "own-loop.md").read_text()
    example = (ROOT / "examples" / "own_loop.py").read_text()
    assert example.split('"""\n\n', 1)[1] in blocks(page, "python")


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 140


def test_the_readme_shows_no_other_program() -> None:
    assert len(blocks(README, "python")) == len(PROGRAMS)


def test_the_program_prints_what_the_readme_shows() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "two_devices.py"],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout in blocks(README, "text")


def _pieces(text: str) -> tuple[str, list[float]]:
    """The words of what the demo prints, with # for each number, and the numbers."""
    # Rounding is the machine's own. Where the fleet goes on, rows lead up to now.
    words = re.sub(r"to (the last bit|\d+e-\d+)", "to rounding", " ".join(text.split()))
    words = re.sub(r"(\d{4}-\d\d-\d\d )?\b\d\d:\d\d\b", "then", words)
    numbers = re.findall(r"(?<![\w-])\d[\d,]*(?:\.\d+)?", words)
    return re.sub(r"(?<![\w-])\d[\d,]*(?:\.\d+)?", "#", words), [
        float(number.replace(",", "")) for number in numbers
    ]


def test_the_demo_prints_what_the_readme_shows(demo: Demo) -> None:
    shown = [part for part in blocks(README, "text")[0].split("\n\n") if part]
    assert len(shown) == 3
    printed, values = _pieces(demo.text)
    for part in shown:
        words, wanted = _pieces(part)
        assert printed.count(words) == 1, words
        first = printed[: printed.index(words)].count("#")
        found = values[first : first + len(wanted)]
        # A few rows differ from run to run.
        assert found == [pytest.approx(value, rel=0.1, abs=3.0) for value in wanted]
