"""The fleet's page: what each line says, what is asked for by its address, and text as text."""

import html
import re
import time
from dataclasses import replace

import numpy as np
import pytest

from elmgrove import Basis
from elmgrove.errors import BadInput
from elmgrove.server.dashboard.fleet_page import MEANINGS, WORDS
from elmgrove.server.dashboard.rendering import clock, iso
from elmgrove.server.store.fleet import FLEET_STATES
from support.dashboard import Guest, tell
from support.places import ROOT
from support.reports import event, minute, report, status
from support.serving import ADMIN, Federation, Server, charter, seeded_contribution, server_fixture

#: On each data base.
server = server_fixture

NASTY = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.fixture(name="mixed")
def mixed_fixture(server: Server) -> Federation:
    """Five devices that are not all alike; one tells nothing, and one was revoked."""
    made, now = server.found(charter()), time.time()
    made.enrol("calm", "anomalous", "new", "quiet", "gone")
    over = event(1, iso(now - 7200), end=iso(now - 3600), peak_at=iso(now - 7000))
    tell(made, report("calm", now, status=status(learned=12_345), events=(over,)))
    opened = event(2, iso(now - 600), peak=17.5)
    tell(made, report("anomalous", now, status=status(event={"number": 2}), events=(opened,)))
    tell(made, report("new", now, status=status(state="learning", learned=7)))
    made.ask("DELETE", "/devices/gone", ADMIN)
    return made


def fleet(ada: Guest, made: Federation, **query: str) -> str:
    answer = ada.http.get(f"/ui/{made.charter.name}/", params=query, follow_redirects=True)
    assert answer.status_code == 200, answer.text
    return answer.text


def lines(page: str) -> dict[str, str]:
    """The lines of the table by the device's name, in their order."""
    found = re.findall(r'<tr id="device-.*?</tr>', page, re.DOTALL)
    return {html.unescape(re.search(r"<a [^>]*>(.*?)</a>", one)[1]): one for one in found}


def links(page: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r'href="([^"]+)"', page)]


def test_each_line_says_how_a_device_is_doing(ada: Guest, mixed: Federation) -> None:
    found = lines(fleet(ada, mixed))
    assert list(found) == ["anomalous", "quiet", "new", "calm", "gone"], "what needs somebody first"
    for name, words in (
        ("anomalous", "Anomalous"),
        ("quiet", "No report"),
        ("new", "Learning"),
        ("calm", "Watching"),
        ("gone", "Revoked"),
    ):
        assert f"</svg>{words}</span>" in found[name]
    assert ">12,345<" in found["calm"]
    assert "1 event: " in found["calm"]
    assert 'class="was"' in found["calm"]
    assert "and not over, worst score 17.5" in found["anomalous"]
    assert 'class="is"' in found["anomalous"]
    assert "No events" in found["new"]
    assert ">just now</time>" in found["new"]
    assert ">never<" in found["quiet"]


def test_no_time_that_a_device_tells_takes_the_page_away(ada: Guest, mixed: Federation) -> None:
    last, end = 4_223_371_678, iso(253402300799.0)
    for events in ((event(7),), ()):
        told = report("calm", time.time(), minutes=(minute(last),), events=events)
        tell(mixed, told)
    tell(mixed, report("new", time.time(), events=(event(8, end), event(9, end, end=end))))
    assert "calm" in lines(fleet(ada, mixed))
    for name in ("calm", "new"):
        assert ada.get(f"/ui/{mixed.charter.name}/devices/{name}").status_code == 200
    with pytest.raises(BadInput):
        report(minutes=(minute(last + 1),))
    # What an earlier version kept is shown, too.
    assert (clock(253402300800.0), clock(-1e300)) == ("9999-12-31 23:59", "1-01-01 00:00")


def test_a_line_leads_to_its_device_with_the_range_of_time(ada: Guest, mixed: Federation) -> None:
    mixed.enrol("a b/ü#?")
    found = lines(fleet(ada, mixed, **{"from": "now-7d", "to": "now"}))
    where = f"/ui/{mixed.charter.name}/devices/a%20b%2F%C3%BC%23%3F?from=now-7d&to=now"
    assert where in links(found["a b/ü#?"])


def test_each_link_of_the_page_keeps_what_else_was_asked(ada: Guest, mixed: Federation) -> None:
    asked = {"search": "n", "sort": "name", "order": "down", "from": "now-1h", "to": "now"}
    page = fleet(ada, mixed, **asked)
    chips = [one for one in links(page) if one.startswith("?") and "state=" in one]
    assert len(chips) == 3
    for one in chips:
        assert ada.get(f"/ui/{mixed.charter.name}/{one}").status_code == 200
        assert all(f"{name}={value}" in one for name, value in asked.items())


