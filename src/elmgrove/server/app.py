"""The application: routes, errors, and what runs beside them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from elmgrove.blas import one_thread
from elmgrove.errors import ElmgroveError
from elmgrove.server import secrets
from elmgrove.server.openapi import document
from elmgrove.server.problems import Problem, answer
from elmgrove.server.routes import OFFERS
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
        following = asyncio.create_task(app.state.service.sums.run())
        try:
            # Many requests on one thread each, rather than one on many.
            with one_thread:
                yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            await store.close()

    routes = [Route(offer.path, offer.handler, methods=[offer.method]) for offer in OFFERS]
    routes.append(Route("/openapi.json", _openapi))
    kinds = (Problem, ElmgroveError, HTTPException, KeyError, Exception)
    return Starlette(
        routes=routes, lifespan=lifespan, exception_handlers=dict.fromkeys(kinds, answer)
    )


async def _openapi(request: Request) -> Response:
    return JSONResponse(document())
