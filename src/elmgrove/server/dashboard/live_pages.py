"""Live pages: by server-sent events they learn that something changed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from elmgrove.server.auth import Caller
from elmgrove.server.dashboard.visitors import NoVisit, Visitor
from elmgrove.server.problems import too_many
from elmgrove.server.store import NoSuchFederation, StoreUnavailable

#: Seconds between two signs of life: proxies cut what is silent for a minute.
HEARTBEAT = 20.0
#: Streams of one visit at once: a browser has one for each window that is in front.
MOST_BY_VISIT = 8
# nginx would hold back what is told until a buffer is full.
_UNHELD = {"X-Accel-Buffering": "no"}


class Streams:
    """All streams of a server: few for each visit, and all over at once when the server ends."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = Counter[str]()
        self._ending = asyncio.Event()

    def release(self) -> None:
        """Ends all streams, so that a server which ends need not wait for them."""
        self._ending.set()

    async def show(self, request: Request, visitor: Visitor) -> Response:
        """Tells a page whenever a summary, a contribution or an errand of its federation came."""
        caller = await visitor.caller(request)
        if self._open.total() >= self._most or self._open[visitor.id_hash] >= MOST_BY_VISIT:
            raise too_many("as many pages are live as may be at once", HEARTBEAT)
        # After a break a browser says what it saw last.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        told = self._told(visitor, caller, seen[:64])
        return StreamingResponse(told, headers=_UNHELD, media_type="text/event-stream")

    async def _told(self, visitor: Visitor, caller: Caller, seen: str) -> AsyncIterator[str]:
        self._open[visitor.id_hash] += 1
        news = self._news(caller, seen)
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            yield ": live\n\n"
            while True:
                await asyncio.wait((news, ending), timeout=HEARTBEAT, return_when="FIRST_COMPLETED")
                if ending.done():
                    return
                if not await visitor.is_there():
                    raise NoVisit
                if not news.done():
                    yield ": still live\n\n"
                    continue
                yield f"event: changed\nid: {news.result()}\ndata:\n\n"
                news = self._news(caller, news.result())
        except (NoVisit, NoSuchFederation):
            # The page is asked for again, and that will say why.
            yield "event: ended\ndata:\n\n"
        except StoreUnavailable:
            return  # the page asks again by itself
        finally:
            self._open[visitor.id_hash] -= 1
            self._open += Counter()
            news.cancel()
            ending.cancel()
            await asyncio.gather(news, ending, return_exceptions=True)

    def _news(self, caller: Caller, seen: str) -> asyncio.Future[str]:
        """The marker of what is newer than what was seen, when there is something."""
        return asyncio.ensure_future(caller.service.live_fleet.wait(caller.federation.name, seen))
