"""Contributions over HTTP: put, fetch, merge, group and take back."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from elmgrove.errors import NotFound, Problem
from elmgrove.federation.contribution import HIGHEST_USABLE_EPOCH, Contribution, Departure, framed
from elmgrove.federation.groups import EVIDENCE
from elmgrove.federation.ledger import Version, follows
from elmgrove.federation.merged import Merged
from elmgrove.federation.others import content_limit
from elmgrove.federation.sums import Influence
from elmgrove.federation.terms import of_enough
from elmgrove.server.auth import Caller, caller_of
from elmgrove.server.service import body_of
from elmgrove.server.store.contributions import StoredEntry
from elmgrove.server.store.federations import FederationRow

BLOB = "application/octet-stream"


async def put(request: Request) -> Response:
    """Store a contribution in place of the device's last one. Repeating it changes nothing."""
    caller = await caller_of(request)
    name = request.path_params["device"]
    caller.require_device(name)
    blob = await body_of(request, _limit(caller))
    contribution = await asyncio.to_thread(_checked, caller, name, blob)
    entry = await _store(caller, contribution, blob)
    body = {"origin": name, "epoch": entry.epoch, "revision": entry.revision}
    return JSONResponse(body, headers={"ETag": f'"{entry.digest}"'})


async def get(request: Request) -> Response:
    """Return one device's contribution, as it was put."""
    caller = await caller_of(request)
    caller.require_shown(request.path_params["device"])
    found = await caller.service.store.contributions.blob(
        caller.charter.name, request.path_params["device"]
    )
    if found is None:
        raise Problem("not-found", "this device has contributed nothing, or left")
    entry, blob = found
    if not await _is_intact(caller, *found):
        raise Problem("not-found", "this device's contribution is corrupt until its next sync")
    headers = {"ETag": f'"{entry.digest}"'}
    if entry.digest in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(blob, headers=headers, media_type=BLOB)


async def leave(request: Request) -> Response:
    """Take a device's contribution out of the sum, from the next sync of the others on."""
    caller = await caller_of(request)
    name = request.path_params["device"]
    caller.require_own(name)
    epoch = request.query_params.get("epoch")
    if epoch is None:
        await caller.store.contributions.leave(caller.federation.name, name, actor=caller.actor)
        caller.service.wake()
        return Response(status_code=204)
    if not (epoch.isascii() and epoch.isdigit() and len(epoch) < 20):
        raise Problem("malformed", f"epoch: {epoch!r:.40} is not a whole number")
    _require_usable(int(epoch))
    await _store(caller, Departure(name, int(epoch)), None)
    return Response(status_code=204)


async def index(request: Request) -> Response:
    """List the contributions of all devices, without their content."""
    caller = await caller_of(request)
    service, federation, charter = caller.service, caller.federation, caller.charter
    entries = await service.store.contributions.entries(charter.name)
    influence = await service.live_sums.influence(federation, charter)
    return JSONResponse({"entries": [_shown(caller, entry, influence) for entry in entries]})


async def some(request: Request) -> Response:
    """Return the entries of the devices that ``origin`` names (repeated), or all contributions."""
    caller = await caller_of(request)
    wanted = list(dict.fromkeys(request.query_params.getlist("origin")))
    if len(wanted) > 100:
        raise Problem("too-large", "origin: a request names at most 100 devices")
    for origin in wanted or (None,):
        caller.require_shown(origin)
    blobs = _bundled(caller, wanted)
    # Before the answer begins, so that it may still be a refusal.
    first = await anext(blobs, b"")
    return StreamingResponse(_streamed(first, blobs), media_type=BLOB)


async def merged(request: Request) -> Response:
    """Return the sum over all devices but the caller; 304 if the caller has it.

    With ``grouped``, by evidence: the sums of the caller's groups.
    """
    caller = await caller_of(request)
    without, grouped = _asked(request, caller)
    federation, service = caller.federation, caller.service
    # Read before the sum: a sum may be newer than its number, never older. In groups the caller's
    # own change matters as well: it may lead to another group.
    others = without if grouped is None else None
    stamp = _stamp(
        federation, await service.store.contributions.revision(federation.name, others), grouped
    )

    async def found() -> Merged:
        if grouped is None or without is None:
            total = await service.live_sums.merged(federation, caller.charter, without, stamp)
            return total if total.devices >= caller.least else total.nobody
        live = service.live_groups.grouping(federation, caller.charter)
        return await live.merged(without, stamp, caller.least)

    return await _unless_known(request, stamp, found)


async def others(request: Request) -> Response:
    """Return the sums of all devices but the caller, in groups; 304 if it has them."""
    caller = await caller_of(request)
    # To an administrator all devices are others.
    without = _asked(request, caller)[0] or ""
    federation, service = caller.federation, caller.service
    # Its own change may lead to another group, and so to other sums.
    stamp = _stamp(
        federation, await service.store.contributions.revision(federation.name), "others"
    )
    live = service.live_others.of(federation, caller.charter)
    return await _unless_known(request, stamp, partial(live.merged, without, stamp, caller.least))


async def _unless_known(
    request: Request, stamp: int, found: Callable[[], Awaitable[Merged]]
) -> Response:
    """Answer with what is found, or with 304 if the caller has what the stamp names."""
    headers = {"ETag": f'"{stamp}"', "Cache-Control": "no-cache"}
    if f'"{stamp}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    merged = await found()
    blob = await asyncio.to_thread(merged.to_bytes)
    return Response(blob, headers=headers, media_type=BLOB)


