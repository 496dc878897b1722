"""The application: routes, errors, and what runs beside them."""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from threadpoolctl import threadpool_limits
from uvicorn.config import LOGGING_CONFIG

from elmgrove.errors import BadInput, ElmgroveError, Problem, Unauthorized
from elmgrove.federation.terms import DAY
from elmgrove.server.connections import Server
from elmgrove.server.dashboard.audit_page import ActCounts
from elmgrove.server.dashboard.federation_page import Comparisons
from elmgrove.server.dashboard.live import Streams
from elmgrove.server.dashboard.pages import dashboard_routes, problem_page, to_login
from elmgrove.server.dashboard.session import LoginLimiter
from elmgrove.server.limits import RECENT, Limiter, Limits, UnproxiedWarning, buckets_by_key
from elmgrove.server.metrics import Metered, ServerMetrics
from elmgrove.server.problems import Refusals, problem_response
from elmgrove.server.routes import ROUTES, Handler, openapi_document
from elmgrove.server.secrets import hashed
from elmgrove.server.service import Service
from elmgrove.server.store.reports import Reports
from elmgrove.server.store.store import Store, open_store

log = logging.getLogger("elmgrove.server")

#: The largest contribution accepted by default: 2,000 hidden units at 2,000 inputs.
MAX_BODY = 64 * 2**20
DEFAULT = Limits()
#: Seconds between two deletions of what is too old.
DELETE_EVERY = 3600.0


def make_app(
    store_url: str,
    admin_token: str,
    *,
    max_body: int = MAX_BODY,
    audit_days: float = 365.0,
    report_days: float = 7.0,
    event_days: float = 90.0,
    limits: Limits = DEFAULT,
    device_metrics: bool = False,
    open_metrics: bool = False,
    dashboard: bool = True,
) -> Starlette:
    """Make the exchange as an ASGI application, for ``elmgrove serve`` or another ASGI server.

    Another server must itself limit connections, and how long it waits for them. Its metrics have
    series for single devices with ``device_metrics``, and are shown to all with ``open_metrics``.
    Below ``/ui/`` it has the dashboard.
    """

    metrics = ServerMetrics(by_device=device_metrics, is_open=open_metrics)
    keys = buckets_by_key(limits)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        store = metrics.watched(await open_store(store_url))
        # Known from the start: else those who guess, from the address of others, would keep
        # these from their first request.
        for known in (*await store.federations.secret_hashes(RECENT - 1), hashed(admin_token)):
            keys.of(known)
        service = app.state.service = Service(store, hashed(admin_token), max_body)
        app.state.streams = Streams(limits.requests // 4)
        app.state.comparisons, app.state.act_counts = Comparisons(), ActCounts()
        live = asyncio.gather(
            *(each.run() for each in service.live),
            keep_deleting(store, audit_days, report_days, event_days),
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
    shown = _shown if dashboard else _documented

    async def refuse(request: Request, error: Exception) -> Response:
        return shown(request.scope["path"], await refusals.noted(request, error))

    errors = (Problem, ElmgroveError, HTTPException, Exception)
    handlers: dict[Any, Any] = dict.fromkeys(errors, refuse)
    pages = dashboard_routes() if dashboard else []
    app = Starlette(
        routes=[*_routes(), Route("/openapi.json", _openapi), *pages],
        lifespan=lifespan,
        middleware=[Middleware(Metered, metrics), Middleware(Limiter, limits, keys, shown)],
        exception_handlers=handlers | {Unauthorized: to_login},
    )
    app.state.metrics = metrics
    app.state.login_limiter, app.state.refusals = LoginLimiter(), refusals
    return app


async def keep_deleting(
    store: Store, audit_days: float, report_days: float, event_days: float
) -> None:
    """Delete what is too old once an hour, until cancelled; 0 days keep it for ever.

    A clock that jumps must not cost a record. So nothing is deleted unless the clock went on as
    evenly as the monotonic one since the last look, nor in a server's first hour; and ages are by
    the store's time, which all its servers share and which follows a clock by a day at a time
    (``Audit.advance_clock``).
    """
    while True:
        clock, began = time.time(), time.monotonic()
        await asyncio.sleep(DELETE_EVERY)
        jump = (time.time() - clock) - (time.monotonic() - began)
        if abs(jump) > 60.0:
            log.warning("the clock jumped by %+.0f s: nothing is deleted for its age now", jump)
            continue
        try:
            now = await store.audit.advance_clock(time.time(), DAY)
            minutes, events = (
                now - days * DAY if days else 0.0 for days in (report_days, event_days)
            )
            while await store.reports.expire(minutes, events, now) >= Reports.EXPIRED_AT_ONCE:
                pass
            if audit_days:
                for federation in await store.audit.logs():
                    await store.audit.prune(federation, now - audit_days * DAY)
        except Exception:  # there is a next time; what else runs must not stop
            log.exception("what is too old could not be deleted")


def _shown(path: str, problem: Problem) -> Response:
    """A refusal as who asked can read it: a person on a page, or a program."""
    return problem_page(problem) if path.startswith("/ui/") else _documented(path, problem)


def _documented(path: str, problem: Problem) -> Response:
    return problem_response(problem, path)


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
    certificate: Path | None = None,
    private_key: Path | None = None,
    client_ca: Path | None = None,
    max_body: int = MAX_BODY,
    audit_days: float = 365.0,
    report_days: float = 7.0,
    event_days: float = 90.0,
    limits: Limits = DEFAULT,
    device_metrics: bool = False,
    open_metrics: bool = False,
    dashboard: bool = True,
    log_level: str = "info",
    own_log: bool = True,
    beginning: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests that have begun are answered first.

    With ``client_ca`` only clients with a certificate that it signed are answered. Without an
    ``own_log`` its lines go where those of the program go that calls this. ``beginning`` is called
    when the port is its own and it can answer.
    """
    require_certificate_with_key(certificate, private_key, client_ca)
    proxies = trusted_proxies()
    app = make_app(
        store_url,
        admin_token,
        max_body=max_body,
        audit_days=audit_days,
        report_days=report_days,
        event_days=event_days,
        limits=limits,
        device_metrics=device_metrics,
        open_metrics=open_metrics,
        dashboard=dashboard,
    )
    config = uvicorn.Config(
        app if proxies else UnproxiedWarning(app),
        host=host,
        port=port,
        # The parser with limits on headers.
        http="h11",
        ws="none",
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
        ssl_ca_certs=None if client_ca is None else str(client_ca),
        ssl_cert_reqs=ssl.CERT_NONE if client_ca is None else ssl.CERT_REQUIRED,
        log_level=log_level,
        log_config=LOGGING_CONFIG if own_log else None,
        access_log=log_level == "debug",
        timeout_graceful_shutdown=10,
        server_header=False,
        # With TLS browsers are to come by TLS alone, for a year.
        headers=[] if certificate is None else [("Strict-Transport-Security", "max-age=31536000")],
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
    )
    server = Server(config, limits, partial(release, app), beginning)
    app.state.metrics.connections.set_function(lambda: server.connections)
    with suppress(KeyboardInterrupt):  # which has ended it in good order
        server.run()


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
    """Whether this is a network of a great part of all addresses."""
    try:
        network = ip_network(stated.strip(), strict=False)
    except ValueError:  # a name, or nothing
        return False
    return network.prefixlen < 8


def release(app: Starlette) -> None:
    """End what would go on: the server is about to end."""
    app.state.streams.release()


def require_store(store_url: str) -> None:
    """Raise, as ``open_store`` does, for a store that can't be opened, before anything is served.

    Else it would be logged with a traceback.
    """

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
