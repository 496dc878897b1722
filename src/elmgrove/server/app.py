"""The application: routes, errors, what runs beside them; and the server program that runs it."""

import asyncio
import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import granian.net
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server as Granian
from granian.utils.proxies import wrap_asgi_with_proxy_headers
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from threadpoolctl import threadpool_limits

from elmgrove.errors import BadInput, ElmgroveError, Problem, Unauthorized
from elmgrove.federation.policy import DAY
from elmgrove.server.auth import Service
from elmgrove.server.dashboard.audit_page import ActCounts
from elmgrove.server.dashboard.federation_page import Comparisons
from elmgrove.server.dashboard.pages import Streams, dashboard_routes, problem_page, to_login
from elmgrove.server.dashboard.session import LoginLimiter, Sessions
from elmgrove.server.limits import Limiter, Limits, TokenBuckets
from elmgrove.server.metrics import Metered, ServerMetrics
from elmgrove.server.problems import Refusals, problem_response, throttled_log
from elmgrove.server.routes import ROUTES, Handler, openapi_document
from elmgrove.server.secrets import hashed
from elmgrove.server.store.reports import Reports
from elmgrove.server.store.store import Store, open_store

log = logging.getLogger("elmgrove.server")


def make_app(
    store_url: str,
    admin_token: str,
    *,
    retention: float = 365.0,
    limits: Limits | None = None,
    open_metrics: bool = False,
    root_path: str = "",
    proxies: str = "",
) -> Starlette:
    """Make the exchange as an ASGI application, for ``elmgrove serve`` or another ASGI server.

    Another server must itself limit connections, and how long it waits for them. ``retention`` is
    the days for which events and the audit are kept (0: for ever), ``root_path`` the prefix under
    which a proxy shows it, and ``proxies`` are the addresses whose ``X-Forwarded-For`` and
    ``-Proto`` are believed. With ``open_metrics`` all may read the metrics.
    """
    limits, metrics = limits or Limits(), ServerMetrics(is_open=open_metrics)
    keys = TokenBuckets(limits.rate_by_key, 10.0 * limits.rate_by_key)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        store = metrics.watched(await open_store(store_url))
        # Known from the start: else those who guess, from the address of others, would keep
        # these from their first request.
        for known in (*await store.federations.secret_hashes(10_000), hashed(admin_token)):
            keys.take(known)
        service = app.state.service = Service(store, hashed(admin_token))
        app.state.streams = Streams(limits.requests // 4)
        app.state.comparisons, app.state.act_counts = Comparisons(), ActCounts()
        live = asyncio.gather(
            *(each.run() for each in service.live), keep_deleting(store, retention)
        )
        try:
            # Many requests on one thread each, rather than one on many.
            with threadpool_limits(1, "blas"):
                yield
        finally:
            live.cancel()
            with suppress(asyncio.CancelledError):  # which is what was just asked for
                await live
            await store.close()

    refusals = Refusals()

    def shown(scope: Scope, problem: Problem) -> Response:
        """A refusal as who asked can read it: a person on a page, or a program."""
        if scope["path"].removeprefix(root_path).startswith("/ui/"):
            return problem_page(problem, root_path)
        return problem_response(problem, scope["path"])

    async def refuse(request: Request, error: Exception) -> Response:
        return shown(request.scope, await refusals.noted(request, error))

    errors = (Problem, ElmgroveError, HTTPException, Exception)
    handlers: dict[Any, Any] = dict.fromkeys(errors, refuse)
    app = Starlette(
        routes=[*_routes(), Route("/openapi.json", _openapi), *dashboard_routes()],
        lifespan=lifespan,
        middleware=[
            Middleware(Proxied, root_path, proxies),
            Middleware(Metered, metrics),
            # Another token of the first administrator is another key: it ends all sessions.
            Middleware(Sessions, hashed(f"sessions {admin_token}")),
            Middleware(Limiter, limits, keys, shown),
        ],
        exception_handlers=handlers | {Unauthorized: to_login},
    )
    app.state.metrics = metrics
    app.state.login_limiter, app.state.refusals = LoginLimiter(), refusals
    return app


class Proxied:
    """An application behind proxies, under a prefix of paths, whether these take it off or not."""

    def __init__(self, app: ASGIApp, root_path: str, proxies: str) -> None:
        self._app = wrap_asgi_with_proxy_headers(app, proxies) if proxies else app
        self._root_path, self._has_proxies = root_path, bool(proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            root = scope["root_path"] = self._root_path
            if root and not f"{scope['path']}/".startswith(f"{root}/"):
                scope["path"] = root + scope["path"]
                scope["raw_path"] = root.encode() + scope["raw_path"]
            if not self._has_proxies:
                self._warn(scope)
            if scope["scheme"] == "https":
                # By a certificate of ours: browsers are to come by TLS alone, for a year.
                send = partial(_strict_transport, send)
        await self._app(scope, receive, send)

    def _warn(self, scope: Scope) -> None:
        if any(name.startswith(b"x-forwarded-") for name, _ in scope["headers"]):
            address = (scope.get("client") or ("", 0))[0]
            cure = f"from {address}; if that is your proxy, set FORWARDED_ALLOW_IPS={address}"
            throttled_log.warn("Ignored X-Forwarded headers", cure)


async def _strict_transport(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        MutableHeaders(scope=message)["Strict-Transport-Security"] = "max-age=31536000"
    await send(message)


async def keep_deleting(store: Store, retention: float, every: float = 3600.0) -> None:
    """Delete what is older than ``retention`` days, and minutes after a week, until cancelled.

    A clock that jumps must not cost a record. So nothing is deleted unless the clock went on as
    evenly as the monotonic one since the last look, nor in a server's first hour.
    """
    while retention:
        clock, began = time.time(), time.monotonic()
        await asyncio.sleep(every)
        now = time.time()
        jump = (now - clock) - (time.monotonic() - began)
        if abs(jump) > 60.0:
            log.warning("the clock jumped by %+.0f s: nothing is deleted for its age now", jump)
            continue
        try:
            minutes, others = (now - days * DAY for days in (min(7.0, retention), retention))
            while await store.reports.expire(minutes, others) >= Reports.EXPIRED_AT_ONCE:
                pass
            for federation in await store.audit.logs():
                await store.audit.prune(federation, others)
        except Exception:  # there is a next time; what else runs must not stop
            log.exception("what is too old could not be deleted")


def _routes() -> Iterator[Route]:
    """One for each path, so that a wrong method is answered with all that are right."""
    for path in dict.fromkeys(route.path for route in ROUTES):
        handlers = {route.method: route.handler for route in ROUTES if route.path == path}
        shown = path.replace(":path}", "}")
        yield Route(path, partial(_handled, shown, handlers), methods=list(handlers))


async def _handled(path: str, handlers: Mapping[str, Handler], request: Request) -> Response:
    request.state.route = path
    return await handlers["GET" if request.method == "HEAD" else request.method](request)


async def _openapi(request: Request) -> Response:
    return JSONResponse(openapi_document())


def listen(
    store_url: str,
    admin_token: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8470,
    limits: Limits | None = None,
    certificate: Path | None = None,
    private_key: Path | None = None,
    client_ca: Path | None = None,
    begin: Callable[[int], None] = lambda port: None,
    **app_options: Any,
) -> None:
    """Serve until SIGINT or SIGTERM; requests that have begun are answered first.

    With ``client_ca`` only clients with a certificate that it signed are answered. ``begin`` is
    called with the port when that is its own and it can answer. ``app_options`` are those of
    ``make_app``.
    """
    require_certificate_with_key(certificate, private_key, client_ca)
    limits = limits or Limits()
    app = make_app(store_url, admin_token, limits=limits, proxies=trusted_proxies(), **app_options)

    async def until_ended() -> None:
        ending, loop = asyncio.Event(), asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(name, ending.set)
            except NotImplementedError:  # on Windows
                signal.signal(name, lambda *_: loop.call_soon_threadsafe(ending.set))
        tls = (certificate, private_key, client_ca)
        await serve(app, bound(host, port, limits), ending, limits, tls, begin)

    asyncio.run(until_ended())


def bound(host: str, port: int, limits: Limits) -> socket.socket:
    """Return a socket with an address, which does not listen yet; ``BadInput`` if there is none."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::":
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise BadInput(f"can't listen on {host}:{port}: {error.strerror}") from error
    made.setblocking(False)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Connections have it from here: one whose caller reads nothing is closed by the system.
        milliseconds = int(1000 * limits.answer_deadline)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return made


class _Granian(Granian):
    """granian, on a socket of ours: so its port is known, and nobody else's."""

    def __init__(self, listening: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._listening = listening

    def _init_shared_socket(self) -> None:
        holder: Any = granian.net.SocketHolder  # type: ignore[attr-defined]
        self._shd = holder(self._listening.detach(), False, self.backlog)


async def serve(
    app: Starlette,
    listening: socket.socket,
    ending: asyncio.Event,
    limits: Limits,
    tls: tuple[Path | None, Path | None, Path | None] = (None, None, None),
    begin: Callable[[int], None] = lambda port: None,
) -> None:
    """Run an application on a socket until it is to end; what has begun is answered first."""
    certificate, private_key, client_ca = tls
    port = listening.getsockname()[1]
    with listening:
        async with app.router.lifespan_context(app):
            server = _Granian(
                listening,
                app,
                interface=Interfaces.ASGINL,
                http=HTTPModes.http1,
                websockets=False,
                backlog=2048,
                backpressure=_room_for(limits.connections),
                http1_settings=HTTP1Settings(header_read_timeout=int(1000 * limits.head_deadline)),
                log_enabled=False,
                ssl_cert=certificate,
                ssl_key=private_key,
                ssl_protocol_min=SSLProtocols.tls12,
                ssl_ca=client_ca,
                ssl_client_verify=client_ca is not None,
            )
            listening.listen(2048)
            serving = asyncio.create_task(server.serve())
            told = asyncio.create_task(ending.wait())
            begin(port)
            await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
            app.state.streams.release()
            server.stop()  # type: ignore[no-untyped-call]
            # Who reads slowly is not waited for any longer.
            await asyncio.wait((serving,), timeout=10.0)
            for task in (told, serving):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await serving


def _room_for(connections: int, others: int = 128) -> int:
    """How many connections there may be; the system is asked for as many files as they need.

    ``others`` are files that are no connections: the data base's, logs, libraries.
    """
    if os.name != "posix":
        return connections
    import resource  # Windows has none

    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < connections + others:
        files = min(most, connections + others)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return max(1, min(connections, files - others))


def trusted_proxies() -> str:
    """Return the addresses whose ``X-Forwarded`` headers are believed: none unless stated.

    Not even this machine's: anybody who reaches the port there could claim any address. Raises
    ``BadInput`` where everybody would be believed.
    """
    stated = os.environ.get("FORWARDED_ALLOW_IPS", "").strip()
    if "*" in stated or any(_is_wide(one) for one in stated.split(",")):
        raise BadInput(
            "FORWARDED_ALLOW_IPS: with * or so wide a network anybody could claim any address; "
            "state the addresses or networks of your proxies, such as 127.0.0.1 or 10.0.0.0/8"
        )
    return stated


def _is_wide(stated: str) -> bool:
    try:
        network = ip_network(stated.strip(), strict=False)
    except ValueError:  # a name, or nothing
        return False
    return network.prefixlen < 8


def require_store(store_url: str) -> None:
    """Raise, as ``open_store`` does, for a store that can't be opened, before anything is made."""

    async def open_and_close() -> None:
        await (await open_store(store_url)).close()

    asyncio.run(open_and_close())


def require_certificate_with_key(
    certificate: Path | None, private_key: Path | None, client_ca: Path | None
) -> None:
    """Raise ``BadInput`` for files that TLS can't be spoken with, before anything is served."""
    if (certificate is None) != (private_key is None):
        raise BadInput("TLS needs both: --certificate and --private-key")
    if client_ca is not None and certificate is None:
        raise BadInput("--client-ca needs TLS: --certificate and --private-key")
    if certificate is None or private_key is None:
        return
    try:
        tried = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A key with a passphrase is refused, instead of asking for it.
        tried.load_cert_chain(certificate, private_key, password="")
    except OSError as error:
        files = f"{certificate} and {private_key}"
        raise BadInput(f"{files} are no certificate with its key (PEM): {error}") from error
    try:
        if client_ca is not None:
            tried.load_verify_locations(client_ca)
    except OSError as error:
        raise BadInput(f"{client_ca} is no authority's certificate (PEM): {error}") from error
