"""The first page: all federations of the server."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.server.dashboard.session import User
from elmgrove.server.dashboard.shell import exchange_of, page
from elmgrove.server.store.fleet import Tally


@dataclass(frozen=True)
class Listed:
    """A federation as the first page lists it, with how much is held of it."""

    name: str
    tally: Tally


async def show(request: Request, user: User) -> Response:
    """Lists all federations, and how much is held of each."""
    tallies = await user.service.store.tallies()
    listed = [Listed(name, tallies[name]) for name in sorted(tallies) if name]
    return page(request, user, "home.html", federations=listed, address=exchange_of(request))
