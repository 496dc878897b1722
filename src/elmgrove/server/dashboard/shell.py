"""The shell: what is around each page of somebody who has logged in."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.server.dashboard.rendering import asked_for, part_of_url, query, rendered
from elmgrove.server.dashboard.session import User
from elmgrove.server.dashboard.time_range import stated_range

#: The pages of a federation, by title: what follows its name in the path.
TABS = {"Fleet": "", "Federation": "federation", "Audit": "audit"}


@dataclass(frozen=True)
class Tab:
    """A page of a federation that all its pages lead to."""

    title: str
    href: str
    is_here: bool


@dataclass(frozen=True)
class PagePlace:
    """Where a page is: of which federation, beside which others, and by what it is live.

    ``carried`` is the time range of its address, or the usual one, which links to other pages
    carry on.
    """

    federation: str = ""
    tabs: tuple[Tab, ...] = ()
    live: str = ""
    carried: str = ""


def page(
    request: Request,
    user: User,
    template: str,
    *,
    federation: str = "",
    seen: str | None = None,
    **values: Any,
) -> Response:
    """Makes a page of a template that extends ``page.html``; ``values`` are what it shows.

    With ``seen``, a marker that was asked for before anything else was read, it is live: each part
    of it that says so is loaded again when something changed.
    """
    root = f"/ui/{part_of_url(federation)}/"
    carried = query(**stated_range(request))
    tabs = (
        Tab(title, root + path + carried, request.url.path == root + path)
        for title, path in TABS.items()
    )
    live = "" if seen is None else f"{root}live{query(seen=seen)}"
    place = PagePlace(federation, tuple(tabs), live, carried)
    return rendered(template, user=user, place=place, here=asked_for(request), **values)


def exchange_of(request: Request, federation: str = "") -> str:
    """Gives the address of this server, or of a federation there, as commands take it."""
    return f"{request.url.scheme}://{request.url.netloc}{f'/{federation}' if federation else ''}"
