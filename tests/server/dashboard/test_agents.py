"""The dashboard in a browser with real agents: an event comes, is explained, answered, and done."""

import re
from pathlib import Path

import numpy as np

from support.agents import NAMES, Start, append_rows, flags
from support.dashboard import Windows
from support.factories import normal_rows, write_rows
from support.serving import LAYER, Server, charter


def test_an_event_of_a_real_agent_is_shown_live_answered_with_a_click_and_done(
    server: Server, windows: Windows, start: Start, tmp_path: Path
) -> None:
    fans = server.found(charter(merged=False))
    name, agents = fans.charter.name, []
    for number in (1, 2):
        source = write_rows(tmp_path / f"fan-{number}.csv", normal_rows(number, 500), NAMES)
        given = flags(
            {
                "name": f"fan-{number}",
                "state": tmp_path / f"fan-{number}.elm",
                "source": source,
                "follow": True,
                "exchange": f"{server.base}/{name}",
                "token": fans.token,
                "verdicts": tmp_path / f"fan-{number}.jsonl",
                "sync_seconds": 0.5,
            }
        )
        agents.append(start("device", "run", *given, label=f"fan-{number}"))
    for agent in agents:
        agent.logs("watching")
        agent.logs("uses fan-")
    page = windows.logged_in(server)
    page.goto(f"/ui/{name}/devices/fan-1?from=now-1h&to=now")
    page.locator("#live.on").wait_for()
    page.locator("#chart canvas").wait_for()
    page.get_by_text("No event in this time.").wait_for()
    page.evaluate("window.same = true")
    # A sensor is off by twelve deviations.
    append_rows(tmp_path / "fan-1.csv", normal_rows(3, 20) + 12.0 * (np.arange(LAYER.inputs) == 1))
    event = page.locator("article.event").first
    event.get_by_text(re.compile(r"column 1 was .* where .* was to be expected")).first.wait_for()
    event.get_by_role("button", name="That was fine").click()
    event = page.locator("article.event").first
    event.get_by_text(re.compile(r"root said it was fine: done")).wait_for()
    agents[0].logs("accept, asked by root on the server")
    page.locator("#commands").get_by_role("button", name="Undo the last answer").click()
    agents[0].logs("undo, asked by root on the server")
    event = page.locator("article.event").first
    event.get_by_role("button", name="It was a fault").click()
    agents[0].logs("reject, asked by root on the server")
    page.locator("article.event").first.get_by_text("Answered: a fault (root on the").wait_for()
    page.get_by_text("The same as a table").click()
    assert page.locator("#scores-table tbody tr").count() >= 1
    page.goto(f"/ui/{name}/audit")
    page.get_by_role("heading", name="All records").wait_for()
    page.goto(f"/ui/{name}/federation")
    page.get_by_role("heading", name="Who explains whom").wait_for()
    assert page.locator("table.heat tbody tr").count() == 2
    page.goto(f"/ui/{name}/devices/fan-2")
    page.get_by_role("link", name="Revoke its key").click()
    page.get_by_role("button", name="Revoke its key").click()
    page.get_by_text("Revoked").first.wait_for()
    agents[1].logs("revoked")
