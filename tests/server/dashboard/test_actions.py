"""Every button of the dashboard clicked in a browser, and every page as a screen reader has it."""

import re
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.contribution import Contribution
from elmgrove.server.dashboard.fleet_page import AT_ONCE
from elmgrove.server.dashboard.rendering import RANGES, iso
from support.dashboard import PASSWORD, Windows, tell
from support.factories import normal_rows
from support.places import ROOT
from support.reports import cooperation, event, minute, report, status
from support.serving import ADMIN, Federation, Server, charter, fan_evidence

if TYPE_CHECKING:
    from playwright.sync_api import Page

TEMPLATES = ROOT / "src/elmgrove/server/dashboard/templates"
NOW = round(time.time())
#: What a screen reader must be able to call by a name.
NAMED = "button|link|textbox|searchbox|combobox|checkbox|img|table|navigation|region"


def controls() -> set[str]:
    """What can be clicked to do something, or to see something else, by the templates."""
    found = set(RANGES) | {"Hold"}
    for path in TEMPLATES.iterdir():
        text = path.read_text()
        for inside in re.findall(r"<button[^>]*>(.*?)</button>", text):
            # A choice of two, what a macro is called with, or a text.
            if "{{ title }}" in inside:
                found |= set(re.findall(r'asks\("\w+", [\w.]+, "([^"]+)"', text))
            else:
                found |= set(re.findall(r'"([A-Z][^"]+)"', inside)) or {inside}
        plain = re.sub(r"{{.*?}}|{%.*?%}", "", text)
        found |= set(re.findall(r'class="button[^"]*"[^>]*>([^<]+)<', plain))
        found |= set(re.findall(r"<summary>([^<]+)<", text))
    return found


