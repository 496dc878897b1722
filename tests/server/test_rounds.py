"""Rounds over HTTP: what is refused, and why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elmgrove.rounds import Agenda, Opening, SumRule
from support.held_rounds import BASIS, HeldFederation, agenda_of, found_rounds, plan_of
from support.serving import ADMIN, Server, charter, refused, serving, wait_until


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(f"sqlite:///{tmp_path_factory.mktemp('server')}/store.db") as running:
        yield running


def begun(server: Server, name: str, **more: Any) -> tuple[HeldFederation, dict[str, str]]:
    """A federation whose first round asks "a" and "b"."""
    plan = plan_of("e2lm", rounds=1, fraction=1.0)
    agenda = agenda_of(plan, name, clients=2, **more)
    fans, keys = found_rounds(server, agenda, plan.round_rule()), dict[str, str]()
    for who in ("a", "b"):
        joined = fans.ask("POST", "/devices", fans.token, json={"name": who})
        assert joined.status_code == 201, joined.text
        keys[who] = joined.json()["key"]
    wait_until(lambda: fans.shown()["number"] == 1)
    return fans, keys


def reply_of(name: str) -> bytes:
    plan = plan_of("e2lm", rounds=1)
    return plan.client(name).train(plan.round_rule().request(), 1)


def put(fans: HeldFederation, key: str, blob: bytes, who: str = "a", number: str = "1") -> Any:
    return fans.ask("PUT", f"/rounds/{number}/replies/{who}", key, content=blob)


def test_a_taken_name_and_what_is_no_opening_are_refused(server: Server) -> None:
    plan = plan_of("e2lm")
    found_rounds(server, agenda_of(plan, "taken"), plan.round_rule())
    opening = Opening.of(Agenda("taken", "e2lm", 1), SumRule("taken", BASIS)).to_bytes()
    refused(server.ask("POST", "/v1/rounds", ADMIN, content=opening), "taken")
    for wrong in (b"", b"nonsense", opening[:-3], opening[:-1] + b"\0"):
        refused(server.ask("POST", "/v1/rounds", ADMIN, content=wrong), "malformed")


def test_an_opening_that_is_too_long_is_refused(tmp_path: Path) -> None:
    opening = Opening.of(Agenda("long", "e2lm", 1), SumRule("long", BASIS)).to_bytes()
    with serving(f"sqlite:///{tmp_path}/store.db", max_body=len(opening) - 1) as server:
        refused(server.ask("POST", "/v1/rounds", ADMIN, content=opening), "too-large")


def test_a_reply_is_stored_once(server: Server) -> None:
    fans, keys = begun(server, "once")
    blob = reply_of("a")
    for _ in range(2):
        answer = put(fans, keys["a"], blob)
        assert (answer.status_code, answer.json()["used"]) == (200, True)
    assert "another reply" in refused(put(fans, keys["a"], b""), "in-vain")["detail"]
    assert fans.shown()["replied"] == ["a"]


def test_a_reply_that_can_not_be_used_is_refused_and_not_waited_for(server: Server) -> None:
    fans, keys = begun(server, "unusable")
    refused(put(fans, keys["a"], reply_of("b")), "malformed")
    assert fans.shown()["replied"] == ["a"]
    assert put(fans, keys["b"], reply_of("b"), "b").status_code == 200
    wait_until(lambda: fans.shown()["number"] == 2)
    [report] = fans.shown()["reports"]
    assert report["answered"] == ["b"]
    assert report["left_out"] == {"a": "BadInput: 'a' sent a message in the name of 'b'"}


def test_what_comes_at_the_wrong_time_is_refused_with_the_reason(server: Server) -> None:
    fans, keys = begun(server, "times")
    assert "no round 2" in refused(put(fans, keys["a"], b"", number="2"), "in-vain")["detail"]
    refused(put(fans, keys["a"], b"", number="one"), "malformed")
    refused(fans.ask("GET", "/rounds/2/request", keys["a"]), "in-vain")
    refused(fans.ask("GET", "/rounds/gifts/a", keys["a"]), "in-vain")
    refused(fans.ask("GET", "/rounds/model"), "in-vain")
    refused(fans.ask("GET", "/rounds/turn?wait=soon", keys["a"]), "malformed")
    assert put(fans, keys["a"], b"").json()["used"] is False
    assert put(fans, keys["b"], b"", "b").status_code == 200
    wait_until(lambda: fans.shown()["number"] == 2)
    assert "over" in refused(put(fans, keys["a"], reply_of("a")), "in-vain")["detail"]
    # Nobody had anything new, so there is no model.
    refused(fans.ask("GET", "/rounds/model"), "malformed")


def test_what_devices_do_without_rounds_has_no_place_in_rounds(server: Server) -> None:
    fans, keys = begun(server, "rounds-alone")
    for method, path in (
        ("GET", ""),
        ("GET", "/entries"),
        ("GET", "/merged"),
        ("GET", "/others"),
        ("GET", "/groups"),
        ("GET", "/contributions/a"),
        ("PUT", "/contributions/a"),
        ("DELETE", "/contributions/a?epoch=3"),
    ):
        refused(fans.ask(method, path, keys["a"]), "refused")
    other = server.found(charter())
    other.enrol("a")
    for path in ("/rounds", "/rounds/turn", "/rounds/1/request", "/rounds/model"):
        refused(other.ask("GET", path, other.keys["a"]), "not-found")


def test_only_names_that_may_join_do(server: Server) -> None:
    fans, _ = begun(server, "members", members=("a", "b"))
    refused(fans.ask("POST", "/devices", fans.token, json={"name": "c"}), "forbidden")


def test_a_device_is_told_when_it_is_its_turn(server: Server) -> None:
    fans, keys = begun(server, "turns")
    turn = fans.ask("GET", "/rounds/turn", keys["a"]).json()
    assert turn == {"number": 1, "rounds": 1, "asked": True, "ended": False}
    assert put(fans, keys["a"], reply_of("a")).status_code == 200
    assert fans.ask("GET", "/rounds/turn", keys["a"]).json()["asked"] is False
    assert put(fans, keys["b"], reply_of("b"), "b").status_code == 200
    ended = fans.ask("GET", "/rounds/turn?wait=30", keys["a"]).json()
    assert (ended["number"], ended["ended"]) == (2, True)
