"""The pages: one table, from which the routes follow; who asks is found out before any handler."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from elmgrove.errors import Problem
from elmgrove.server.auth import require_role
from elmgrove.server.dashboard import (
    audit_page,
    device_page,
    federation_page,
    fleet_page,
    session,
)
from elmgrove.server.dashboard.layout import exchange_of, page
from elmgrove.server.dashboard.rendering import HEADERS, asked_for, assets, path_of, query, rendered
from elmgrove.server.dashboard.session import (
    Form,
    User,
    form_of,
    parts_of,
    require_csrf,
    user_of,
)
from elmgrove.server.dashboard.time_range import with_range
from elmgrove.server.problems import KINDS

Show = Callable[[Request, User], Awaitable[Response]]
Take = Callable[[Request, User, Form], Awaitable[Response]]


class Page(NamedTuple):
    """A page: what shows it, and what takes the forms that are sent to its address.

    The address of one that ``is_ranged`` says which time it shows: without, it leads to one that
    does.
    """

    path: str
    show: Show
    take: Take | None = None
    is_ranged: bool = False


async def home(request: Request, user: User) -> Response:
    """List all federations, and how much is held of each."""
    found = await user.service.store.fleet.statistics()
    listed = [(name, found[name]) for name in sorted(found) if name]
    return page(request, user, "home.html", federations=listed, address=exchange_of(request))


async def _live(request: Request, user: User) -> Response:
    answer: Response = await request.app.state.streams.show(request, user)
    return answer


PAGES = (
    Page("/ui/", home),
    Page("/ui/{federation}/", fleet_page.show, is_ranged=True),
    Page("/ui/{federation}/live", _live),
    Page("/ui/{federation}/federation", federation_page.show, federation_page.take),
    Page("/ui/{federation}/audit", audit_page.show, is_ranged=True),
    Page("/ui/{federation}/devices/{device:path}", device_page.show, device_page.take, True),
)


def dashboard_routes() -> list[Route]:
    """Return the routes of all pages, and of what they load."""
    return [
        Route("/", _to_home),
        *assets.routes(),
        Route("/ui/login", session.show),
        Route("/ui/login", session.take, methods=["POST"]),
        Route("/ui/logout", _leave, methods=["POST"]),
        *map(route_of, PAGES),
    ]


def route_of(page: Page) -> Route:
    """Return the route of a page."""
    methods = ["GET"] if page.take is None else ["GET", "POST"]
    return Route(page.path, partial(_handled, page), methods=methods)


async def _handled(page: Page, request: Request) -> Response:
    """Ask the page, once it is known who asks: no new page can forget to find that out."""
    request.state.route = page.path.replace(":path}", "}")
    user = await user_of(request)
    if request.method == "POST" and page.take is not None:
        form = await _form(request, user)
        require_role(request, user.administrator)
        answer = await page.take(request, user, form)
    elif page.is_ranged and (said := with_range(request)) is not None:
        answer = RedirectResponse(path_of(request) + said, 303)
    else:
        answer = await page.show(request, user)
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


async def _form(request: Request, user: User) -> Form:
    form = await form_of(request)
    require_csrf(form, user.csrf)
    return form


async def _leave(request: Request) -> Response:
    """Let everybody log out, also who may only look."""
    request.state.route = "/ui/logout"
    await _form(request, await user_of(request))
    return await session.leave(request)


async def _to_home(request: Request) -> Response:
    request.state.route = "/"
    return RedirectResponse("/ui/", 303)


async def to_login(request: Request, error: Exception) -> Response:
    """Lead those who have not logged in to where they can, and from there to what they wanted."""
    if request.headers.get("hx-request") == "true":
        shown = parts_of(request.headers.get("hx-current-url", ""))
        where = _login(f"{shown.path}?{shown.query}" if shown.query else shown.path)
        return Response(status_code=401, headers={**HEADERS, "HX-Redirect": where})
    if request.method == "POST":
        return RedirectResponse(_login(""), 303, HEADERS)
    if request.headers.get("sec-fetch-site") == "cross-site":
        return rendered("continue.html", here=asked_for(request))
    return RedirectResponse(_login(asked_for(request)), 303, HEADERS)


def _login(following: str) -> str:
    return "/ui/login" + query(next=following)


def problem_page(problem: Problem) -> Response:
    """Show a refusal to a person."""
    status, title = KINDS[problem.kind]
    answer = rendered("refused.html", status=status, title=title, detail=str(problem))
    answer.headers.update(problem.headers)
    return answer
