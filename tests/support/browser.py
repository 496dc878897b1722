"""A browser for tests: Chromium without a window, which fails a test for what a user would miss."""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from support.services import unavailable
from support.serving import ADMIN, Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: It runs as root in a container, with little shared memory and no graphics.
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
#: Milliseconds that anything may take on a machine that is busy with other tests.
PATIENCE = 60_000


class Windows:
    """Windows of a browser, and all that went wrong in them."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self.faults = list[str]()

    def open(self, base: str, **how: Any) -> "Page":
        """An empty window of somebody who has not logged in; ``how`` as Playwright takes it."""
        context = self._browser.new_context(base_url=base, **how)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: self._see(base, request.url))
        return page

    def logged_in(self, server: Server, token: str = ADMIN, **how: Any) -> "Page":
        """A window of an administrator, who is shown all federations."""
        page = self.open(server.base, **how)
        page.goto("/ui/login")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").first.click()
        page.wait_for_url("**/ui/")
        return page

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(f"{kind}: {text}")

    def _see(self, base: str, url: str) -> None:
        if not url.startswith(f"{base}/"):
            self.faults.append(f"asked another host: {url}")

    def close(self) -> None:
        for context in self._browser.contexts:
            context.close()


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """A browser for all tests of a module.

    Not of a session: while it is there, no loop of asyncio can run in this thread.
    """
    path = shutil.which("chromium")
    if path is None or find_spec("playwright") is None:
        unavailable("needs Chromium and Playwright: run .ci/chromium make test, or install them")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def windows(chromium: "Browser") -> Iterator[Windows]:
    """Windows for one test, which fails for an error in one's console or a request to others."""
    made = Windows(chromium)
    yield made
    made.close()
    assert made.faults == []
