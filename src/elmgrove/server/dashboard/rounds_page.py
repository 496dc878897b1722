"""The page of a federation in rounds: where it stands, and who is asked."""

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.server.auth import Caller
from elmgrove.server.dashboard.shell import exchange_of, page
from elmgrove.server.dashboard.visitors import Visitor


async def show_rounds(request: Request, visitor: Visitor, caller: Caller) -> Response:
    """Shows where a federation in rounds stands; its devices tell nothing of themselves."""
    store, name = caller.service.store, caller.federation.name
    return page(
        request,
        visitor,
        "rounds.html",
        federation=name,
        in_rounds=True,
        agenda=caller.agenda,
        state=await store.rounds(name),
        round_told=round_told,
        devices=await store.devices(name),
        exchange=exchange_of(request, name),
    )


def round_told(number: int, last: int) -> str:
    """Says where a federation in rounds stands.

    >>> round_told(0, 3), round_told(2, 3), round_told(4, 3)
    ('waits for the first of 3', '2 of 3', 'all 3 are over')
    """
    if not number:
        return f"waits for the first of {last}"
    return f"{number} of {last}" if number <= last else f"all {last} are over"
