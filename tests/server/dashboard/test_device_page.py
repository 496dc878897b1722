"""The page of a device: what it told in words, what can be said of it, and who may say it."""

import re
import time
from html import unescape
from typing import Any

import pytest

from elmgrove.detector.drift import Drift, Shift
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.report import Minute
from elmgrove.server.dashboard.device_page import (
    ScoreChart,
    cause_text,
    clock_warning,
    cooperation_text,
)
from elmgrove.server.dashboard.rendering import clock, iso
from elmgrove.server.store.reports import StoredReport
from support.dashboard import Guest, guest, tell, try_to_tell
from support.reports import cooperation, event, minute, report, status
from support.serving import ADMIN, Federation, Server, charter

ME = "pump 3/ü"
PART = "pump%203%2F%C3%BC"
NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(name="pumps")
def pumps_fixture(server: Server) -> Federation:
    made = server.found(charter())
    made.enrol(ME, "pump-1")
    return made


def path(pumps: Federation) -> str:
    return f"/ui/{pumps.charter.name}/devices/{PART}"


def shown(pumps: Federation, who: Guest, query: str = "") -> str:
    return who.read(path(pumps) + query)


def send(pumps: Federation, who: Guest, **fields: str) -> int:
    return who.post(path(pumps), {"csrf": who.csrf, **fields}).status_code


def send_report(pumps: Federation, **more: Any) -> list[Command]:
    """What the device is asked to do, after it told this."""
    return tell(pumps, report(ME, time.time(), **more))


