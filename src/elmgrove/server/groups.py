"""Groups over HTTP: who is of one kind with whom."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.cooperation import DISTANCES
from elmgrove.server.callers import caller_of
from elmgrove.server.problems import Problem


async def show(request: Request) -> Response:
    """Which patterns of which devices are of one kind, and why."""
    caller = await caller_of(request)
    distance = request.query_params.get("distance", "evidence")
    if distance not in DISTANCES:
        raise Problem("malformed", f"distance: {distance!r:.40} is not {' or '.join(DISTANCES)}")
    count = request.query_params.get("groups")
    if count is not None and not (count.isascii() and count.isdigit() and len(count) < 10):
        raise Problem("malformed", f"groups: {count!r:.40} is not a whole number")
    found = await caller.service.groupings.grouping(
        caller.federation, caller.charter, distance, None if count is None else int(count)
    )
    return JSONResponse(found)
