"""The application: routes, errors, and what runs beside them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from threadpoolctl import threadpool_limits

from elmgrove.errors import ElmgroveError
from elmgrove.server import secrets
from elmgrove.server.openapi import document
from elmgrove.server.problems import Problem, answer
from elmgrove.server.routes import OFFERS, Handler
from elmgrove.server.service import Service
from elmgrove.server.store import open_store

#: The largest contribution taken unless said otherwise: 2,000 hidden units at 2,000 inputs.
MAX_BODY = 64 * 2**20


def make_app(store_url: str, admin_token: str, *, max_body: int = MAX_BODY) -> Starlette:
    """The exchange as an ASGI application, for ``elmgrove serve`` or any other ASGI server."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        store = await open_store(store_url)
        app.state.service = Service(store, secrets.hashed(admin_token), max_body)
        kept = (app.state.service.sums, app.state.service.groupings)
        following = asyncio.gather(*(followers.run() for followers in kept))
        try:
            # Many requests on one thread each, rather than one on many.
            with threadpool_limits(1, "blas"):
                yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):  # which is what was just asked for
                await following
            await store.close()

    routes = [*_routes(), Route("/openapi.json", _openapi)]
    kinds = (Problem, ElmgroveError, HTTPException, KeyError, Exception)
    return Starlette(
        routes=routes, lifespan=lifespan, exception_handlers=dict.fromkeys(kinds, answer)
    )


def _routes() -> Iterator[Route]:
    """One for each path, so that a wrong method is answered with all that are right."""
    for path in dict.fromkeys(offer.path for offer in OFFERS):
        handlers = {offer.method: offer.handler for offer in OFFERS if offer.path == path}
        yield Route(path, partial(_handled, handlers), methods=list(handlers))


async def _handled(handlers: Mapping[str, Handler], request: Request) -> Response:
    return await handlers["GET" if request.method == "HEAD" else request.method](request)


async def _openapi(request: Request) -> Response:
    return JSONResponse(document())
