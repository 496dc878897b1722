"""Limits: how often somebody may ask, and how much may be at work at once."""

import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmgrove.errors import Problem
from elmgrove.server.problems import throttled_log, too_many
from elmgrove.server.secrets import hashed, secret_of


@dataclass(frozen=True)
class Limits:
    """How much is taken at once, and how long is waited; deadlines are in seconds.

    Rates are a second, and ten seconds of them may come at once. An address is limited by requests
    without a valid secret, never by those with one. An IPv6 address is all addresses that begin
    with the same 64 bits.
    """

    #: Connections at once, if the system allows so many open files.
    connections: int = 10_000
    #: Requests at work at once; half of them for callers that are known.
    requests: int = 1000
    requests_by_key: int = 32
    rate_by_key: float = 50.0
    rate_by_address: float = 20.0
    #: Until a connection has sent the head of its next request.
    head_deadline: float = 10.0
    #: Until a caller has read some more of its answer.
    answer_deadline: float = 60.0


class TokenBuckets:
    """A bucket for each name, which fills at a steady rate, up to a burst.

    The names that were there last are remembered; any other has a full bucket.
    """

    def __init__(self, rate: float, burst: float, most: int = 20_000) -> None:
        self._rate, self._burst, self._most = rate, burst, most
        # The tokens that were there, and when.
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def wait(self, name: str, amount: float = 1.0) -> float:
        """Return the seconds until there are so many tokens; 0 where there are."""
        return max(0.0, (amount - self._tokens(name)) / self._rate)

    def take(self, name: str, amount: float = 1.0) -> None:
        """Take tokens, also more than there are, or put back what was taken needlessly."""
        self._held[name] = (self._tokens(name) - amount, time.monotonic())
        self._held.move_to_end(name)
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def _tokens(self, name: str) -> float:
        tokens, at = self._held.get(name, (self._burst, 0.0))
        return min(self._burst, tokens + (time.monotonic() - at) * self._rate)


class Limiter:
    """An ASGI middleware that refuses requests beyond the limits.

    ``keys`` has the hashes of secrets that are known to be valid. What others send counts for their
    address, so that neither guessing nor making up secrets helps, nor hinders those who share it.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        keys: TokenBuckets,
        refuse: Callable[[Scope, Problem], Response],
    ) -> None:
        self._app, self._limits, self._keys, self._refuse = app, limits, keys, refuse
        self._addresses = TokenBuckets(limits.rate_by_address, 10.0 * limits.rate_by_address)
        self._by_key = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        # A server that is busy is well: a watchdog must not end it.
        if scope["type"] != "http" or path == "/health":
            await self._app(scope, receive, send)
            return
        key, address = _key_of(scope), network_of((scope.get("client") or ("", 0))[0])
        state = scope.setdefault("state", {})
        # A session is known by its signature.
        is_known = key in self._keys or key.startswith("session ")
        try:
            # A load balancer asks whether it is ready, maybe from the address of all callers.
            self._admit(key, address, is_known, is_free=path == "/ready")
        except Problem as refusal:
            throttled_log.warn("Refused requests that were too many", f"from {address}: {refusal}")
            state["refused"] = refusal.kind
            await self._refuse(scope, refusal)(scope, receive, send)
            return
        self._by_key[key] += 1
        try:
            await self._app(scope, receive, in_chunks(send))
        finally:
            self._by_key[key] -= 1
            self._by_key += Counter()
            if key and "known" in state and not is_known:
                self._addresses.take(address, -1.0)
                self._keys.take(key)
            if "made" in state:  # a secret that the answer holds
                self._keys.take(state["made"])

    def _admit(self, key: str, address: str, is_known: bool, is_free: bool) -> None:
        limits = self._limits
        if self._by_key.total() >= (limits.requests if is_known else (limits.requests + 1) // 2):
            raise too_many("the server is at work on as many requests as it takes", 1.0)
        if key and self._by_key[key] >= limits.requests_by_key:
            raise too_many(f"{limits.requests_by_key} requests with this key are at work", 1.0)
        if is_free:
            return
        buckets, name = (self._keys, key) if is_known else (self._addresses, address)
        if wait := buckets.wait(name):
            whose = "with this key" if is_known else "without a valid key from this address"
            raise too_many(f"there were too many requests {whose}", wait)
        buckets.take(name)


def in_chunks(send: Send, size: int = 2**16) -> Send:
    """Send an answer chunk by chunk, each when the caller has read most of what came before.

    So a slow caller costs no copy of the whole, and is at work until it has read the answer.
    """

    async def chunks(message: Message) -> None:
        body = message.get("body", b"")
        last = max(0, len(body) - 1) // size * size
        for start in range(0, last, size):
            await send({**message, "body": body[start : start + size], "more_body": True})
        await send({**message, "body": body[last:]} if last else message)

    return chunks


def network_of(address: str) -> str:
    """Return what is limited as one address: of IPv6 the 64 bits that a customer gets at once."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address  # a socket's path, or nothing
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _key_of(scope: Scope) -> str:
    """Return who asks: the hash of a secret, so that none is kept, or a session; '' for neither."""
    secret = secret_of(Headers(scope=scope))
    if secret:
        return hashed(secret)
    session = scope.get("session", {}).get("csrf")
    return f"session {session}" if session else ""
