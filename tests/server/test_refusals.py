"""Refusals: of callers that are known they are recorded, within bounds; of strangers counted."""

import asyncio
import logging

import pytest
from starlette.requests import Request

from elmgrove.errors import StoreUnavailable
from elmgrove.server.problems import Refusals, ThrottledLog, problem_response
from elmgrove.server.store.audit import Audit
from support.serving import ADMIN, Federation, Server, refused, seeded_contribution

ME = ("fans", "device me")


def test_the_same_refusal_is_recorded_once_in_a_while_and_then_with_how_many_were_not() -> None:
    told = Refusals()
    assert told.unrecorded(ME, "outdated", 0.0) == 0
    assert [told.unrecorded(ME, "outdated", second) for second in (1.0, 2.0)] == [None, None]
    assert told.unrecorded(ME, "too-large", 3.0) == 2, "another one is"
    assert told.unrecorded(("fans", "device you"), "outdated", 3.0) == 0, "and another's"
    assert told.unrecorded(ME, "outdated", Refusals.PERIOD - 1) is None
    assert told.unrecorded(ME, "outdated", Refusals.PERIOD) == 1


def test_however_many_reasons_a_caller_finds_few_are_recorded() -> None:
    told = Refusals()
    found = [told.unrecorded(ME, f"reason {n}", n / 100) for n in range(1000)]
    assert [one is not None for one in found] == [n < Refusals.MOST for n in range(1000)]
    assert told.unrecorded(ME, "reason", Refusals.PERIOD) == 1000 - Refusals.MOST


def test_a_device_that_is_refused_again_and_again_is_told_once(fans: Federation) -> None:
    assert fans.put(seeded_contribution("fan-1", 1)).status_code == 200
    for _ in range(5):
        refused(fans.put(seeded_contribution("fan-1", 1, 10)), "outdated")
    fans.ask("DELETE", "/devices/fan-2", ADMIN)
    for _ in range(3):
        refused(fans.put(seeded_contribution("fan-2", 1)), "forbidden")
    refused(fans.ask("GET", "/contributions/fan%203%2F%C3%BC", fans.keys["fan 3/ü"]), "not-found")
    records = [one for one in fans.server.audit(fans.charter.name) if one.act == "refused"]
    assert [(one.actor, one.detail["kind"]) for one in records] == [
        ("device fan-1", "outdated"),
        ("device fan-2", "forbidden"),
    ]
    assert records[0].detail["request"] == f"PUT {fans.path}/contributions/fan-1"
    assert records[1].detail["reason"] == "the key of 'fan-2' was revoked"


def test_strangers_write_nothing_and_are_counted_in_the_log(
    server: Server,
    fans: Federation,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elmgrove.server.problems.throttled_log", ThrottledLog())
    before = fans.told()
    with caplog.at_level(logging.WARNING, "elmgrove.server"):
        for secret in (None, "guess", "elm-admin-guess", "elm-key-guess"):
            refused(fans.ask("DELETE", "/devices/fan-1", secret), "unauthorized")
    assert "Refused requests without a valid token or key: 1 since" in caplog.text
    assert fans.told() == before
    assert not [one for one in server.audit() if one.act == "refused"]


def test_a_refusal_stays_one_where_it_can_not_be_recorded(
    fans: Federation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def note(*_: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(Audit, "add", note)
    refused(fans.ask("DELETE", "/devices/fan-2", fans.keys["fan-1"]), "forbidden")
    assert "could not be recorded: the disk is full" in caplog.text


def test_a_failure_of_the_server_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    request = Request({"type": "http", "method": "GET", "path": "/v1/federations/fans"})
    with caplog.at_level(logging.ERROR, "elmgrove.server"):
        told = asyncio.run(Refusals().noted(request, ZeroDivisionError("inside")))
    assert problem_response(told, "/v1").status_code == 500
    assert b"inside" not in bytes(problem_response(told, "/v1").body)
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_what_is_not_there_and_what_can_not_be_done_are_problems_too(server: Server) -> None:
    refused(server.ask("GET", "/v2"), "not-found")
    refused(server.ask("PATCH", "/v1/federations", ADMIN), "method-not-allowed")