def test_an_event_is_told_with_its_causes_in_words(pumps: Federation, ada: Guest) -> None:
    begin = time.time() - 600
    happened = event(7, iso(begin), end=iso(begin + 120), known=["pump-3", "pump-4"])
    unread = {"feature": "temp", "share": 0.04, "seen": None, "expected": None, "ago": 0}
    happened["causes"].append(unread)
    send_report(pumps, events=(happened,), minutes=(minute(int(begin // 60)),))
    page = shown(pumps, ada)
    assert f"Event 7, {iso(begin)[:10]} {iso(begin)[11:16]} to {iso(begin + 120)[11:16]}" in page
    assert "31 rows anomalous, at most 5.4 times the threshold, normal at pump-3, pump-4." in page
    assert "flow was 22 where 31 was to be expected temp (4 % of the score)" in page
    assert '"highest": [' in unescape(ada.get(path(pumps)).text)


def test_what_cooperation_changed_is_told(pumps: Federation, ada: Guest) -> None:
    assert "It has learned nothing from others yet." in shown(pumps, ada)
    send_report(pumps, cooperation=cooperation())
    page = shown(pumps, ada)
    assert "Its own rows then scored 1.1 on average, 1.4 before: better explained." in page
    assert "25 % of what decides here comes from others." in page
    assert "fan-2 fan-3" in page


def test_nothing_that_a_device_tells_is_taken_for_html(pumps: Federation, ada: Guest) -> None:
    cause = {"feature": NASTY, "share": 0.9, "seen": 1.0, "expected": 2.0, "ago": 0}
    send_report(
        pumps,
        status=status(drift={"text": NASTY}, since=NASTY, sync={"said": NASTY}),
        events=(event(1, iso(time.time() - 60), causes=[cause]),),
        cooperation=cooperation(contributors=[NASTY]),
        quarantine=({"time": 0, "score": 1, "values": {NASTY: 2}},),
    )
    html = ada.get(path(pumps)).text
    assert NASTY not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 6


def test_a_status_that_is_like_no_other_breaks_no_page(pumps: Federation, ada: Guest) -> None:
    row = {"time": 1e300, "score": None, "values": {"flow": 10**15, "power": None}}
    least = {"time": None, "score": 9.5, "values": {}}
    odd = {"rows_missing": 10**15, "threshold": 1e308, "drift": {}, "event": {}, "alarm": None}
    send_report(pumps, status=status(**odd, quarantine=2), quarantine=(least, row))
    page = shown(pumps, ada)
    assert "2 anomalous rows wait there" in page
    assert "9999-12-31 23:59 — 1,000,000,000,000,000 — — 9.5 — —" in page


def test_a_device_that_told_nothing_or_never_joined(pumps: Federation, ada: Guest) -> None:
    assert "This device reports nothing of itself" in shown(pumps, ada)
    assert ada.get(f"/ui/{pumps.charter.name}/devices/nobody").status_code == 404


def test_rows_ahead_of_the_clock_hide_no_event_and_are_asked_about(
    pumps: Federation, ada: Guest
) -> None:
    """As those of a machine east of Greenwich, whose times have no zone."""
    local = time.time() + 7200
    over = event(1, iso(local - 600), end=iso(local - 300))
    is_open = event(2, iso(local - 60))
    send_report(
        pumps,
        status=status(event={"number": 2}),
        events=(over, is_open),
        minutes=tuple(minute(int(local // 60) - n) for n in range(300)),
    )
    page = shown(pumps, ada)
    assert "2 events" in page
    assert "An event is open since" in page
    assert "Its rows are 2 h ahead of the clock here: are their times local?" in page
    fleet = ada.get(f"/ui/{pumps.charter.name}/").text
    assert "2 events: " in fleet
    yesterday = f"?from={iso(local - 86_400)}&to={iso(local - 7500)}"
    assert "No event in this time." in shown(pumps, ada, yesterday)


def test_what_was_answered_stays_answered_however_much_it_was(
    pumps: Federation, ada: Guest
) -> None:
    now = round(time.time())
    begins = [now - 3600 - 60 * n for n in range(30)]
    for some in (begins[:15], begins[15:]):
        send_report(pumps, events=tuple(event(n, iso(n), end=iso(n + 30)) for n in some))
    for begin in begins:
        assert send(pumps, ada, do="accept", **{"from": str(begin), "to": str(begin + 30)}) == 303
    page = ada.get(path(pumps)).text
    assert page.count("root said it was fine") == 30
    assert "That was fine</button>" not in page
    assert page.count("<li><b>") == 20


def test_an_answer_is_about_what_was_told_and_nothing_that_comes_after(
    pumps: Federation, ada: Guest
) -> None:
    """Until the device hears the answer another fault may have begun."""
    # Its clock is an hour off, so that nobody else's time can be taken for its rows'.
    begin = round(time.time()) - 3600
    last_row = iso(begin + 40).replace("Z", ".250Z")
    now = status(event={}, drift={"text": "since 04:29"}, quarantine=9, last_row=last_row)
    send_report(pumps, status=now, events=(event(1, iso(begin)),))
    html = ada.get(path(pumps)).text
    forms = [
        dict(re.findall(r'name="(do|from|to|event|instead)" value="([^"]+)"', form))
        for form in re.findall(r"<form.*?</form>", html, re.DOTALL)
    ]
    ends = {one["to"] for one in forms if one.get("do") == "accept"}
    assert [float(end) for end in ends] == [pytest.approx(begin + 40.251)]
    assert len([one for one in forms if one.get("do") == "accept"]) == 4
    # The device knows when the event began, and whether it has ended meanwhile.
    rejecting = [one for one in forms if one.get("do") == "reject"]
    assert [sorted(one) for one in rejecting] == [["do"], ["do", "event"], ["do"]]
    assert send(pumps, ada, do="accept", to=ends.pop()) == 303
    assert f"Rows until {clock(begin + 40)}: fine" in shown(pumps, ada)


@pytest.mark.parametrize("odd", [None, "soon", 5, "1e+30 s after 1970", "9" * 400])
def test_an_answer_ends_where_the_device_did_not_say_when_its_last_row_was(
    pumps: Federation, ada: Guest, odd: Any
) -> None:
    begin = round(time.time()) - 600
    happened = event(1, iso(begin), peak_at=iso(begin + 20))
    send_report(pumps, status=status(event={}, last_row=odd), events=(happened,))
    ends = set(re.findall(r'name="to" value="([^"]+)"', ada.get(path(pumps)).text))
    assert [float(end) for end in ends] == [pytest.approx(begin + 20.001)]


def test_a_question_is_in_words_of_the_page_and_is_not_asked_again_once_answered(
    pumps: Federation, ada: Guest
) -> None:
    now = round(time.time())
    flow = Shift("flow", 31.2, 25.0, -19.9, 8.0, 0.5, 0.5)
    drift = Drift("change", now - 1200.0, float(now), 120, 0.96, (flow,))
    asks = status(state="changing", drift={**drift.fields, "text": str(drift)})
    before = event(1, iso(now - 5000), end=iso(now - 4000))
    send_report(pumps, status=asks, events=(before, event(2, iso(now - 900), end=iso(now - 60))))
    page, button = shown(pumps, ada), "That is normal too"
    assert "a new normal or a fault? That is normal too" in page
    assert "State more is anomalous than usual" in page
    assert '<span class="drifts">a new normal?' in ada.get(f"/ui/{pumps.charter.name}/").text
    for begin, end, is_asked in ((now - 5000, now - 4000, True), (now - 900, now - 60, False)):
        assert send(pumps, ada, do="reject", **{"from": str(begin), "to": str(end)}) == 303
        page = shown(pumps, ada)
        assert (button in page) is is_asked
        assert ("Answered, waits for the device" in page) is not is_asked
    [*_, command] = send_report(pumps, status=asks)
    done = CommandResult(command.id, time.time(), False, ("dropped",))
    send_report(pumps, status=asks, results=(done,))
    assert button in shown(pumps, ada), "it asks all the same"


def test_a_fault_names_the_event_and_who_answered_it_is_shown_wherever_that_was(
    pumps: Federation, ada: Guest
) -> None:
    begin = iso(round(time.time()) - 600)
    send_report(pumps, status=status(event={"number": 3}), events=(event(3, begin),))
    assert send(pumps, ada, do="reject", event="3") == 303
    page = shown(pumps, ada)
    assert "root said it was a fault: waits for the device's next sync" in page
    assert "It was a fault</button>" not in ada.get(path(pumps)).text
    [command] = send_report(pumps)
    assert (command.action, command.words) == ("reject", {"event": 3})
    said = "a fault (root on the server, 2026-11-18 14:20 UTC)"
    answer = {"action": "reject", "event": 3, "text": f"event 3: {said}; 31 rows dropped"}
    done = CommandResult(command.id, time.time(), False, ("Event 3: 31 rows were dropped",))
    now = status(event={"number": 3}, answers=[answer], undoable=True)
    send_report(pumps, status=now, events=(event(3, begin, answered=said),), results=(done,))
    page = shown(pumps, ada)
    assert f"Answered: {said}" in page
    assert f"event 3: {said}; 31 rows dropped Undo the last answer" in page
    assert "It was a fault</button>" not in ada.get(path(pumps)).text
    assert send(pumps, ada, do="undo") == 303
    [command] = send_report(pumps, status=now)
    assert (command.action, command.words) == ("undo", {})
    assert "The last answer: undone" in shown(pumps, ada)
    undone = {"action": "undo", "event": 3, "text": "event 3: undone; 31 rows wait again"}
    done = CommandResult(command.id, time.time(), False, ("Undone: 31 rows wait again",))
    now = status(event={"number": 3}, answers=[answer, undone], undoable=False)
    send_report(pumps, status=now, events=(event(3, begin),), results=(done,))
    page = ada.get(path(pumps)).text
    assert "It was a fault</button>" in page, "it can be answered again"
    assert "Undo the last answer" not in page
    assert send(pumps, ada, do="reject", event="three") == 400


@pytest.mark.parametrize(
    "fields", [{"do": "format"}, {}, {"do": "accept", "from": "x"}, {"do": "accept", "to": "nan"}]
)
def test_what_a_device_can_not_be_asked_is_refused(
    pumps: Federation, ada: Guest, fields: dict[str, str]
) -> None:
    assert send(pumps, ada, **fields) in (400, 422)
    assert send_report(pumps) == []


def test_who_may_look_sees_no_button_and_changes_nothing(server: Server, pumps: Federation) -> None:
    send_report(pumps, events=(event(1, iso(time.time() - 60)),), status=status(quarantine=3))
    with guest(server, server.administrator("eve", "look")) as eve:
        page = shown(pumps, eve)
        assert "That was fine" not in page
        assert "Revoke its key" not in page
        assert "Make a new token" not in eve.get(f"/ui/{pumps.charter.name}/federation").text
        assert send(pumps, eve, do="accept") == 403
        assert send(pumps, eve, do="revoke") == 403
    assert send_report(pumps) == []


def test_who_shuts_a_device_out_is_told_how_it_comes_back(pumps: Federation, ada: Guest) -> None:
    back = f"{pumps.server.base} readmit {pumps.charter.name} '{ME}' > device.key"
    page = shown(pumps, ada, "?do=revoke")
    assert f"Revoke the key of {ME}?" in page
    assert back in page
    assert send(pumps, ada, do="revoke") == 303
    assert try_to_tell(pumps, report(ME, time.time())).status_code == 403
    page = shown(pumps, ada)
    assert "Revoked" in page
    assert back in page


def test_causes_and_cooperation_in_words_where_little_is_known() -> None:
    cause = {"feature": "flow", "share": None, "seen": None, "expected": 1.0, "ago": 3}
    assert cause_text(cause) == "flow, 3 rows before the anomalous one"
    unread = cause | {"share": 0.043}
    assert cause_text(unread) == "flow (4 % of the score), 3 rows before the anomalous one"
    near = {"feature": "kelvin", "share": 0.9, "seen": 293.0, "expected": 293.0, "ago": 0}
    assert cause_text(near) == "kelvin was about 293, and a little off what was to be expected"
    nothing = cooperation(before=None, after=None, share=0.0)
    assert cooperation_text(nothing).endswith("It borrows nothing.")
    assert "as before" in cooperation_text(cooperation(before=1.1))
    assert "worse explained" in cooperation_text(cooperation(before=1.0))


def test_each_link_and_form_of_a_page_is_about_its_own_device(server: Server, ada: Guest) -> None:
    """Whatever a device is called: a browser resolves what looks like a path."""
    made = server.found(charter())
    made.enrol("x/../pump-1", "pump-1")
    tell(made, report("x/../pump-1", time.time(), events=(event(1, iso(time.time() - 60)),)))
    page = ada.get(f"/ui/{made.charter.name}/devices/x%2F..%2Fpump-1?from=now-1h&to=now").text
    places = re.findall(r'(?:href|action|hx-get)="([^"]+)"', page)
    assert len([one for one in places if "x%2F..%2Fpump-1" in one]) > 5
    assert not [one for one in places if "/../" in one]
    tabs = [one for one in places if one.startswith(f"/ui/{made.charter.name}/federation")]
    assert tabs == [f"/ui/{made.charter.name}/federation?from=now-1h&amp;to=now"]


def test_an_command_in_milliseconds_and_scores_beyond_all_bounds_are_shown(
    pumps: Federation, ada: Guest
) -> None:
    now = round(time.time())
    body = {"action": "accept", "words": {"from": now * 1000}}
    pumps.ask("POST", f"/commands/{PART}", ADMIN, json=body)
    huge = tuple(Minute(now // 60 - n, 10**9, 0, None, (1.7e308,) * 4) for n in range(3))
    send_report(pumps, minutes=huge)
    assert f"Rows from {clock(now)} until now: fine" in shown(pumps, ada)
    chart = re.search(r'id="scores-data">(.*?)</script>', ada.get(path(pumps)).text, re.DOTALL)
    assert chart is not None
    assert "Infinity" not in chart[1]


# Rows that wait, and by which clock its rows are


@pytest.mark.parametrize(
    ("ahead", "every", "said"),
    [
        ([-70.0, -20.0], 60.0, ""),
        ([200.0], 60.0, ""),
        ([420.0], 60.0, "7 min ahead of"),
        ([5.5 * 3600 - 90], 60.0, "5.5 h ahead of"),
        ([40 * 86_400.0], None, "960 h ahead of"),
        ([-5 * 3600 - 80.0, -5 * 3600 - 30.0], 60.0, "5 h behind"),
        # One hour came late, or all at once: the clock is right.
        ([-1800.0 - 60.0, -60.0], 60.0, ""),
        ([-3600.0 - 60.0, -7200.0 - 60.0], 60.0, ""),
        ([-2000.0 - 900.0, -2000.0 - 900.0], 60.0, ""),
        ([-1900.0, -1900.0], 3600.0, ""),
        ([-30 * 86_400.0, -30 * 86_400.0], 60.0, ""),
        ([-5 * 3600.0], 60.0, ""),
        ([], 60.0, ""),
    ],
)
def test_rows_of_another_zone_are_told_from_rows_that_come_late(
    ahead: list[float], every: float | None, said: str
) -> None:
    now = 1714573200.0
    begun = [now - 3600.0 * n for n in range(len(ahead))]
    hours = [(at + one, at + one, at) for at, one in zip(begun, ahead, strict=True)]
    heard = StoredReport("pump", now, now, None, {"status": status(sync_seconds=every)})
    found = clock_warning(hours, heard)
    assert found.startswith(f"Its rows are {said} the clock here") if said else found == ""


# The course of its scores: as many points as can be seen, which say what minutes do


def test_minutes_are_put_together_to_as_many_points_as_can_be_seen() -> None:
    minutes = [minute(100 + n, rows=60, anomalous=n % 3).fields for n in range(600)]
    course = ScoreChart.of(minutes, 100 * 60.0, 700 * 60.0, most=70)
    assert (course.step, course.span) == (600, "10 minutes")
    assert len(course.points) <= 70
    assert sum(point.rows for point in course.known) == 600 * 60
    assert sum(point.anomalous for point in course.known) == sum(n % 3 for n in range(600))
    assert {point.highest for point in course.known} == {2.5}
    times = dict(course.columns())["times"]
    assert all(one is not None and one % 600 == 0 for one in times)


@pytest.mark.parametrize("days", [0.1, 1, 2, 3, 5, 7, 8, 20, 31, 100, 400])
def test_fewer_points_say_the_same_as_minutes_do(days: float) -> None:
    end = 1440 * 30_000 * 60.0 + 4000
    begin = end - days * 86_400
    step = max(int(days * 1440 / 2000), 1)
    told = range(int(begin // 60) + 1, int(end // 60), step)
    minutes = [minute(n, rows=n % 60 + 1, anomalous=n % 2).fields for n in told]
    few = ScoreChart.of(minutes, begin, end).at_most(48)
    direct = ScoreChart.of(minutes, begin, end, 48)
    assert [(point.begin, point.rows, point.anomalous) for point in few.known] == [
        (point.begin, point.rows, point.anomalous) for point in direct.known
    ]
    assert len(few.points) <= 48


def test_where_nothing_was_told_there_is_a_gap() -> None:
    course = ScoreChart.of([minute(100).fields, minute(104).fields], 6000.0, 6360.0)
    assert [point is None for point in course.points] == [False, True, True, True, False, True]
