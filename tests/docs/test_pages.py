"""What the pages for users show is what happens: every block is run, in order, page by page.

ELMGROVE_TEST_WRITE_PAGES=1 writes what commands print now into the pages instead; look at it.
"""

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # which the validator of OpenAPI brings

from elmgrove.device.settings import read_settings
from support.pages import WRITE, blocks_of, play
from support.places import ROOT
from support.shells import Shell

DOCS = ROOT / "docs"
#: Pages whose blocks other tests run: test_look.py, test_mqtt_page.py and test_notebook.py.
ELSEWHERE = {"look", "mqtt", "notebook"}
#: All others: every block is run here, or says why it is not.
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
PLAYED = [name for name in PAGES if name not in ELSEWHERE]
TELEGRAF = tomllib.loads((ROOT / "examples" / "telegraf" / "telegraf.conf").read_text())


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    opened = Shell(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", PLAYED)
def test_each_command_prints_what_the_page_shows(shell: Shell, tmp_path: Path, name: str) -> None:
    path = DOCS / f"{name}.md"
    page = path.read_text()
    for block in blocks_of(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
    played = play(page, shell.take)
    if WRITE:
        path.write_text(played)


@pytest.mark.parametrize("name", PAGES)
def test_each_block_is_run_or_read_or_says_why_not(tmp_path: Path, name: str) -> None:
    before = ""
    for block in blocks_of((DOCS / f"{name}.md").read_text()):
        if block.language == "toml":
            _require_settings(block.text, tmp_path / "device.toml")
        elif block.language == "yaml":
            assert isinstance(yaml.safe_load(block.text), dict)
        elif block.language == "text":
            assert before == "python" or block.not_run, block.text
        else:
            assert block.language in ("console", "python"), block.language
        before = block.language


def _require_settings(text: str, path: Path) -> None:
    """Fails unless these are settings of the agent, or a part of the example for Telegraf."""
    said = tomllib.loads(text)
    if "processors" in said:
        [shown], [example] = (one["processors"]["execd"] for one in (said, TELEGRAF))
        assert shown.items() <= example.items()
    else:
        path.write_text(text)
        read_settings(path, {})