def test_the_range_of_time_can_be_chosen_and_held(ada: Guest, mixed: Federation) -> None:
    page = fleet(ada, mixed, search="calm")
    assert "?search=calm&from=now-7d&to=now" in links(page)
    (held,) = [one for one in links(page) if re.search(r"from=\d{4}-.*to=\d{4}-", one)]
    shown = ada.get(f"/ui/{mixed.charter.name}/{held}").text
    assert "1 event: " in lines(shown)["calm"]
    assert "No events" in lines(fleet(ada, mixed, **{"from": "now-30m", "to": "now"}))["calm"]


def test_a_federation_without_devices_says_how_one_joins(ada: Guest, server: Server) -> None:
    made = server.found(charter())
    page = fleet(ada, made)
    assert "No device has joined yet" in page
    assert f"--exchange {server.base}/{made.charter.name}" in page


@pytest.mark.parametrize(
    "asked",
    [
        {"state": "no such"},
        {"sort": "password"},
        {"page": "0"},
        {"page": "-1"},
        {"page": "9" * 30},
        {"page": "²"},
        {"search": "x" * 201},
        {"search": "\0"},
        {"from": "yesterday"},
    ],
    ids=str,
)
def test_what_can_not_be_asked_is_refused_in_words(
    ada: Guest, mixed: Federation, asked: dict[str, str]
) -> None:
    answer = ada.http.get(f"/ui/{mixed.charter.name}/", params=asked, follow_redirects=True)
    assert answer.status_code == 400
    (name,) = asked
    assert name in answer.text or "NUL" in answer.text


def test_names_of_devices_are_text(ada: Guest, server: Server) -> None:
    made = server.found(charter())
    made.enrol(NASTY)
    opened = event(1, iso(time.time() - 60), text=NASTY)
    tell(made, report(NASTY, status=status(event={"number": 1}), events=(opened,)))
    for page in (fleet(ada, made), fleet(ada, made, search=NASTY)):
        assert "<script>alert" not in page
        assert "<img" not in page
        assert list(lines(page)) == [NASTY]
    nothing = fleet(ada, made, search=f"nobody{NASTY}")
    assert "No device is like that" in nothing
    assert "“nobody&lt;script&gt;alert(1)&lt;/script&gt;" in nothing
    assert "<script>alert" not in nothing


def test_groups_are_shown_where_the_server_keeps_them(ada: Guest, server: Server) -> None:
    made = server.found(charter(merged=False))
    made.enrol("fan-1", "fan-2", "fan-3")
    for number in (1, 2, 3):
        known = replace(seeded_contribution(f"fan-{number}", number % 2, 60), threshold=1.0)
        assert made.put(known).status_code == 200
    group = re.compile(r'<td class="c-group">(\d+(?:, \d+)*)</td>')
    assert not group.findall(fleet(ada, made)), "nothing is made for the page"
    assert made.ask("GET", "/others", made.keys["fan-1"]).status_code == 200
    assert len(group.findall(fleet(ada, made))) == 3


def test_who_is_unlike_all_others_is_named_with_the_sensor(ada: Guest, server: Server) -> None:
    names = ["flow", "vibration"]
    basis = Basis.fitted(unlike_rows(0), names, scaling="standard")
    made = server.found(replace(charter(merged=False), basis=basis))
    made.enrol(*(f"fan-{number}" for number in range(1, 5)))
    for number in range(1, 5):
        device = made.charter.start(f"fan-{number}")
        device.detector.learn_many(unlike_rows(number, 30.0 if number == 4 else 1.0))
        assert made.put(device.contribution()).status_code == 200
    assert made.ask("GET", "/others", made.keys["fan-1"]).status_code == 200
    found = ada.read(f"/ui/{made.charter.name}/")
    assert "Unlike all others: fan-4 : vibration varies 29 times as much" in found
    assert "fan-1 : " not in found


def unlike_rows(seed: int, times: float = 1.0) -> np.ndarray:
    made: np.ndarray = np.random.default_rng(seed).normal(size=(400, 2)) * [1.0, times]
    return made


def test_states_are_the_same_words_everywhere() -> None:
    assert tuple(WORDS) == tuple(MEANINGS) == FLEET_STATES
    page = (ROOT / "docs" / "dashboard.md").read_text()
    for state in FLEET_STATES:
        assert f"| {WORDS[state]} | {MEANINGS[state]}" in page
