"""Contributions over HTTP: put, fetch, merge, group and take back."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from elmgrove.errors import NotFound, Problem
from elmgrove.federation.aggregation import content_limit
from elmgrove.federation.contribution import (
    HIGHEST_USABLE_EPOCH,
    Contribution,
    Departure,
    Version,
    follows,
    framed,
)
from elmgrove.federation.merged import Merged, Own
from elmgrove.federation.selection import Everyone, Rule, rule_of
from elmgrove.server.auth import Caller, body_of, caller_of
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
    """Return one device's contribution, as it was put; to others than administrators their own."""
    caller = await caller_of(request)
    caller.require_own(request.path_params["device"])
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
    less = await service.live_sums.less(federation, charter)
    return JSONResponse({"entries": [_shown(caller, entry, less) for entry in entries]})


async def some(request: Request) -> Response:
    """Return all contributions, one after the other."""
    caller = await caller_of(request)
    caller.require_admin()
    blobs = _bundled(caller)
    # Before the answer begins, so that it may still be a refusal.
    first = await anext(blobs, b"")
    return StreamingResponse(_streamed(first, blobs), media_type=BLOB)


async def merged(request: Request) -> Response:
    """Return the sum over those whom the caller learns from; 304 if the caller has it.

    ``merge`` says whom, as a device's setting does. By ``group``, or with ``patterns``: the sums of
    groups.
    """
    caller = await caller_of(request)
    without, rule = _asked(request, caller)
    patterns = request.query_params.get("patterns", "false")
    if patterns not in ("true", "false"):
        raise Problem("malformed", f"patterns: {patterns!r:.40} is not true or false")
    federation, service, charter = caller.federation, caller.service, caller.charter
    is_total = isinstance(rule, Everyone) and patterns == "false"
    # Read before the sum: a sum may be newer than its number, never older. But for the sum over all
    # others the caller's own change matters as well: it may lead to other ones.
    others = without if is_total else None
    revision = await service.store.contributions.revision(federation.name, others)
    stamp = _stamp(federation, revision, f"merged {patterns} {rule}")

    async def found() -> Merged:
        if is_total:
            total = await service.live_sums.merged(federation, charter, without, stamp)
            return total if total.devices >= caller.least else total.nobody
        live = service.live_others.of(federation, charter)
        several = patterns == "true"
        return await live.merged(stamp, without or "", rule, caller.least, patterns=several)

    return await _unless_known(request, caller, stamp, found)


async def others(request: Request) -> Response:
    """Return the sums of those whom the caller learns from, in groups; 304 if it has them."""
    caller = await caller_of(request)
    # To an administrator all devices are others.
    without, rule = _asked(request, caller)
    federation, service = caller.federation, caller.service
    # Its own change may lead to another group, and so to other sums.
    revision = await service.store.contributions.revision(federation.name)
    stamp = _stamp(federation, revision, f"others {rule}")
    live = service.live_others.of(federation, caller.charter)
    found = partial(live.others, stamp, without or "", rule, caller.least)
    return await _unless_known(request, caller, stamp, found)


async def _unless_known(
    request: Request, caller: Caller, stamp: int, found: Callable[[], Awaitable[Merged]]
) -> Response:
    """Answer with what is found, or with 304 if the caller has what the stamp names."""
    headers = {"ETag": f'"{stamp}"', "Cache-Control": "no-cache"}
    if f'"{stamp}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    merged = await found()
    if caller.device is not None:
        entries = caller.service.store.contributions
        entry = await entries.entry(caller.federation.name, caller.device)
        own = None if entry is None else Own(entry.epoch, entry.left)
        merged = replace(merged, own=own)
    blob = await asyncio.to_thread(merged.to_bytes)
    return Response(blob, headers=headers, media_type=BLOB)


def _asked(request: Request, caller: Caller) -> tuple[str | None, Rule]:
    without = request.query_params.get("without", caller.device)
    if without is not None:
        caller.require_own(without)
    return without, rule_of(request.query_params.get("merge", "everyone"))


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
        digest=digest,
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
    contribution = Contribution.from_bytes(blob, caller.charter.basis)
    if contribution.origin != name:
        raise Problem("forbidden", f"{name!r} may not publish as {contribution.origin!r}")
    _require_usable(contribution.epoch)
    caller.charter.require(contribution)
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


def _stamp(federation: FederationRow, revision: int, asked: str) -> int:
    """Name a state of the sum; a later federation of the same name has other numbers."""
    state = f"{federation.created!r} {revision} {asked}"
    return int.from_bytes(sha256(state.encode()).digest()[:7], "big")


def _version(entry: StoredEntry) -> Version:
    return Version(entry.epoch, None if entry.left else entry.count, entry.digest)


def _shown(
    caller: Caller, entry: StoredEntry, less: dict[str, tuple[float, str]]
) -> dict[str, object]:
    names = ("origin", "epoch", "count", "size", "received", "left", "revision")
    weight, why = less.get(entry.origin, (1.0, None))
    corrupt = caller.service.corrupt.has(caller.federation, entry.revision)
    found = {name: getattr(entry, name) for name in names}
    return found | {"weight": weight, "why": why, "corrupt": corrupt}


async def _bundled(caller: Caller) -> AsyncGenerator[bytes, None]:
    """Read one after the other: the data base waits for nobody who is slow to take them."""
    store, federation = caller.service.store.contributions, caller.charter.name
    for entry in await store.entries(federation):
        if entry.left:
            yield framed(Departure(entry.origin, entry.epoch).to_bytes())
            continue
        found = await store.blob(federation, entry.origin)
        if found is not None and await _is_intact(caller, *found):
            yield framed(found[1])


async def _streamed(first: bytes, blobs: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(blobs):
        yield first
        with suppress(NotFound):  # it was deleted meanwhile, so there is no more
            async for blob in blobs:
                yield blob
