"""Limits: how many requests a server takes at once, and from whom."""

import ipaddress
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmgrove.errors import Problem
from elmgrove.server.problems import too_many
from elmgrove.server.secrets import hashed, secret_of, session_of

log = logging.getLogger("elmgrove.server")

#: Makes the answer to a request about a path that is refused.
RefusalPage = Callable[[str, Problem], Response]
#: Seconds of its rate that a caller may use at once.
BURST = 10.0
#: Callers that are remembered: those that were there last.
RECENT = 20_000
#: Bytes of an answer that are handed over at once: the next ones wait until these are read.
CHUNK = 2**16
#: Seconds between two lines that say the same.
SECONDS_BETWEEN_LINES = 60.0


@dataclass(frozen=True)
class Limits:
    """How much is taken at once, and how long is waited.

    Rates are a second, and ten seconds of them may come at once. An address is limited by what it
    leaves half-open and by requests without a valid secret, never by those with one. An IPv6
    address is all addresses that begin with the same 64 bits.
    """

    #: Connections at once, if the system allows so many open files.
    connections: int = 10_000
    #: Connections from one address at once that have not sent a whole request.
    connections_by_address: int = 1000
    #: Requests at work at once; half of them for callers that are known.
    requests: int = 1000
    #: Requests of one key or token at work at once.
    requests_by_key: int = 32
    #: Requests a second of one key or token.
    rate_by_key: float = 50.0
    #: Requests a second from one address without a valid secret.
    rate_by_address: float = 20.0
    #: Seconds until a connection has sent the head of its next request.
    head_deadline: float = 10.0
    #: Seconds until a caller has read some more of its answer.
    answer_deadline: float = 60.0


class Bucket:
    """Fills at a steady rate, up to a burst; what is taken out is what a caller used.

    It may be taken more than there is: then it has to fill again before anything is there.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst, self._level = rate, burst, burst
        self._at = time.monotonic()

    def wait(self, amount: float = 1.0) -> float:
        """Return the seconds until this much is there; 0 where it is."""
        now = time.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (amount - self._level) / self._rate)

    def take(self, amount: float = 1.0) -> None:
        """Take something out, or puts back what was taken needlessly."""
        self._level -= amount


class Buckets:
    """A bucket for each of the callers that were there last."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._last: OrderedDict[str, Bucket] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._last

    def of(self, name: str) -> Bucket:
        """Return the caller's bucket, a full one where it has none."""
        found = self._last.get(name) or Bucket(self._rate, self._burst)
        self._last[name] = found
        self._last.move_to_end(name)
        if len(self._last) > RECENT:
            self._last.popitem(last=False)
        return found


class ThrottledLog:
    """Logs what may happen often: once a minute, with how often it happened since."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._logged: dict[str, float] = {}

    def warn(self, what: str, detail: object = "", level: int = logging.WARNING) -> None:
        """Count ``what``, and logs it if that was not done within a minute."""
        self._counts[what] += 1
        now = time.monotonic()
        if now - self._logged.get(what, -SECONDS_BETWEEN_LINES) >= SECONDS_BETWEEN_LINES:
            self._logged[what] = now
            more = f" ({detail})" if str(detail) else ""
            count = self._counts.pop(what)
            line = "%s%s: %d since the last such line"
            log.log(level, line, what, more, count, extra={"count": count})


throttled_log = ThrottledLog()


def buckets_by_key(limits: Limits) -> Buckets:
    """Return the buckets of callers whose secret is valid, by its hash; nobody yet."""
    return Buckets(limits.rate_by_key, BURST * limits.rate_by_key)


class Limiter:
    """An ASGI middleware that refuses requests beyond the limits."""

    def __init__(self, app: ASGIApp, limits: Limits, keys: Buckets, shown: RefusalPage) -> None:
        self._app = app
        self._shown = shown
        self._limits = limits
        self._at_work = 0
        self._by_key = Counter[str]()
        # Those whose secret was valid. What others send counts for their address, so that neither
        # guessing nor making up secrets helps, nor hinders those who share it.
        self._keys = keys
        self._addresses = Buckets(limits.rate_by_address, BURST * limits.rate_by_address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with a refusal where it is one too many."""
        # A server that is busy is well: a watchdog must not end it.
        if scope["type"] != "http" or scope["path"] == "/health":
            await self._app(scope, receive, send)
            return
        key, address = _key_of(scope), network_of((scope.get("client") or ("", 0))[0])
        refusal = self._refusal(key, address, scope["path"])
        if refusal is not None:
            throttled_log.warn("Refused requests that were too many", f"from {address}: {refusal}")
            scope.setdefault("state", {})["refused"] = refusal.kind
            await self._shown(scope["path"], refusal)(scope, receive, send)
            return
        await self._work(scope, receive, send, key, address)

    def _refusal(self, key: str, address: str, path: str) -> Problem | None:
        limits, known = self._limits, key in self._keys
        if self._at_work >= (limits.requests if known else (limits.requests + 1) // 2):
            return too_many("the server is at work on as many requests as it takes", 1.0)
        if key and self._by_key[key] >= limits.requests_by_key:
            return too_many(f"{limits.requests_by_key} requests with this key are at work", 1.0)
        if path == "/ready":
            return None  # a load balancer asks, maybe from the address of all callers
        bucket = self._keys.of(key) if known else self._addresses.of(address)
        if wait := bucket.wait():
            whose = "with this key" if known else "without a valid key from this address"
            return too_many(f"there were too many requests {whose}", wait)
        bucket.take()
        return None

    async def _work(
        self, scope: Scope, receive: Receive, send: Send, key: str, address: str
    ) -> None:
        was_known, state = key in self._keys, scope.setdefault("state", {})
        self._at_work += 1
        self._by_key[key] += 1
        try:
            await self._app(scope, receive, in_chunks(send))
        finally:
            self._at_work -= 1
            self._by_key[key] -= 1
            if not self._by_key[key]:
                del self._by_key[key]
            # A login has none: its caller is known by what the answer gives it.
            if key and "known" in state and not was_known:
                self._addresses.of(address).take(-1.0)
                self._keys.of(key).take()
            if "made" in state:
                self._keys.of(state["made"])


class UnproxiedWarning:
    """An application without proxies: logs requests that claim to come through one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the other application answer."""
        if any(name.startswith(b"x-forwarded-") for name, _ in scope.get("headers", ())):
            address = (scope.get("client") or ("", 0))[0]
            cure = f"from {address}; if that is your proxy, set FORWARDED_ALLOW_IPS={address}"
            throttled_log.warn("Ignored X-Forwarded headers", cure)
        await self._app(scope, receive, send)


def in_chunks(send: Send) -> Send:
    """Send an answer chunk by chunk, each when most of the one before was read.

    So a slow reader costs no copy of the whole, and what it does not read is seen at once.
    """

    async def chunks(message: Message) -> None:
        body = message.get("body", b"")
        last = max(0, len(body) - 1) // CHUNK * CHUNK
        for start in range(0, last, CHUNK):
            await send({**message, "body": body[start : start + CHUNK], "more_body": True})
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
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _key_of(scope: Scope) -> str:
    """The hash of the secret, so that none is kept; '' where there is none."""
    secret = secret_of(Headers(scope=scope)) or session_of(scope)
    return hashed(secret) if secret else ""
