"""Rounds over HTTP: made, waited for, answered, and what came of them."""

import asyncio
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elmgrove.errors import BadFile, BadInput, ElmgroveError, Mismatch, NotAdmissible
from elmgrove.exchange import plain
from elmgrove.rounds import NOTHING_NEW, Opening, reason
from elmgrove.server.auth import Caller, caller_of, require_admin
from elmgrove.server.contributions import BLOB
from elmgrove.server.problems import Problem
from elmgrove.server.registry import hand_over
from elmgrove.server.secrets import hashed, new_secret
from elmgrove.server.service import body_of, service_of
from elmgrove.server.store import FederationRow, RoundsRow, StoredReply

#: The longest that a client may wait for its turn with one request, in seconds.
LONGEST_WAIT = 30.0


async def create(request: Request) -> Response:
    """Makes a federation in rounds; the answer holds the token with which clients join, once."""
    service, (store, actor) = service_of(request), await require_admin(request)
    opening = await asyncio.to_thread(Opening.from_bytes, await body_of(request, service.max_body))
    agenda, task, token = opening.agenda, opening.task, new_secret("join")
    made = FederationRow(
        agenda.name,
        task.basis.fields,
        float(task.ridge),
        agenda.members,
        hashed(token),
        time.time(),
        False,
        agenda.terms.fields,
        agenda.fields,
    )
    exam = None if opening.exam is None else opening.exam.to_bytes()
    first = (agenda.rounds, opening.request, opening.progress, exam)
    if not await store.create_rounds(made, *first, actor=actor):
        raise Problem("taken", f"there is a federation {agenda.name!r} already")
    service.wake()
    hand_over(request, token)
    return JSONResponse({**agenda.fields, "token": token}, 201)


async def show(request: Request) -> Response:
    """Tells the agenda, where the federation stands, and what happened in each round."""
    caller = await caller_of(request)
    agenda, store, name = caller.agenda, caller.service.store, caller.federation.name
    state = await _state(caller)
    joined = [device.name for device in await store.devices(name) if not device.revoked]
    return JSONResponse(
        {
            "agenda": agenda.fields,
            "number": state.number,
            "joined": joined,
            "asked": list(state.asked),
            "replied": sorted(state.replied),
            "left": 0.0 if state.ended else max(0.0, state.until - time.time()),
            "reports": await store.round_reports(name),
        }
    )


async def turn(request: Request) -> Response:
    """Waits until the device is asked or the last round is over; ``wait`` seconds, or fewer."""
    caller = await caller_of(request)
    if caller.device is None:
        raise Problem("forbidden", "only a device has a turn, with its own key")
    agenda, wait = caller.agenda, request.query_params.get("wait", "0")
    if not (wait.isascii() and wait.isdigit() and len(wait) < 6):
        raise Problem("malformed", f"wait: {wait!r:.40} is not a whole number of seconds")
    seconds = min(float(wait), LONGEST_WAIT)
    rounds = caller.service.live_rounds
    state, again = await rounds.turn(caller.federation.name, caller.device, seconds)
    is_asked = caller.device in state.asked and caller.device not in state.replied
    body = {
        "number": state.number,
        "rounds": agenda.rounds,
        "asked": is_asked,
        "ended": state.ended,
    }
    headers = {"Cache-Control": "no-store"}
    return JSONResponse(body, headers=headers | ({"Retry-After": f"{again:.0f}"} if again else {}))


async def give_request(request: Request) -> Response:
    """Gives what the clients of a round are asked; after the last round, what it led to."""
    caller = await caller_of(request)
    number = _number(caller, request)
    found = await caller.service.store.round_request(caller.federation.name)
    if found is None or found[0] != number:
        raise Problem("in-vain", f"round {number} is not the one that is held")
    return Response(found[1], media_type=BLOB)


async def take_reply(request: Request) -> Response:
    """Stores a client's reply to a round, or why it ``failed``. Repeating it changes nothing."""
    caller = await caller_of(request)
    name = request.path_params["device"]
    caller.require_device(name)
    number = _number(caller, request)
    blob = await body_of(request, caller.service.max_body)
    unusable, refusal = plain(request.query_params.get("failed", "")), None
    if not unusable:
        unusable, refusal = await _examined(caller, name, blob)
    reply = StoredReply.of(number, name, blob, unusable)
    if (why := await caller.store.put_reply(caller.federation, reply, time.time())) is not None:
        raise Problem("in-vain", why)
    caller.service.wake()
    if refusal is not None:
        raise refusal
    return JSONResponse({"number": number, "digest": reply.digest, "used": not unusable})


async def _examined(caller: Caller, name: str, blob: bytes) -> tuple[str, ElmgroveError | None]:
    """Says why a reply is of no use, if it is of none, and what to refuse it with."""
    rounds = caller.service.live_rounds
    try:
        usable = await rounds.is_usable(caller.federation, caller.agenda, name, blob)
    except (BadFile, BadInput, Mismatch, NotAdmissible) as error:
        return plain(reason(error)), error
    return "" if usable else NOTHING_NEW, None


async def gift(request: Request) -> Response:
    """Gives what a client gets after the last round, beside the request of the round after it."""
    caller = await caller_of(request)
    name = request.path_params["device"]
    caller.require_own(name)
    await _require_ended(caller)
    blob = await caller.service.live_rounds.use(
        caller.federation, caller.agenda, lambda rule: rule.gift(name)
    )
    return Response(blob, media_type=BLOB)


async def model(request: Request) -> Response:
    """Gives what all clients know together, after the last round."""
    caller = await caller_of(request)
    await _require_ended(caller)
    blob = await caller.service.live_rounds.use(
        caller.federation, caller.agenda, lambda rule: rule.merged().to_bytes()
    )
    return Response(blob, media_type=BLOB)


async def _state(caller: Caller) -> RoundsRow:
    _ = caller.agenda
    state = await caller.service.store.rounds(caller.federation.name)
    if state is None:
        raise Problem("not-found", f"{caller.federation.name!r} is no federation in rounds")
    return state


async def _require_ended(caller: Caller) -> None:
    state = await _state(caller)
    if not state.ended:
        raise Problem("in-vain", f"round {state.number} of {state.last} is not over")


def _number(caller: Caller, request: Request) -> int:
    """The number of a round in the path."""
    text = request.path_params["number"]
    _ = caller.agenda
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Problem("malformed", f"{text!r:.40} is not the number of a round")
    return int(text)
