"""The layout: what is around each page of somebody who has logged in."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.server.dashboard.rendering import asked_for, part_of_url, query, rendered
from elmgrove.server.dashboard.session import User
from elmgrove.server.dashboard.time_range import stated_range


def page(
    request: Request,
    user: User,
    template: str,
    *,
    federation: str = "",
    seen: str | None = None,
    **values: Any,
) -> Response:
    """Render a template that extends ``page.html``; ``values`` are what it shows.

    With ``seen``, a marker that was asked for before anything else was read, it is live: each part
    of it that says so is loaded again when something changed.
    """
    root = f"/ui/{part_of_url(federation)}/"
    # Links to other pages carry the time range on.
    range_query = query(**stated_range(request))
    tabs = [
        (title, root + path + range_query, request.url.path == root + path)
        for title, path in (("Fleet", ""), ("Federation", "federation"), ("Audit", "audit"))
    ]
    return rendered(
        template,
        user=user,
        federation=federation,
        tabs=tabs,
        live="" if seen is None else f"{root}live{query(seen=seen)}",
        range_query=range_query,
        here=asked_for(request),
        **values,
    )


def exchange_of(request: Request, federation: str = "") -> str:
    """Return the address of this server, or of a federation there, as commands take it."""
    return f"{request.url.scheme}://{request.url.netloc}{f'/{federation}' if federation else ''}"
