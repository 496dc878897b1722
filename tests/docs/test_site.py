"""The site that ``make docs`` builds: strict links, all pages there, and nothing from elsewhere."""

import functools
import http.server
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.make.__main__ import ZENSICAL, build
from docs.make.check import faults_of
from docs.make.pages import linked

from support.places import ROOT
from support.services import unavailable

#: Pages of every kind: with pictures, tables, programs, and those that are made. What the others
#: fetch, the check of the site has read.
SEEN = ("index", "watch-my-pump", "pictures", "results", "commands", "api-elmgrove", "readme")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not ZENSICAL.exists():
        unavailable("needs Zensical: make docs installs it")
    return build(tmp_path_factory.mktemp("docs"))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_browser_asks_nobody_else_and_has_nothing_to_complain_about(
    site: Path, address: str
) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        unavailable("needs Chromium")
    from playwright.sync_api import sync_playwright  # takes a second, and is needed here alone

    asked, complaints = list[str](), list[str]()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for name in SEEN:
            page.goto(f"{address}/{name}.html")
        # The search is part of it: it has an index, and a worker that reads that.
        page.keyboard.press("/")
        page.get_by_role("combobox", name="Search").fill("quarantine")
        page.get_by_text(re.compile(r"^\d+ results$")).wait_for()
        browser.close()
    assert not [one for one in asked if not one.startswith((address, "blob:", "data:"))]
    assert complaints == []
    assert len(asked) > 5 * len(SEEN)


def test_the_reference_is_made_of_the_program(site: Path) -> None:
    def text(name: str) -> str:
        return (site / f"{name}.html").read_text()

    assert "--label-spans" in text("commands")
    assert "ELMGROVE_DEVICE_SOURCE" in text("settings")
    assert "/v1/federations/{federation}/entries" in text("http")
    assert 'id="elmgrove.Detector.learn_many"' in text("api-elmgrove")
    assert 'id="single-files"' in text("examples")


# The check itself


def _page(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"<html><body id='top'>{body}</body></html>")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="lost.html">x</a>', "b.html links to lost.html, which is not there"),
        ('<a href="index.html#no">x</a>', "but that page has no such anchor"),
        ('<img src="lost.png">', "b.html fetches lost.png, which is not there"),
        ('<script src="https://cdn.example/x.js"></script>', "b.html fetches https://cdn.example"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "from elsewhere"),
        ("", "b.html has no way back to the first page"),
    ],
)
def test_what_is_wrong_with_a_site_is_found(tmp_path: Path, body: str, fault: str) -> None:
    back = '<a href="index.html#top">up</a>'
    _page(tmp_path, "index.html", f'{back}<a href="b.html">b</a>')
    _page(tmp_path, "b.html", back)
    assert faults_of(tmp_path) == []
    _page(tmp_path, "b.html", body and back + body)
    [found] = faults_of(tmp_path)
    assert fault in found


def test_a_page_that_nobody_links_to_and_a_style_sheet_are_found(tmp_path: Path) -> None:
    _page(tmp_path, "index.html", '<a href="index.html">up</a>')
    _page(tmp_path, "lost.html", '<a href="index.html">up</a>')
    (tmp_path / "a.css").write_text("body { background: url(https://cdn.example/a.png) }")
    assert faults_of(tmp_path) == ["lost.html can't be reached", "a.css fetches from elsewhere"]


def test_links_out_of_the_docs_hold_on_the_site() -> None:
    page = (
        "[a](../README.md#speed) [b](../examples/device.toml) [c](../examples/grafana) [d](look.md)"
    )
    assert linked(page, ROOT / "docs") == (
        "[a](readme.md#speed) [b](examples/device.toml) [c](examples.md#grafana) [d](look.md)"
    )
    assert linked("[a](docs/look.md) `[b](docs/x.md)`", ROOT) == "[a](look.md) `[b](docs/x.md)`"
