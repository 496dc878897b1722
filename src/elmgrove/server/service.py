"""The service: what all requests share, and how their bodies and queries are read."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from starlette.requests import ClientDisconnect, Request

from elmgrove.errors import Problem
from elmgrove.federation.charter import Charter
from elmgrove.reading.times import stated_time
from elmgrove.server.live import CorruptEntries, LiveFleet
from elmgrove.server.secrets import Passwords
from elmgrove.server.store.federations import FederationRow
from elmgrove.server.store.store import Store
from elmgrove.server.sums import LiveOthers, LiveSums

#: Longest JSON document that is read: names and scaling of some 50,000 features in a charter...
LONGEST_CHARTER = 4 * 2**20
#: ...and a few names else. Nothing is answered meanwhile: 4 MiB can take a second.
LONGEST_JSON = 2**14


@dataclass
class Service:
    """The store, what is live of it, the administrator's hash, and the longest body to take."""

    #: A contribution of 2,000 hidden units at 2,000 inputs.
    max_body: ClassVar[int] = 64 * 2**20

    store: Store
    admin_hash: str
    corrupt: CorruptEntries = field(default_factory=CorruptEntries, init=False)
    passwords: Passwords = field(default_factory=Passwords, init=False)
    live_sums: LiveSums = field(init=False)
    live_others: LiveOthers = field(init=False)
    live_fleet: LiveFleet = field(init=False)
    _charters: dict[tuple[str, float], Charter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.live_sums = LiveSums(self.store, self.corrupt)
        self.live_others = LiveOthers(self.store, self.corrupt)
        self.live_fleet = LiveFleet(self.store)

    @property
    def live(self) -> tuple[LiveSums, LiveOthers, LiveFleet]:
        """All that is kept up with the store while the server runs."""
        return self.live_sums, self.live_others, self.live_fleet

    def wake(self) -> None:
        """Tell that something was stored, so that all that is live takes it in at once."""
        for live in self.live:
            live.wake()

    def charter(self, federation: FederationRow) -> Charter:
        """Return the charter of a federation; it is made once, since every request asks for it."""
        key = (federation.name, federation.created)
        if key not in self._charters:
            self._charters[key] = Charter.from_fields(
                {
                    "name": federation.name,
                    "basis": federation.basis,
                    "ridge": federation.ridge,
                    "members": federation.members,
                    "merged": federation.merged,
                    "terms": federation.terms,
                }
            )
        return self._charters[key]


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def body_of(request: Request, limit: int, seconds: float = 120.0) -> bytes:
    """Read a request's body, if it is no longer than ``limit``, whatever its headers claim."""
    chunks, size = list[bytes](), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise Problem(
                        "too-large", f"the body is longer than the {limit} bytes it may have"
                    )
                chunks.append(chunk)
    except ClientDisconnect:
        raise Problem("malformed", "the body broke off") from None
    except TimeoutError:
        raise Problem("slow", f"the body did not arrive within {seconds:g} s") from None
    return b"".join(chunks)


async def json_of(request: Request, limit: int = LONGEST_JSON) -> dict[str, Any]:
    return object_of(await body_of(request, limit))


def object_of(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Problem("malformed", f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem("malformed", "the body must be a JSON object")
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        # As "\ud800" it is JSON, but no text that could be written anywhere.
        text = error.object[error.start : error.end]
        raise Problem(
            "malformed",
            f"a name or another text can't be encoded: {text!r:.40} is half a character",
        ) from error
    return found


def text_in(request: Request, name: str) -> str | None:
    text = request.query_params.get(name)
    # PostgreSQL can't even look for such a name.
    if text is not None and "\0" in text:
        raise Problem("malformed", f"{name}: a name can't contain a NUL character")
    return text


def number_in(request: Request, name: str) -> float | None:
    """Return a number from 0 on in the query."""
    text = request.query_params.get(name)
    if text is None:
        return None
    digits, _, fraction = text.partition(".")
    if not f"{digits}{fraction}".isascii() or not f"{digits}{fraction}".isdigit() or len(text) > 18:
        raise Problem("malformed", f"{name}: {text!r:.40} is not a number from 0 on")
    return float(text)


def time_in(request: Request, name: str) -> float | None:
    """Return a time in the query, in ISO 8601 or in seconds since 1970."""
    text = request.query_params.get(name)
    return None if text is None else stated_time(name, text)
