"""A browser for tests: Chromium without a window, which fails a test for what a user would miss."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx
import pytest

from elmgrove.federation.charter import address_of
from elmgrove.federation.commands import Command
from elmgrove.federation.report import Report
from support.services import unavailable
from support.serving import ADMIN, Federation, Server, client

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


# Guests of the dashboard: who has a cookie and reads forms, as a browser does without scripts.


PASSWORD = "correct horse battery"


@dataclass
class Guest:
    """Somebody who looks at a server's pages; redirections to other pages are not followed."""

    http: httpx.Client

    def get(self, path: str, **headers: str) -> httpx.Response:
        answer = self.http.get(path, headers=headers)
        # An address without a range of time leads to the same with one.
        where = answer.headers.get("location", "")
        if where.partition("?")[0] != path.partition("?")[0]:
            return answer
        return self.http.get(where, headers=headers)

    def read(self, path: str) -> str:
        """The words of a page, without its elements."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", answer.text)))

    def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        stated = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return self.http.post(path, content=urlencode(fields), headers=stated)

    def login(self, token: str = ADMIN, **fields: str) -> httpx.Response:
        """By a token, or where a name is given by a password."""
        return self.post("/ui/login", fields if "name" in fields else {"token": token, **fields})

    @property
    def is_in(self) -> bool:
        answer = self.get("/ui/")
        assert answer.status_code in (200, 303)
        return answer.status_code == 200

    @property
    def csrf(self) -> str:
        """What the forms of this session hold."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/ui/").text)
        assert found is not None
        return found[1]

    def logout(self) -> httpx.Response:
        return self.post("/ui/logout", {"csrf": self.csrf})


@contextmanager
def guest(server: Server, token: str | None = None) -> Iterator[Guest]:
    """A guest, who has logged in where a token is given."""
    with client(server.base) as http:
        made = Guest(http)
        if token is not None:
            answer = made.login(token)
            assert (answer.status_code, answer.headers["location"]) == (303, "/ui/"), answer.text
        yield made


def tell(federation: Federation, told: Report) -> list[Command]:
    """Lets a device tell a server how it is doing, as its agent does; gives what it is asked."""
    answer = try_to_tell(federation, told)
    assert answer.status_code == 200, answer.text
    return [Command.from_fields(one) for one in answer.json()["commands"]]


def try_to_tell(federation: Federation, told: Report) -> httpx.Response:
    where, key = f"/reports/{address_of(told.device)}", federation.keys[told.device]
    return federation.ask("PUT", where, key, json=told.fields)
