"""The pages: one table, from which the routes follow, and the events that keep them live.

Who asks is found out before any handler.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from elmgrove.errors import NotFound, Problem, StoreUnavailable, Unauthorized
from elmgrove.server.auth import Caller, require_role
from elmgrove.server.dashboard import audit_page, device_page, federation_page, fleet_page, session
from elmgrove.server.dashboard.rendering import (
    HEADERS,
    asked_for,
    assets,
    exchange_of,
    page,
    path_of,
    query,
    rendered,
    root_of_pages,
    with_range,
)
from elmgrove.server.dashboard.session import Form, User, form_of, parts_of, require_csrf, user_of
from elmgrove.server.problems import KINDS, too_many

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
    found = await user.service.store.fleet.statistics()
    listed = [(name, found[name]) for name in sorted(found) if name]
    return page(request, user, "home.html", federations=listed, address=exchange_of(request))


class _Stream(StreamingResponse):
    """A stream, which says when it is over: also if nobody was there any more to read it."""

    def __init__(self, events: AsyncIterator[str], over: Callable[[], None]) -> None:
        # Else nginx would hold events back until a buffer is full.
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()


class Streams:
    """The server-sent events by which live pages learn that something changed.

    Few for each user, and all over at once when the server ends.
    """

    #: Seconds between two signs of life: proxies cut what is silent for a minute.
    HEARTBEAT = 20.0

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_session, self._by_user = Counter[str](), Counter[str]()
        self._ending = asyncio.Event()

    def release(self) -> None:
        """End all streams, so that a server which ends need not wait for them."""
        self._ending.set()

    async def show(self, request: Request, user: User) -> Response:
        """Tell a page whenever a report, a contribution or a command of its federation came."""
        caller = await user.caller(request)
        # A browser has one for each window that is in front, and some of its six connections to a
        # server must be left for pages. An administrator may have logged in on several machines.
        if (
            self._by_session.total() >= self._most
            or self._by_session[user.csrf] >= 4
            or self._by_user[user.name] >= 32
        ):
            raise too_many("as many pages are live as may be at once", self.HEARTBEAT)
        self._count(user, 1)
        # After a break a browser says what it saw last.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return _Stream(self._events(user, caller, seen[:64]), partial(self._count, user, -1))

    def _count(self, user: User, change: int) -> None:
        for counts, who in ((self._by_session, user.csrf), (self._by_user, user.name)):
            counts[who] += change
            if not counts[who]:
                del counts[who]

    async def _events(self, user: User, caller: Caller, seen: str) -> AsyncIterator[str]:
        def next_change(seen: str) -> asyncio.Future[str]:
            return asyncio.ensure_future(
                caller.service.live_fleet.wait(caller.federation.name, seen)
            )

        change, ending = next_change(seen), asyncio.ensure_future(self._ending.wait())
        try:
            yield ": live\n\n"
            while True:
                await asyncio.wait(
                    (change, ending), timeout=self.HEARTBEAT, return_when="FIRST_COMPLETED"
                )
                if ending.done():
                    return
                if not await user.is_there():
                    raise Unauthorized
                if not change.done():
                    yield ": still live\n\n"
                    continue
                yield f"event: changed\nid: {change.result()}\ndata:\n\n"
                change = next_change(change.result())
        except (Unauthorized, NotFound):
            # The page is asked for again, and that will say why.
            yield "event: ended\ndata:\n\n"
        except StoreUnavailable:
            return  # the page asks again by itself
        finally:
            change.cancel()
            ending.cancel()
            await asyncio.gather(change, ending, return_exceptions=True)


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
    return [
        Route("/", _to_home),
        *assets.routes(),
        Route("/ui/login", session.show),
        Route("/ui/login", session.take, methods=["POST"]),
        # Everybody may log out, also who may only look.
        Route("/ui/logout", session.leave, methods=["POST"]),
        *map(route_of, PAGES),
    ]


def route_of(page: Page) -> Route:
    methods = ["GET"] if page.take is None else ["GET", "POST"]
    return Route(page.path, partial(_handled, page), methods=methods)


async def _handled(page: Page, request: Request) -> Response:
    """Ask the page, once it is known who asks: no new page can forget to find that out."""
    request.state.route = page.path.replace(":path}", "}")
    user = await user_of(request)
    if request.method == "POST" and page.take is not None:
        form = await form_of(request)
        require_csrf(form, user.csrf)
        require_role(request, user.administrator)
        answer = await page.take(request, user, form)
    elif page.is_ranged and (said := with_range(request)) is not None:
        answer = RedirectResponse(path_of(request) + said, 303)
    else:
        answer = await page.show(request, user)
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


async def _to_home(request: Request) -> Response:
    request.state.route = "/"
    return RedirectResponse(f"{root_of_pages(request)}/", 303)


async def to_login(request: Request, error: Exception) -> Response:
    """Lead those who have not logged in to where they can, and from there to what they wanted."""
    ui = root_of_pages(request)

    def login(following: str) -> str:
        return f"{ui}/login{query(next=following)}"

    if request.headers.get("hx-request") == "true":
        shown = parts_of(request.headers.get("hx-current-url", ""))
        where = login(f"{shown.path}?{shown.query}" if shown.query else shown.path)
        return Response(status_code=401, headers={**HEADERS, "HX-Redirect": where})
    if request.method == "POST":
        return RedirectResponse(login(""), 303, HEADERS)
    if request.headers.get("sec-fetch-site") == "cross-site":
        return rendered("continue.html", ui, here=asked_for(request))
    return RedirectResponse(login(asked_for(request)), 303, HEADERS)


def problem_page(problem: Problem, root_path: str) -> Response:
    status, title = KINDS[problem.kind]
    detail = str(problem)
    answer = rendered("refused.html", f"{root_path}/ui", status=status, title=title, detail=detail)
    answer.headers.update(problem.headers)
    return answer
