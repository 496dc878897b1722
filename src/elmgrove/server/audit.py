"""The audit over HTTP: read page by page, and pruned by age."""

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.errors import Problem
from elmgrove.federation.terms import DAY
from elmgrove.server.auth import require_admin
from elmgrove.server.query import number_in, text_in
from elmgrove.server.store.audit import OWN_CHAIN

#: Records of an answer unless stated, and at most.
PAGE, LONGEST_PAGE = 100, 1000


async def show(request: Request) -> Response:
    """Gives a page of the audit: of a federation, there or deleted, or the server's own."""
    store, _ = await require_admin(request)
    limit = number_in(request, "limit")
    after = number_in(request, "after")
    records = await store.audit(
        _chain(request),
        PAGE if limit is None else min(int(limit), LONGEST_PAGE),
        after=None if after is None else int(after),
        since=number_in(request, "since"),
        device=text_in(request, "device"),
    )
    return JSONResponse({"records": [record.fields for record in records]})


async def prune(request: Request) -> Response:
    """Deletes the records of a chain that are older than a number of days; says how many."""
    store, actor = await require_admin(request)
    days = number_in(request, "days")
    if days is None:
        raise Problem("malformed", "days: say how many days of the audit to keep")
    pruned = await store.prune(_chain(request), time.time() - days * DAY, actor=actor)
    return JSONResponse({"pruned": pruned})


def _chain(request: Request) -> str:
    return text_in(request, "federation") or OWN_CHAIN