class Hand:
    """What somebody clicks on a page, by the words on it."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.clicked = set[str]()

    def click(self, name: str, then: str = "", within: str = "body") -> None:
        """Clicks on what has this name, and waits for the address or for the text that follows."""
        self.clicked.add(name)
        place = self.page.locator(within)
        found = place.locator("button, a, summary").filter(
            has_text=re.compile(f"^{re.escape(name)}$")
        )
        found.first.click()
        if then.startswith("**"):
            self.page.wait_for_url(then)
        elif then:
            self.page.get_by_text(then).first.wait_for()


def asked(fans: Federation, name: str, **more: object) -> list[tuple[str, dict[str, object]]]:
    """What a device is asked to do since it told something the last time."""
    found: list[Command] = tell(fans, full_report(name, **more))
    done = tuple(CommandResult(one.id, time.time(), False, ("done",)) for one in found)
    tell(fans, full_report(name, **more, results=done))
    return [(one.action, one.words) for one in found]


def full_report(name: str, **more: object) -> object:
    """A device that has all there is to answer: two events, rows that wait, and a question."""
    events = (
        event(1, iso(NOW - 900), end=iso(NOW - 800)),
        event(2, iso(NOW - 600), end=iso(NOW - 500)),
    )
    said = {"action": "accept", "event": 9, "text": "event 9: fine (mqtt); 3 rows learned"}
    doing = status(drift={"text": "flow is 26 % higher"}, quarantine=7, state="changing")
    doing |= {"answers": [said], "undoable": True}
    known = {"status": doing, "events": events, "minutes": (minute(NOW // 60 - 2),)}
    row = {"time": NOW - 600.0, "score": 9.5, "values": {"flow": 22.0}}
    known |= {"cooperation": cooperation(), "quarantine": (row,)}
    return report(name, time.time(), **(known | more))


@pytest.fixture(name="fans", scope="module")
def fans_fixture(server: Server) -> Federation:
    """More devices than a page shows, and so more records."""
    made = server.found(charter("fans", merged=False))
    made.enrol(*(f"fan-{n:03}" for n in range(AT_ONCE + 1)))
    for n in range(2):
        answer = made.put(Contribution(f"fan-{n:03}", 200, (fan_evidence(normal_rows(n, 200)),)))
        assert answer.status_code == 200, answer.text
    return made


def test_each_button_does_what_it_says(server: Server, fans: Federation, windows: Windows) -> None:
    """One after another, so that at the end it can be said that none was forgotten."""
    server.administrator("ada", "manage")
    words = {"password": PASSWORD}
    server.ask("PUT", "/v1/administrators/ada/password", ADMIN, json=words)
    page = windows.open(server.base)
    hand = Hand(page)
    page.goto("/ui/login")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    hand.click("Log in", "**/ui/", within="form:has(#password)")
    assert not page.evaluate("document.cookie"), "no script can read it"
    hand.click("Log out", "You have logged out")
    page.go_back()
    page.wait_for_url("**/ui/login**")
    page.get_by_label("Token").fill(ADMIN)
    hand.click("Log in", "**/ui/", within="form:has(#token)")
    _look_at_the_fleet(hand)
    _answer(hand, fans)
    _take_out(hand, fans)
    page.get_by_role("link", name="Federation", exact=True).click()
    hand.click("A new token…")
    hand.click("Make a new token", "The new token, shown this once")
    command = page.locator("pre code")
    token = command.inner_text().split()[0].removeprefix("ELMGROVE_DEVICE_TOKEN=")
    wide = command.evaluate("one => one.parentElement.scrollWidth - one.parentElement.clientWidth")
    assert wide == 0, "all of it can be seen"
    joined = fans.ask("POST", "/devices", token, json={"name": "by the new token"})
    assert joined.status_code == 201, joined.text
    page.get_by_role("link", name="Audit").click()
    hand.click("Older", "**before=**")
    hand.click("Newest", "token renewed")
    assert hand.clicked == controls(), "a button that nobody clicked may do nothing"


def _look_at_the_fleet(hand: Hand) -> None:
    page = hand.page
    page.get_by_role("link", name="fans", exact=True).click()
    page.wait_for_url("**/ui/fans/?from=now-24h&to=now")
    for name, begin in RANGES.items():
        hand.click(name, f"**from={begin}&to=now")
        assert page.locator(".ranges [aria-current]").inner_text() == name
    hand.click("Hold", "**from=20**to=20**")
    assert page.locator("#live").count() == 0, "what is held does not change"
    page.go_back()
    page.locator("#sort").select_option("name", force=True)
    page.wait_for_url("**sort=name**")
    hand.click("Next", "fan-100")
    hand.click("Previous", "fan-000")
    page.get_by_label("Search devices by name").fill("fan-000")
    hand.click("Search", "**search=fan-000**")
    page.get_by_role("link", name=re.compile("No report")).click()
    page.wait_for_url("**state=unreported**")
    page.locator("tbody th a").click()
    page.wait_for_url("**/devices/fan-000?from=now-7d&to=now")


def _answer(hand: Hand, fans: Federation) -> None:
    """All that can be said of a device reaches it."""
    page, name = hand.page, "fan-000"
    assert asked(fans, name) == []
    page.get_by_text("Has something changed for good?").wait_for()
    hand.click("The same as a table", "Typical score")
    second = {"from": NOW - 600.0, "to": pytest.approx(NOW - 500, abs=1)}
    for title, within, command in (
        ("That is normal too", ".question", ("accept", {})),
        ("That is the normal from now on", ".question", ("accept", {"instead": True})),
        ("It is a fault", ".question", ("reject", {})),
        ("That was fine", "#event-2", ("accept", second)),
        ("It was a fault", "#event-1", ("reject", {"event": 1})),
        ("All of it was fine", "#waiting", ("accept", {})),
        ("All of it was a fault", "#waiting", ("reject", {})),
        ("Undo the last answer", "#commands", ("undo", {})),
    ):
        before = page.locator("#commands ol li").count()
        hand.click(title, within=within)
        page.locator(f"#commands ol li:nth-child({before + 1})").wait_for()
        action, words = asked(fans, name)[-1]
        assert action == command[0], title
        assert command[1] is None or words == command[1], title
    assert page.locator("article .said").count() == 2


def _take_out(hand: Hand, fans: Federation) -> None:
    page, name = hand.page, "fan-000"
    hand.click("Leave it out…", f"Leave {name} out?")
    hand.click("Change nothing", "Take it out")
    assert fans.entries()[name]["left"] is False
    hand.click("Leave it out…", f"Leave {name} out?")
    hand.click("Leave it out", "taken back")
    assert fans.entries()[name]["left"] is True
    hand.click("Revoke its key…", f"Revoke the key of {name}?")
    hand.click("Revoke its key", "It was revoked, so no answer from here reaches it.")
    assert ("administrator root", "revoked") in fans.told()
    assert page.get_by_role("button").all_inner_texts() == ["Log out"]


def test_a_screen_reader_has_a_name_for_all_that_is_there(
    server: Server, fans: Federation, windows: Windows
) -> None:
    tell(fans, full_report("fan-001"))
    page = windows.open(server.base)
    page.goto("/ui/login")
    read = {"/ui/login": page.locator("body").aria_snapshot()}
    page = windows.logged_in(server)
    where = ("", "?search=nobody", "devices/fan-001", "devices/fan-001?do=revoke")
    where += ("devices/fan-002", "federation", "audit")
    for path in ["/ui/", *(f"/ui/fans/{one}" for one in where)]:
        page.goto(path)
        for closed in page.locator("summary").all():
            closed.click()
        read[path] = page.locator("body").aria_snapshot()
    for path, text in read.items():
        assert not re.findall(rf"^ *- (?:{NAMED})(?: \[[^\]]*\])?:?$", text, re.M), (path, text)
        levels = [int(level) for level in re.findall(r"heading .*\[level=(\d)\]", text)]
        assert levels[0] == 1, (path, levels)
        assert levels.count(1) == 1, (path, levels)
        assert all(after <= before + 1 for before, after in pairwise(levels)), (path, levels)
    device = read["/ui/fans/devices/fan-001"]
    assert 'img "Scores and threshold over time; the table below has the numbers"' in device
    assert 'table "Scores by hour"' in device
    assert 'img "2 events: ' in read["/ui/fans/"]
    assert 'img "Contributions over time, 2 in all"' in read["/ui/fans/audit"]
