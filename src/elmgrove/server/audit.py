"""The audit log over HTTP: read page by page, and pruned by age."""

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.errors import Problem
from elmgrove.federation.terms import DAY
from elmgrove.server.auth import require_admin
from elmgrove.server.service import number_in, text_in
from elmgrove.server.store.audit import SERVER_LOG


async def show(request: Request) -> Response:
    """Return a page of the audit: of a federation, there or deleted, or the server's own."""
    store, _ = await require_admin(request)
    limit = number_in(request, "limit")
    after = number_in(request, "after")
    records = await store.audit.records(
        _log(request),
        100 if limit is None else min(int(limit), 1000),
        after=None if after is None else int(after),
        since=number_in(request, "since") or 0.0,
        device=text_in(request, "device"),
    )
    return JSONResponse({"records": [record.fields for record in records]})


async def prune(request: Request) -> Response:
    """Delete the records of a log that are older than a number of days; return how many."""
    store, actor = await require_admin(request)
    days = number_in(request, "days")
    if days is None:
        raise Problem("malformed", "days: say how many days of the audit to keep")
    pruned = await store.audit.prune(_log(request), time.time() - days * DAY, actor=actor)
    return JSONResponse({"pruned": pruned})


def _log(request: Request) -> str:
    return text_in(request, "federation") or SERVER_LOG
