"""Groups over HTTP: who is of one kind with whom."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.federation import DISTANCES
from elmgrove.server.callers import caller_of
from elmgrove.server.problems import Problem


async def show(request: Request) -> Response:
    """Which patterns of which devices are of one kind: the standing groups, or grouped anew."""
    caller, query = await caller_of(request), request.query_params
    distance, anew, count = (
        query.get("distance", "evidence"),
        query.get("anew"),
        query.get("groups"),
    )
    if distance not in DISTANCES:
        raise Problem("malformed", f"distance: {distance!r:.40} is not {' or '.join(DISTANCES)}")
    if anew not in (None, "true", "false"):
        raise Problem("malformed", f"anew: {anew!r:.40} is not true or false")
    if count is not None and not (count.isascii() and count.isdigit() and len(count) < 10):
        raise Problem("malformed", f"groups: {count!r:.40} is not a whole number")
    groupings, asked = caller.service.groupings, (caller.federation, caller.charter, distance)
    if anew != "true" and count is None:
        return JSONResponse(await groupings.standing(*asked).fields())
    return JSONResponse(await groupings.anew(*asked, None if count is None else int(count)))
