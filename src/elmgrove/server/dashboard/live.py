"""Live pages: by server-sent events they learn that something changed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from elmgrove.errors import NotFound, StoreUnavailable, Unauthorized
from elmgrove.server.auth import Caller
from elmgrove.server.dashboard.session import User
from elmgrove.server.problems import too_many

#: Seconds between two signs of life: proxies cut what is silent for a minute.
HEARTBEAT = 20.0
#: Streams of one session at once: a browser has one for each window that is in front, and some of
#: its six connections to a server must be left for pages. And those of one administrator, who may
#: have logged in on several machines.
MOST_BY_SESSION, MOST_BY_USER = 4, 32


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
    """All streams of a server: few for each user, and all over at once when the server ends."""

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
        if (
            self._by_session.total() >= self._most
            or self._by_session[user.id_hash] >= MOST_BY_SESSION
            or self._by_user[user.name] >= MOST_BY_USER
        ):
            raise too_many("as many pages are live as may be at once", HEARTBEAT)
        self._count(user, 1)
        # After a break a browser says what it saw last.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return _Stream(self._told(user, caller, seen[:64]), partial(self._count, user, -1))

    def _count(self, user: User, change: int) -> None:
        for counts, who in ((self._by_session, user.id_hash), (self._by_user, user.name)):
            counts[who] += change
            if not counts[who]:
                del counts[who]

    async def _told(self, user: User, caller: Caller, seen: str) -> AsyncIterator[str]:
        news = self._news(caller, seen)
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            yield ": live\n\n"
            while True:
                await asyncio.wait((news, ending), timeout=HEARTBEAT, return_when="FIRST_COMPLETED")
                if ending.done():
                    return
                if not await user.is_there():
                    raise Unauthorized
                if not news.done():
                    yield ": still live\n\n"
                    continue
                yield f"event: changed\nid: {news.result()}\ndata:\n\n"
                news = self._news(caller, news.result())
        except (Unauthorized, NotFound):
            # The page is asked for again, and that will say why.
            yield "event: ended\ndata:\n\n"
        except StoreUnavailable:
            return  # the page asks again by itself
        finally:
            news.cancel()
            ending.cancel()
            await asyncio.gather(news, ending, return_exceptions=True)

    def _news(self, caller: Caller, seen: str) -> asyncio.Future[str]:
        """The marker of what is newer than what was seen, when there is something."""
        return asyncio.ensure_future(caller.service.live_fleet.wait(caller.federation.name, seen))
