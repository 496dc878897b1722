"""Reports and commands over HTTP: what is told is shown, and what is none is refused."""

import json
import logging
import math
import random
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from elmgrove.federation.charter import address_of
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.report import MOST_BYTES_REPORT, Report
from support.reports import cooperation, event, minute, report, status
from support.serving import ADMIN, Federation, Server, contents, refused

ME = "fan-1"


def tell(fans: Federation, told: Report | Any, who: str = ME) -> httpx.Response:
    """Sends a report, or what is none."""
    fields = told.fields if isinstance(told, Report) else told
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return fans.ask("PUT", f"/reports/{address_of(who)}", fans.keys[who], content=body)


def commands(answer: httpx.Response) -> list[Command]:
    assert answer.status_code == 200, answer.text
    return [Command.from_fields(one) for one in answer.json()["commands"]]


def listed(fans: Federation, **query: str) -> Any:
    answer = fans.ask("GET", "/reports", ADMIN, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def shown(fans: Federation, who: str = ME, **query: Any) -> Any:
    answer = fans.ask("GET", f"/reports/{address_of(who)}", ADMIN, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ask(fans: Federation, who: str = ME, secret: str = ADMIN, **asked: Any) -> httpx.Response:
    return fans.ask("POST", f"/commands/{address_of(who)}", secret, json=asked)


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_what_a_device_tells_is_shown(fans: Federation) -> None:
    now = time.time()
    of_now = tuple(minute(int(now // 60) - n) for n in range(3, -1, -1))
    told = report(
        "fan 3/ü",
        now,
        minutes=of_now,
        events=(event(1, iso(now - 60)),),
        cooperation=cooperation(),
        status=status(event={"number": 1}),
    )
    assert commands(tell(fans, told, who="fan 3/ü")) == []
    found = shown(fans, "fan 3/ü")
    assert found["device"] == "fan 3/ü"
    assert found["report"]["status"] == told.status
    assert found["report"]["cooperation"] == told.cooperation
    assert found["report"]["quarantine"] is None
    assert found["report"]["time"] == now
    assert abs(found["report"]["received"] - now) < 600
    assert found["minutes"] == [one.fields for one in of_now]
    [told_event] = found["events"]
    assert (told_event["number"], told_event["end"]) == (1, None)
    assert told_event["begin"] == pytest.approx(now - 60, abs=1)
    assert told_event["causes"] == told.events[0]["causes"]
    page = listed(fans)
    assert [one["name"] for one in page["rows"]] == ["fan 3/ü", "fan-1", "fan-2"]
    assert (page["rows"][0]["state"], page["rows"][0]["event"]) == ("anomalous", True)
    assert page["counts"]["unreported"] == 2
    refused(fans.ask("GET", "/reports/fan-1", ADMIN), "not-found")


def test_the_time_that_is_shown_is_asked_for(fans: Federation) -> None:
    begin = 1714572000
    told = tuple(minute(begin // 60 + n) for n in range(100))
    assert tell(fans, report(minutes=told, events=(event(1),))).status_code == 200
    other = report("fan-2", minutes=told[:15])
    assert tell(fans, other, who="fan-2").status_code == 200
    assert shown(fans)["minutes"] == []
    found = shown(fans, **{"from": begin + 600, "to": iso(begin + 1200)})
    assert [one[0] for one in found["minutes"]] == [begin // 60 + n for n in range(10, 20)]
    found = shown(fans, **{"from": iso(begin), "to": str(begin + 31 * 86400)})
    assert len(found["minutes"]) == 100
    assert [one["number"] for one in found["events"]] == [1]
    assert shown(fans, **{"to": iso(1714573200 - 60)})["events"] == []


def test_pages_are_sorted_searched_and_filtered(fans: Federation) -> None:
    tell(fans, report(status=status(learned=5)))
    told = report("fan-2", status=status(learned=9, state="learning"))
    tell(fans, told, who="fan-2")
    names = ["fan-2", "fan-1", "fan 3/ü"]
    assert [one["name"] for one in listed(fans, sort="-learned")["rows"]] == names
    assert [one["name"] for one in listed(fans, search="FAN-", limit="1", offset="1")["rows"]] == [
        "fan-2"
    ]
    found = listed(fans, state="learning")
    assert ([one["name"] for one in found["rows"]], found["total"]) == (["fan-2"], 1)
    assert listed(fans, limit="0")["rows"] == []
    assert listed(fans, offset="9" * 18)["rows"] == []
    assert listed(fans, search="'; DROP TABLE told; --")["rows"] == []


@pytest.mark.parametrize(
    "query",
    [
        *({"state": one} for one in ("", "well", "watching'--")),
        *({"sort": one} for one in ("mood", "-", "--name", "name DESC", "d.name")),
        *({"limit": one} for one in ("-1", "many", "1e3", "9" * 30, "\u0661")),
        {"offset": "-1"},
        {"search": "\0"},
    ],
    ids=repr,
)
def test_a_page_that_is_none_is_refused(fans: Federation, query: dict[str, str]) -> None:
    refused(fans.ask("GET", "/reports", ADMIN, params=query), "malformed")


def test_an_command_is_told_done_and_shown(fans: Federation) -> None:
    words = {"from": "2024-05-01T14:20:00Z", "instead": True}
    answer = ask(fans, action="accept", words=words)
    assert answer.status_code == 201, answer.text
    asked = Command.from_fields(answer.json())
    assert (asked.action, asked.words, asked.asked_by) == ("accept", words, "root")
    other = Command.from_fields(ask(fans, action="reject").json())
    for _ in range(2):
        assert commands(tell(fans, report())) == [asked, other]
    done = CommandResult(asked.id, time.time(), False, ("31 rows learned",))
    refusal = CommandResult(other.id, time.time(), True, ("no such rows",))
    assert commands(tell(fans, report(results=(done,)))) == [other]
    assert commands(tell(fans, report(results=(refusal,)))) == []
    assert commands(tell(fans, report())) == []
    [found] = [one for one in shown(fans)["commands"] if one["id"] == asked.id]
    assert found == {
        **asked.fields,
        "done": done.time,
        "refused": False,
        "said": ["31 rows learned"],
    }
    acts = [(one.act, one.detail.get("refused")) for one in fans.server.audit(fans.charter.name)]
    assert acts[-4:-2] == [("command asked", None)] * 2
    assert acts[-2:] == [("command done", False), ("command done", True)]
    actors = [actor for actor, _ in fans.told("command asked", "command done")]
    assert actors == ["administrator root"] * 2 + [f"device {ME}"] * 2


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"action": "tune"},
        {"action": ["accept"]},
        {"action": "accept", "words": []},
        {"action": "accept", "words": {"rows": [[1.0]]}},
        {"action": "accept", "words": {"from": "soon"}},
        {"action": "accept", "words": {"from": 10**400}},
        {"action": "reject", "words": {"instead": True}},
        {"action": "accept", "more": 1},
    ],
    ids=repr,
)
def test_an_command_that_no_device_can_do_is_refused(fans: Federation, asked: Any) -> None:
    refused(ask(fans, **asked), "malformed")
    assert commands(tell(fans, report())) == []


def test_commands_are_for_devices_that_come_for_them(fans: Federation) -> None:
    assert "has not joined" in refused(ask(fans, "fan-9", action="accept"), "refused")["detail"]
    fans.ask("DELETE", "/devices/fan-2", ADMIN)
    assert "revoked" in refused(ask(fans, "fan-2", action="accept"), "refused")["detail"]


HUGE = 10**4000
MONSTERS: list[Any] = [
    None, True, 0, -1, 1.5, -0.0, 1e308, 5e-324, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), HUGE,
    math.nan, math.inf, "", " ", "\0", "\ud800", "\u202e", "x" * 5000, "' OR 1=1 --", "1", [], {},
    [[]], {"": None}, [None] * 9, "0001-01-01T00:00:00+23:59", "2024-05-01T14:20:00Z", [1] * 9,
    {"number": 1},
]  # fmt: skip
DEEP = b"[" * 200_000


def test_whatever_is_no_report_is_refused_and_changes_nothing(
    fans: Federation, server: Server
) -> None:
    kept = report(minutes=(minute(),), events=(event(1),), status=status(event={"number": 1}))
    assert tell(fans, kept).status_code == 200
    tables = ("device_status", "report", "hour", "event", "command", "device_changes")
    before = {name: rows for name, rows in contents(server.store).items() if name in tables}
    fields = kept.fields
    wrong: list[Any] = [
        {**fields, "time": math.nan},
        {**fields, "time": HUGE},
        {**fields, "format": 2},
        {**fields, "device": "\ud800"},
        {**fields, "minutes": [[math.inf] * 9]},
        {**fields, "minutes": [[HUGE] * 9]},
        {**fields, "minutes": [None] * 1441},
        {**fields, "events": [event(n) for n in range(22)]},
        {**fields, "events": [{**event(1), "text": "\0"}]},
        {**fields, "events": [{**event(1), "begin": "0001-01-01T00:00:00+23:59"}]},
        {**fields, "events": [{**event(1), "begin": "9999-12-31T23:59:59-23:59"}]},
        {**fields, "status": {**fields["status"], "more": "x" * 40_000}},
        {**fields, "status": {**fields["status"], "more": "half \udfff"}},
        {**fields, "status": {**fields["status"], "sync_seconds": 1e308}},
        {**fields, "quarantine": [{"time": 1.0, "score": 2.0, "values": {"x": 1e999}}]},
        {**fields, "results": [{"command": "' OR 1=1", "time": 1, "refused": False, "said": []}]},
        {**fields, "rows": [[1.0]]},
        {},
        [],
        None,
    ]
    bodies = [json.dumps(one).encode() for one in wrong]
    bodies += [
        b"",
        b"{",
        DEEP,
        b'{"a":' * 100_000,
        b"\xff\xfe",
        b'{"status": 1' + b"0" * 5000 + b"}",
    ]
    for body in bodies:
        refused(tell(fans, body), "malformed")
    refused(tell(fans, report("fan-2")), "forbidden")
    after = {name: rows for name, rows in contents(server.store).items() if name in tables}
    assert after == before


def places(found: Any) -> list[tuple[Any, Any]]:
    """Every place of a document at which something else could stand."""
    keys = (
        found if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
    )
    below = [place for key in keys for place in places(found[key])]
    return [(found, key) for key in keys] + below


def test_whatever_stands_in_any_place_is_taken_or_refused(
    fans: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    chance, answers = random.Random(7), Counter[int]()
    whole = report(
        minutes=(minute(),),
        events=(event(1), event(2, 17, end=50)),
        cooperation=cooperation(),
        results=(CommandResult("e-1", 1.0, False, ("done",)),),
        quarantine=({"time": 1.0, "score": 2.0, "values": {"flow": 1.0}},),
    )
    for _ in range(400):
        fields = json.loads(json.dumps(whole.fields))
        for _ in range(chance.choice([1, 1, 2])):
            place, key = chance.choice(places(fields))
            place[key] = chance.choice(MONSTERS)
        answers[tell(fans, fields).status_code] += 1
    assert set(answers) <= {200, 400, 403}
    assert min(answers[200], answers[400]) > 20, answers
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
    # And what was taken can be shown.
    shown(fans)
    listed(fans)


def test_a_report_that_is_too_large_is_refused_while_it_comes(fans: Federation) -> None:
    body = json.dumps({**report().fields, "more": "x" * MOST_BYTES_REPORT}).encode()
    refused(tell(fans, body), "too-large")
