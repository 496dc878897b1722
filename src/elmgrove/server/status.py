"""Whether the server is alive, and whether it can work."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove import __version__
from elmgrove.server.service import service_of


async def health(request: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok", "version": __version__})


async def ready(request: Request) -> Response:
    """The data base answers as well."""
    await service_of(request).store.ready()
    return JSONResponse({"status": "ready", "version": __version__})
