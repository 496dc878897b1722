"""Takes the pictures of the dashboard: ``python -m docs.make.screenshots``, with Chromium.

The demo's fleet goes on until its first pump has an open event (two minutes), and is looked at.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).parents[1]
#: Each picture's page, and how high it is.
PAGES = {"device": ("pumps/devices/pump-1", 800), "fleet": ("pumps/", 510)}
PAGES["federation"] = ("pumps/federation", 800)
_WIDTH = 1280
# Milliseconds until the first pump has worn enough, and for a page to settle.
_WORN, _SETTLED = 300_000, 3_000


@contextmanager
def demo(folder: Path) -> Iterator[tuple[str, str]]:
    """Runs the demo until it goes on; gives the dashboard's address and the token."""
    words = [sys.executable, "-m", "elmgrove", "demo", "--live", "--output", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = ""
        while not (token := re.search(r"token:\s+(\S+)", said)):
            said += running.stdout.readline()
        address = re.search(r"Dashboard:\s+(\S+)", said)
        assert address is not None
        try:
            yield address[1], token[1]
        finally:
            running.terminate()


def take(page: "Page", address: str, token: str, folder: Path) -> None:
    """Logs in, waits for an event, and takes the pictures."""
    page.goto(address)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").first.click()
    page.wait_for_url(address)
    page.goto(f"{address}{PAGES['device'][0]}")
    page.get_by_text(re.compile(r"^Event \d+, since")).wait_for(timeout=_WORN)
    for name, (where, height) in PAGES.items():
        page.set_viewport_size({"width": _WIDTH, "height": height})
        page.goto(f"{address}{where}")
        # A chart is drawn, and the page has found out that it is live.
        page.wait_for_timeout(_SETTLED)
        page.screenshot(path=folder / f"dashboard-{name}.png")


def main(folder: Path = HERE) -> None:
    """Takes all of them into a folder."""
    from playwright.sync_api import sync_playwright  # takes a second, and is needed here alone

    with (
        TemporaryDirectory() as scratch,
        demo(Path(scratch)) as (address, token),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        take(browser.new_page(), address, token, folder)
        browser.close()


if __name__ == "__main__":
    main()
