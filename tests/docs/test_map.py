"""No page is lost: each is in the site's menu and in the index, and has a way back."""

import re
from pathlib import Path

import pytest
from docs.make import pictures
from docs.make.api import CHAPTERS, page_of
from docs.make.pages import BESIDE

from support.places import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
MENU = re.findall(r"^ +- .+: ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
#: Pages that are made of the program.
MADE = {"commands.md", "settings.md", "http.md", "examples.md", *map(page_of, CHAPTERS)}
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def _links(path: Path) -> list[tuple[str, str]]:
    """Where a page leads to: files, and anchors in them."""
    text = re.sub(r"`[^`\n]+`", "", FENCED.sub("", path.read_text()))
    return re.findall(r"\]\(([^)\s#:]*)(?:#([^)\s]*))?\)", text)


def _anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", path.read_text()), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {one.replace(" ", "-") for one in plain}


def test_the_menu_has_every_page_once() -> None:
    there = {path.name for path in PAGES} | {*BESIDE.values()} | MADE
    assert sorted(MENU) == sorted(there)


def test_the_index_has_every_page() -> None:
    linked = {target for target, _ in _links(DOCS / "index.md")}
    assert {path.name for path in PAGES} - {"index.md"} <= linked


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_page_has_a_way_back(path: Path) -> None:
    title, _, *lines = path.read_text().splitlines()[:4]
    assert title.startswith("# ")
    assert path.stem == "index" or lines[0].startswith("[Docs](index.md)")


@pytest.mark.parametrize(
    "path", [*PAGES, *(ROOT / name for name in BESIDE)], ids=lambda path: path.stem
)
def test_each_anchor_is_there(path: Path) -> None:
    for target, anchor in _links(path):
        page = path.parent / target if target else path
        if anchor and page.suffix == ".md":
            assert anchor in _anchors(page), f"{target}#{anchor}"


def test_the_pictures_are_what_the_program_draws(tmp_path: Path) -> None:
    pictures.main(tmp_path)
    for name in pictures.PICTURES:
        drawn, kept = ((base / f"pictures-{name}.svg").read_text() for base in (tmp_path, DOCS))
        assert NUMBER.sub("", drawn) == NUMBER.sub("", kept)
        both = ([float(one) for one in NUMBER.findall(text)] for text in (drawn, kept))
        # The last digit is the machine's own.
        assert next(both) == pytest.approx(next(both), abs=0.15)
        assert "<title>" in kept
        assert f"](pictures-{name}.svg)" in (DOCS / "pictures.md").read_text()
