"""The dashboard in a browser: login, the fleet with its keys, live, on a phone, without scripts."""

import re
import time
from typing import TYPE_CHECKING

import pytest

from elmgrove.server.dashboard.rendering import iso
from support.dashboard import Windows, tell
from support.reports import event, report, status
from support.serving import Federation, Server, charter

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

NASTY = "<img src=x onerror=alert(1)>"
#: By how much a page is wider than its window.
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: How many tables that scroll have a head that lies over their first line.
COVERED = """[...document.querySelectorAll('.scroll table')].filter((one) =>
    one.tHead.rows[0].cells[0].getBoundingClientRect().bottom
    > one.tBodies[0].rows[0].getBoundingClientRect().top + 2).length"""


@pytest.fixture(name="pumps")
def pumps_fixture(server: Server) -> Federation:
    """Three devices: one is anomalous, one learns, one watches."""
    made, now = server.found(charter()), time.time()
    made.enrol("pump-1", "pump-2", f"press {NASTY}")
    opened = event(1, iso(now - 900), text=NASTY)
    tell(made, report("pump-1", now, status=status(learned=500)))
    tell(made, report("pump-2", now, status=status(state="learning", learned=20)))
    anomalous = report(f"press {NASTY}", now, status=status(event={"number": 1}), events=(opened,))
    tell(made, anomalous)
    return made


def until(page: "Page", expected: list[str]) -> None:
    """Waits until the table has these lines."""
    page.wait_for_function(
        "expected => JSON.stringify([...document.querySelectorAll('tbody th a')]"
        ".map(one => one.textContent)) === JSON.stringify(expected)",
        arg=expected,
    )


def test_a_page_is_live_however_slow_its_scripts_come(
    server: Server, pumps: Federation, windows: Windows
) -> None:
    page = windows.logged_in(server)

    def hold(route: "Route") -> None:
        time.sleep(0.5)  # long enough for a script that does not wait for this one to begin
        route.continue_()

    page.route("**/hx-sse*", hold)
    page.goto(f"/ui/{pumps.charter.name}/devices/pump-1")
    page.locator("#live.on").wait_for()


def test_the_fleet_is_searched_filtered_and_sorted_by_mouse_and_by_keys(
    server: Server, pumps: Federation, windows: Windows
) -> None:
    page = windows.logged_in(server)
    page.get_by_role("link", name=pumps.charter.name, exact=True).click()
    press = f"press {NASTY}"
    until(page, [press, "pump-2", "pump-1"])
    # A search needs no new page.
    page.evaluate("window.same = true")
    page.keyboard.press("/")
    page.keyboard.type("PUMP")
    until(page, ["pump-2", "pump-1"])
    assert "search=PUMP" in page.url
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "pump-1"
    assert page.evaluate("window.same")
    page.keyboard.press("/")
    page.keyboard.press("Backspace")
    until(page, [press, "pump-2", "pump-1"])
    page.get_by_role("link", name=re.compile("Learning")).click()
    until(page, ["pump-2"])
    page.get_by_role("link", name=re.compile("^All")).click()
    page.get_by_role("columnheader", name="Rows learned").get_by_role("link").click()
    until(page, [press, "pump-1", "pump-2"])
    page.get_by_role("columnheader", name="Rows learned").get_by_role("link").click()
    until(page, ["pump-2", "pump-1", press])
    header = page.get_by_role("columnheader", name="Rows learned")
    assert header.get_attribute("aria-sort") == "ascending"


def test_the_page_changes_when_a_device_tells_something(
    server: Server, pumps: Federation, windows: Windows
) -> None:
    page = windows.logged_in(server)
    page.goto(f"/ui/{pumps.charter.name}/?sort=name")
    page.locator("#live.on").wait_for()
    page.evaluate("window.same = true")
    line = page.get_by_role("row", name=re.compile("pump-1"))
    assert "Watching" in line.inner_text()
    # What somebody has begun to type, and where they are, stays.
    page.locator("#search").fill("")
    now = time.time()
    opened = event(7, iso(now - 120))
    tell(pumps, report("pump-1", now, status=status(event={"number": 7}), events=(opened,)))
    line.get_by_text("Anomalous").wait_for()
    assert "since" in line.locator("svg title").first.text_content()
    pumps.enrol("pump-3")
    page.get_by_role("link", name="pump-3").wait_for()
    assert page.evaluate("window.same"), "it is the same page"
    # Another window of the same session ends it: this one is led to the login.
    other = page.context.new_page()
    other.goto("/ui/")
    other.get_by_role("button", name="Log out").click()
    other.wait_for_url("**/ui/login?out")
    pumps.enrol("pump-4")
    page.bring_to_front()
    page.wait_for_url("**/ui/login?next=**")


@pytest.mark.parametrize("how", ["phone", "no script"])
def test_pages_work_on_a_phone_and_without_scripts(
    server: Server, pumps: Federation, windows: Windows, how: str
) -> None:
    phone = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
    page = windows.logged_in(
        server, **(phone if how == "phone" else {"java_script_enabled": False})
    )
    for where in ("devices/pump-1", "federation", "audit", ""):
        page.goto(f"/ui/{pumps.charter.name}/{where}")
        page.locator("main h1").wait_for()
        assert how != "phone" or page.evaluate(WIDE) == 0, f"nothing sticks out of {where}"
    page.get_by_label("Search devices by name").fill("pump")
    if how == "phone":
        until(page, ["pump-2", "pump-1"])
        page.get_by_label("Sort by").select_option("Device")
        until(page, ["pump-1", "pump-2"])
    else:
        page.get_by_role("button", name="Search").click()
        page.wait_for_url("**search=pump**")
        assert page.locator("tbody th a").all_inner_texts() == ["pump-2", "pump-1"]
    page.get_by_role("link", name="Federation", exact=True).click()
    page.get_by_text("A new token…").click()
    page.get_by_role("button", name="Make a new token").click()
    page.get_by_text("_TOKEN=elm-join-").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/ui/login?out")


@pytest.mark.parametrize("width", [360, 1280])
def test_long_names_and_causes_stick_out_of_no_page(
    server: Server, windows: Windows, width: int
) -> None:
    made, name, now = server.found(charter()), "x" * 120, time.time()
    made.enrol(name)
    cause = {"feature": "w" * 200, "share": 0.9, "seen": 1e300, "expected": -1e-300, "ago": 0}
    opened = event(1, iso(now - 900), causes=[cause])
    anomalous = status(event={"number": 1}, learned=10**15)
    tell(made, report(name, now, status=anomalous, events=(opened,)))
    page = windows.logged_in(server, viewport={"width": width, "height": 740})
    for where in ("", f"devices/{name}", "federation", "audit"):
        page.goto(f"/ui/{made.charter.name}/{where}")
        page.locator("main h1").wait_for()
        assert page.evaluate(WIDE) == 0, f"nothing sticks out of {where}"
        assert page.evaluate(COVERED) == 0, f"no line of {where} is hidden by a head"
