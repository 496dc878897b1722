"""The audit over HTTP: read page by page, and pruned by age."""

import asyncio
import logging
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.federation import DAY
from elmgrove.server.auth import require_admin
from elmgrove.server.problems import Problem
from elmgrove.server.query import number_in, text_in
from elmgrove.server.store import AT_ONCE, OWN_CHAIN, SERVER, Store

log = logging.getLogger("elmgrove.server")

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
    """Deletes the records of a chain that are older than so many days; says how many."""
    store, actor = await require_admin(request)
    days = number_in(request, "days")
    if days is None:
        raise Problem("malformed", "days: say how many days of the audit to keep")
    pruned = await _prune(store, _chain(request), time.time() - days * DAY, actor)
    return JSONResponse({"pruned": pruned})


async def keep_pruned(store: Store, days: float) -> None:
    """Prunes all chains once a day, until cancelled; never, where 0 days keep all."""
    while days:
        try:
            for chain in await store.chains():
                await _prune(store, chain, time.time() - days * DAY, SERVER)
        except Exception:  # tomorrow is another day; what else runs must not stop
            log.exception("the audit could not be pruned")
        await asyncio.sleep(DAY)


async def _prune(store: Store, chain: str, until: float, actor: str) -> int:
    total, pruned = 0, AT_ONCE
    # Fewer are the last: to go on until there are none, clocks would have to be in step.
    while pruned == AT_ONCE:
        pruned = await store.prune(chain, until, actor=actor)
        total += pruned
    return total


def _chain(request: Request) -> str:
    return text_in(request, "federation") or OWN_CHAIN
