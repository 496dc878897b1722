"""Problems: which refusal each error becomes."""

import asyncio
import json
import logging

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from elmgrove.errors import (
    BadFile,
    BadInput,
    Mismatch,
    NotAdmissible,
    NotFound,
    Outdated,
    Problem,
    Refused,
    StoreUnavailable,
)
from elmgrove.server.problems import KINDS, Refusals, problem_of, problem_response
from support.serving import ADMIN, Server, refused


def request(gone: Problem | None = None) -> Request:
    made = Request({"type": "http", "method": "GET", "path": "/v1/federations/fans"})
    made.state.no_federation = gone
    return made


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Problem("taken", "it is taken"), "taken"),
        (Outdated("epoch 5 is held", 5, shrunk=False), "outdated"),
        (Mismatch("another seed"), "mismatch"),
        (NotAdmissible("no rows"), "not-admissible"),
        (Refused("by a rule"), "refused"),
        (BadFile("torn"), "malformed"),
        (BadInput("no number"), "malformed"),
        (StoreUnavailable("the disk is full"), "unavailable"),
        (HTTPException(404), "not-found"),
        (HTTPException(405), "method-not-allowed"),
        (HTTPException(418), "malformed"),
        (ZeroDivisionError("a secret of the server"), "internal"),
    ],
    ids=lambda of: of if isinstance(of, str) else type(of).__name__,
)
def test_each_error_is_a_problem_of_its_kind(error: Exception, kind: str) -> None:
    found = problem_of(request(), error)
    assert found.kind == kind
    document = json.loads(bytes(problem_response(found, "/here").body))
    status, title = KINDS[kind]
    assert (document["status"], document["title"]) == (status, title)
    assert document["instance"] == "/here"


def test_a_federation_that_is_gone_is_the_refusal_that_the_caller_would_get() -> None:
    refusal = Problem("unauthorized", "this needs a key")
    assert problem_of(request(refusal), NotFound("fans")) is refusal


def test_a_failure_of_the_server_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "elmgrove.server"):
        told = asyncio.run(Refusals().noted(request(), ZeroDivisionError("inside")))
    assert problem_response(told, "/v1").status_code == 500
    assert b"inside" not in bytes(problem_response(told, "/v1").body)
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_what_is_not_there_and_what_can_not_be_done_are_problems_too(server: Server) -> None:
    refused(server.ask("GET", "/v2"), "not-found")
    refused(server.ask("PATCH", "/v1/federations", ADMIN), "method-not-allowed")