def _asked(request: Request, caller: Caller) -> tuple[str | None, str | None]:
    """The device that is left out of the sum, and by what it is grouped."""
    without = request.query_params.get("without", caller.device)
    if without is not None:
        caller.require_own(without)
    grouped = request.query_params.get("grouped")
    if grouped not in (None, EVIDENCE):
        raise Problem("malformed", f"grouped: {grouped!r:.40} is not {EVIDENCE}")
    if grouped is not None and without is None:
        raise Problem("malformed", "without: name the device whose groups these are to be")
    return without, grouped


async def _store(
    caller: Caller, entry: Contribution | Departure, blob: bytes | None
) -> StoredEntry:
    evidence = entry.evidence if isinstance(entry, Contribution) else None
    count = 0.0 if evidence is None else evidence.count
    digest = "" if blob is None else sha256(blob).hexdigest()
    new = Version(entry.epoch, None if blob is None else count, digest)

    def successor(held: StoredEntry | None) -> bool:
        return follows(None if held is None else _version(held), new)

    stored = await caller.store.contributions.put(
        caller.federation.name,
        entry.origin,
        entry.epoch,
        count,
        blob,
        time.time(),
        successor=successor,
        actor=caller.actor,
    )
    service = caller.service
    service.live_sums.note_change(caller.federation, caller.charter, stored.revision, evidence)
    service.wake()
    return stored


def _limit(caller: Caller) -> int:
    """What all patterns of a device can need, and no more than the server takes."""
    return min(content_limit(caller.charter), caller.service.max_body)


def _checked(caller: Caller, name: str, blob: bytes) -> Contribution:
    contribution = Contribution.from_bytes(blob)
    if contribution.origin != name:
        raise Problem("forbidden", f"{name!r} may not publish as {contribution.origin!r}")
    _require_usable(contribution.epoch)
    caller.charter.require(contribution)
    # Each doubling beyond what others have makes work for all of them (``BoundedSum``).
    if (rows := contribution.evidence.count) >= HIGHEST_USABLE_EPOCH:
        raise Problem("not-admissible", f"{rows:g} rows are more than any device has seen")
    return contribution


def _require_usable(epoch: int) -> None:
    """Refuse an epoch that the device's name could hardly get past again."""
    if epoch >= HIGHEST_USABLE_EPOCH:
        raise Problem("malformed", f"epoch: {epoch} is more than any number of rows explains")


async def _is_intact(caller: Caller, entry: StoredEntry, blob: bytes) -> bool:
    """Return whether the bytes are those that were put: nobody could use others."""
    if await asyncio.to_thread(entry.holds, blob):
        return True
    add = caller.service.corrupt.add
    add(caller.federation, entry.origin, entry.revision, "not the bytes that were put")
    return False


def _stamp(federation: FederationRow, revision: int, grouped: str | None) -> int:
    """Name a state of the sum; a later federation of the same name has other numbers."""
    state = f"{federation.created!r} {revision}" + ("" if grouped is None else f" {grouped}")
    return int.from_bytes(sha256(state.encode()).digest()[:7], "big")


def _version(entry: StoredEntry) -> Version:
    return Version(entry.epoch, None if entry.left else entry.count, entry.digest)


def _shown(caller: Caller, entry: StoredEntry, influence: Influence) -> dict[str, object]:
    names = ("origin", "epoch", "count", "size", "received", "left", "revision")
    corrupt = caller.service.corrupt.has(caller.federation, entry.revision)
    weight = influence.bounded.get(entry.origin, 1.0)
    why = influence.why(entry.origin) if weight < 1.0 else None
    return {name: getattr(entry, name) for name in names} | {
        "weight": weight,
        "why": why,
        "corrupt": corrupt,
    }


async def _bundled(caller: Caller, wanted: list[str]) -> AsyncGenerator[bytes, None]:
    """Read one after the other: the data base waits for nobody who is slow to take them."""
    store, federation = caller.service.store, caller.charter.name
    held = [] if wanted else await store.contributions.entries(federation)
    for origin in wanted or [entry.origin for entry in held if not entry.left]:
        found = await store.contributions.blob(federation, origin)
        entry = await store.contributions.entry(federation, origin) if found is None else None
        if found is not None and await _is_intact(caller, *found):
            yield framed(found[1])
        elif entry is not None and entry.left:
            yield framed(Departure(origin, entry.epoch).to_bytes())


async def _streamed(first: bytes, blobs: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(blobs):
        yield first
        with suppress(NotFound):  # it was deleted meanwhile, so there is no more
            async for blob in blobs:
                yield blob


async def groups(request: Request) -> Response:
    """Return which patterns of which devices form groups: as they stand, or grouped again."""
    caller, query = await caller_of(request), request.query_params
    regroup, count = query.get("regroup"), query.get("groups")
    if regroup not in (None, "true", "false"):
        raise Problem("malformed", f"regroup: {regroup!r:.40} is not true or false")
    if count is not None and not (count.isascii() and count.isdigit() and len(count) < 10):
        raise Problem("malformed", f"groups: {count!r:.40} is not a whole number")
    live, which = caller.service.live_groups, (caller.federation, caller.charter)
    if regroup != "true" and count is None:
        made = await live.grouping(*which).fields()
    else:
        asker = f"{caller.charter.name} {caller.device}"
        made = await live.regrouped(*which, None if count is None else int(count), asker)
    return JSONResponse(of_enough(made, caller.device, caller.least))
