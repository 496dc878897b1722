"""Chromium looks on: how soon live pages show what a device told, and commands are done."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.dashboard.told_fleet import report_of
from benchmarks.exchange.fleet import FEDERATION, TOKEN, name_of
from elmgrove.errors import require_extra
from elmgrove.exchange.session import open_exchange

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request

#: A device that tells something whenever it is to be seen how soon pages show it.
PROBE = "probe"
# It runs as root in a container, with little shared memory and no graphics.
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
_PATIENCE = 60_000
_SHOWN = "([where, text]) => document.querySelector(where)?.textContent.includes(text)"


class Onlookers:
    """Windows of one session: the whole fleet, the probe among the fleet, and the probe's page.

    Each device that is asked has a session of its own: a browser has six connections to a server.
    """

    def __init__(self, browser: "Browser", base: str, token: str, folder: Path) -> None:
        self._browser, self._base, self._token = browser, base, token
        self.faults = list[str]()
        #: Milliseconds that the live page of the fleet took, each time it was loaded again.
        self.reloads = list[float]()
        self._context = self._session()
        url, keys = f"{base}/{FEDERATION}", folder / "probe.key"
        self._exchange = open_exchange(url, PROBE, token=TOKEN, keyfile=keys)
        self._learned = 100
        self._tell()
        self._fleet = self._open(self._context, "")
        self._fleet.on("requestfinished", self._reloaded)
        self._line = self._open(self._context, f"?search={PROBE}")
        self._device = self._open(self._context, f"devices/{PROBE}?from=now-1h&to=now")
        self._asked = dict[str, tuple["Page", float]]()
        #: Seconds from a click until the page said that the device had done it.
        self.commands = dict[str, float]()

    def shown_after(self, where: str) -> float:
        """Tells something and waits until a page shows it: the ``fleet`` or the ``device``."""
        shown = {"fleet": (self._line, "td.c-learned"), "device": (self._device, "#top .lead")}
        page, place = shown[where]
        text = str(self._tell())
        begin = time.perf_counter()
        page.wait_for_function(_SHOWN, arg=[place, text])
        return time.perf_counter() - begin

    def ask(self, device: int) -> None:
        """Clicks on an event of a device: that was fine."""
        page = self._open(self._session(), f"devices/{name_of(device)}?from=now-1h&to=now")
        page.get_by_role("button", name="That was fine").first.click()
        page.get_by_text("waits for the device's next sync").first.wait_for()
        page.locator("#live.on").wait_for()
        self._asked[name_of(device)] = page, time.perf_counter()

    def look(self) -> bool:
        """Notes which commands the pages show as done; says whether all are."""
        for name, (page, begin) in self._asked.items():
            if name not in self.commands and page.locator("p.said", has_text=": done").count():
                self.commands[name] = time.perf_counter() - begin
                page.close()
        return self.commands.keys() == self._asked.keys()

    @property
    def asked(self) -> int:
        """How many commands were asked."""
        return len(self._asked)

    def picture(self, path: Path) -> None:
        """Takes a picture of the fleet as it is now."""
        self._fleet.screenshot(path=path)

    def _tell(self) -> int:
        """Tells of the probe; gives a number that pages show, and returns when it was taken."""
        self._learned += 1
        told = report_of(PROBE, 0, time.time(), (), (), learned=self._learned)
        self._exchange.report(told)
        return self._learned

    def _session(self) -> "BrowserContext":
        """Logs in, as somebody at another machine would."""
        context = self._browser.new_context(base_url=self._base)
        context.set_default_timeout(_PATIENCE)
        context.on("page", self._listen)
        page = context.new_page()
        page.goto("/ui/login")
        page.get_by_label("Token").fill(self._token)
        page.get_by_role("button", name="Log in").first.click()
        page.wait_for_url("**/ui/")
        page.close()
        return context

    def _open(self, context: "BrowserContext", path: str) -> "Page":
        page = context.new_page()
        page.goto(f"/ui/{FEDERATION}/{path}")
        page.locator("#live.on").wait_for()
        return page

    def _listen(self, page: "Page") -> None:
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", lambda said: self._hear(said.type, said.text))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(f"{kind}: {text}")

    def _reloaded(self, request: "Request") -> None:
        if request.url.startswith(f"{self._base}/ui/{FEDERATION}/") and "/live" not in request.url:
            self.reloads.append(float(request.timing["responseEnd"]))


@contextmanager
def looking_on(base: str, token: str, folder: Path) -> Iterator[Onlookers]:
    """Opens Chromium without a window, with live pages in it."""
    playwright: Any = require_extra("playwright.sync_api", "dev")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=_ARGUMENTS)
        try:
            yield Onlookers(browser, base, token, folder)
        finally:
            browser.close()
