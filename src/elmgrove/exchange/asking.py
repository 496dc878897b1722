"""Asking over HTTP: the one place that sends a request and waits for its answer."""

import ssl
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from elmgrove import __version__
from elmgrove.errors import BadInput
from elmgrove.exchange.base import TLS, Tls, Unreachable
from elmgrove.exchange.in_time import MOVING, DeadlineTransport
from elmgrove.exchange.responses import Response, no_response, patience, plain
from elmgrove.exchange.trust import context_of
from elmgrove.federation import MOST_BYTES

#: Seconds that an answer may take, and a little longer for each byte of it (``in_time.SLOWEST``).
SECONDS = 30.0
# The status of what was done, by what was asked.
_DONE = {"GET": (200,), "POST": (200, 201), "PUT": (200,), "DELETE": (204,)}
_TOO_MANY = 429
#: The bytes of an answer that says what was done, or why it was not.
SHORT = 1 << 16
_LONGEST_SECRET = 1000
# What OpenSSL says where the other side answers in plain text, and of whom nobody vouches for.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
_NOT_TRUSTED = ("self-signed certificate", "self signed certificate", "unable to get local issuer")


def client(
    url: str,
    secret: str | None,
    *,
    tls: Tls = TLS,
    timeout: float = SECONDS,
    root: str = "/v1/federations",
) -> httpx.Client:
    """Opens a connection to one federation, to all of a server's, or to another ``root``."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadInput(f"not the URL of an exchange (http://host:port/federation): {url!r}")
    headers = {"User-Agent": f"elmgrove/{__version__}"}
    if secret is not None:
        if not is_secret(secret):
            raise BadInput("a token or key is made of Latin letters, digits and signs")
        headers["Authorization"] = f"Bearer {secret}"
    base = f"{parts.scheme}://{parts.netloc}{root}{parts.path.rstrip('/')}"
    try:
        return httpx.Client(
            base_url=base,
            headers=headers,
            timeout=timeout,
            transport=DeadlineTransport(url, _trust(url, tls)),
        )
    except httpx.InvalidURL as error:
        raise BadInput(f"{url!r}: {error}") from error


def _trust(url: str, tls: Tls = TLS) -> ssl.SSLContext | None:
    """Whom to trust; without TLS nobody, and reading all certificates takes a while."""
    if not url.startswith("https://"):
        return None
    return context_of(tls, httpx.create_ssl_context)


def request(
    opened: httpx.Client,
    method: str,
    path: str,
    *,
    expected: Collection[int] | None = None,
    most: int = MOST_BYTES,
    **options: Any,
) -> Response:
    """Asks and gives the answer; what is no answer is raised as the error it stands for.

    An answer has one of the ``expected`` statuses (those of what was done, unless stated) and at
    most so many bytes, as they are: neither packed nor somewhere else.
    """
    host = opened.base_url.host
    headers = {"Accept-Encoding": "identity", **options.pop("headers", {})}
    # httpx appends a slash to its base for an empty path.
    url = str(opened.base_url).rstrip("/") + path
    moving = most + len(options.get("content", b""))
    with (
        _unreachable(f"{host}: "),
        opened.stream(method, url, headers=headers, extensions={MOVING: moving}, **options) as came,
    ):
        answer = _whole(host, came, most)
    if answer.status not in (expected or _DONE[method]):
        raise answer.refusal()
    return answer


def post(url: str, content: bytes, headers: Mapping[str, str], seconds: float) -> int:
    """Posts something to a web address, within so many seconds, and gives the answer's status.

    ``Unreachable`` where that may be better the next time: nobody answers in time, the server fails
    (5xx) or has too much to do (429). Of the answer no more is read.
    """
    with (
        _unreachable(),
        httpx.Client(transport=DeadlineTransport(url, _trust(url)), timeout=seconds) as opened,
        opened.stream("POST", url, content=content, headers=headers) as came,
    ):
        after = patience(came.headers.get("retry-after"))
        if came.status_code >= 500 or came.status_code == _TOO_MANY:
            raise Unreachable(f"it answered {came.status_code}", after)
        return came.status_code


@contextmanager
def _unreachable(where: str = "") -> Iterator[None]:
    """Turns whatever happens to a connection inside ``with`` into ``Unreachable``."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise Unreachable(f"{where}no complete answer in time") from error
    except httpx.TransportError as error:
        said = plain(str(error)).rstrip(".") or type(error).__name__
        raise Unreachable(f"{where}{said}{_hint(error)}") from error
    except httpx.InvalidURL as error:
        raise BadInput(f"{where}{error}") from error


def _hint(error: httpx.TransportError) -> str:
    """What to do about a server that speaks another protocol, or is not trusted."""
    said, url = str(error), error.request.url
    place = url.netloc.decode("ascii", "replace")
    silent = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
    if any(mark in said for mark in _NO_TLS):
        return f" (it does not speak TLS: its URL is http://{place})"
    if any(mark in said for mark in _NOT_TRUSTED):
        return (
            " (this machine does not trust its certificate: name that of its authority as ca, or "
            "the certificate itself if it is self-signed)"
        )
    if silent and url.scheme == "https":
        return " (does it ask for a client certificate? then state certificate and private_key)"
    if silent:
        return f" (if it speaks TLS, its URL is https://{place})"
    return ""


def _whole(host: str, came: httpx.Response, most: int) -> Response:
    """Reads an answer to its end, if that comes within ``most`` bytes."""
    if came.headers.get("content-encoding", "identity").lower() != "identity":
        raise no_response(host, "it answered packed, which was not asked for")
    content = bytearray()
    for chunk in came.iter_raw():
        content += chunk
        if len(content) > most:
            raise no_response(host, f"its answer is longer than the {most:,} bytes it may have")
    after = patience(came.headers.get("retry-after"))
    return Response(host, came.status_code, bytes(content), after)


def is_secret(text: str) -> bool:
    """Says whether a text can stand in a header as a token or key."""
    return 0 < len(text) <= _LONGEST_SECRET and text.isascii() and text.isprintable()
