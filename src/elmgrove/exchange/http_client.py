"""HTTP requests of a device: sent, answered in time, and checked."""

import math
import socket
import ssl
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from elmgrove import __version__
from elmgrove.errors import BadInput, Unreachable
from elmgrove.exchange.base import SLOWEST, TLS, Tls
from elmgrove.exchange.responses import Response, no_response, patience, plain
from elmgrove.exchange.tls import context_of
from elmgrove.federation.others import MOST_BYTES

#: The extension of a request that says how many bytes may come and go; each gives it more time.
MOVING = "elmgrove.moving"
# Bytes that are written at a time: each piece gets what remains.
_PIECE = 1 << 14
# Bytes beside what is expected: headers.
_BESIDE = 1 << 20
# Headers that are not passed on: nothing here keeps cookies or goes where it is sent.
_LOST = (b"set-cookie", b"location")
# Seconds for which a connection is kept without a question.
_KEPT = 5.0


class AnswerDeadline(threading.local):
    """Tells what remains for the request that this thread is about: seconds, and more for bytes.

    What moves makes the deadline later, as long as it takes at ``SLOWEST`` bytes a second, but no
    more of them than are expected. Of many more, such as headers without end, none is waited for.
    """

    def __init__(self) -> None:
        self._until, self._expected, self._moved = math.inf, 0, 0

    def start(self, seconds: float, expected: int) -> None:
        """Begins with the next request."""
        self._until, self._expected, self._moved = time.monotonic() + seconds, expected, 0

    def moved(self, size: int) -> None:
        """Notes that so many bytes came or went; raises where they are far too many."""
        self._moved += size
        if self._moved > 2 * self._expected + _BESIDE:
            raise httpcore.RemoteProtocolError("far more came than was asked for")

    def left(self) -> float:
        """Gives the seconds that remain; raises where there are none."""
        later = min(self._moved, self._expected) / SLOWEST
        left = self._until + later - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the deadline is over")
        return left


class TimedStream(httpcore.NetworkStream):
    """A connection of which each read and write has no longer than remains."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: AnswerDeadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Reads what has come, or waits for it."""
        data = self._stream.read(max_bytes, self._deadline.left())
        self._deadline.moved(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Writes all of it, in pieces."""
        for start in range(0, len(buffer), _PIECE):
            piece = buffer[start : start + _PIECE]
            self._stream.write(piece, self._deadline.left())
            self._deadline.moved(len(piece))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Encrypts from here on."""
        secure = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left())
        return TimedStream(secure, self._deadline)

    def close(self) -> None:
        """Hangs up."""
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        """Gives what the connection tells of itself."""
        return self._stream.get_extra_info(info)


class TimedBackend(httpcore.NetworkBackend):
    """Connects in time: what remains is shared by all addresses that a name has."""

    def __init__(self, deadline: AnswerDeadline) -> None:
        self._plain, self._deadline = httpcore.SyncBackend(), deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connects to the first of the addresses that takes the call."""
        addresses = _addresses(host, port)
        trouble: Exception = httpcore.ConnectError("it has no address")
        for place, address in enumerate(addresses):
            share = self._deadline.left() / (len(addresses) - place)
            try:
                found = self._plain.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                trouble = error
            else:
                return TimedStream(found, self._deadline)
        raise trouble


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(str(error)) from error
    return [str(address[4][0]) for address in found]


class DeadlineTransport(httpx.BaseTransport):
    """Asks the host of one URL, through the proxy that the environment names for it, if any.

    The timeout of a request is for all of its answer, and a little longer for each byte that is
    expected (``MOVING``). Requests of several threads do not share their deadlines.
    """

    def __init__(self, url: str, trust: ssl.SSLContext | None = None) -> None:
        self._deadline = AnswerDeadline()
        self._pool = _pool(url, trust, TimedBackend(self._deadline))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request, and gives the answer, of which the body is still to be read."""
        seconds = request.extensions["timeout"]["read"]
        self._deadline.start(seconds, request.extensions.get(MOVING, 0))
        url = request.url
        assert isinstance(request.stream, httpx.SyncByteStream)
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _in_words_of_httpx():
            answer = self._pool.handle_request(asked)
        return httpx.Response(
            answer.status,
            headers=[(name, value) for name, value in answer.headers if name.lower() not in _LOST],
            stream=_Body(answer),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        """Closes all connections."""
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _in_words_of_httpx():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextmanager
def _in_words_of_httpx() -> Iterator[None]:
    try:
        yield
    except (
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.ProxyError,
        httpcore.TimeoutException,
        httpcore.UnsupportedProtocol,
    ) as error:
        # The two libraries name their errors alike.
        raise getattr(httpx, type(error).__name__)(str(error)) from error


def _pool(
    url: str, trust: ssl.SSLContext | None, backend: httpcore.NetworkBackend
) -> httpcore.ConnectionPool:
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return httpcore.ConnectionPool(
            ssl_context=trust, keepalive_expiry=_KEPT, network_backend=backend
        )
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if through.scheme not in ("http", "https") or not through.hostname:
        raise BadInput(
            f"{parts.scheme}_proxy in the environment must begin with http:// or https://"
        )
    secret = (unquote(through.username or ""), unquote(through.password or ""))
    return httpcore.HTTPProxy(
        f"{through.scheme}://{through.netloc.rpartition('@')[2]}",
        proxy_auth=secret if through.username else None,
        ssl_context=trust,
        keepalive_expiry=_KEPT,
        network_backend=backend,
    )


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
    """Opens a connection to all federations of a server, or to another ``root`` of it.

    The ``url`` may have a path: a prefix under which a proxy shows the server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadInput(f"not the URL of an exchange (http://host:port): {url!r}")
    headers = {"User-Agent": f"elmgrove/{__version__}"}
    if secret is not None:
        if not is_secret(secret):
            raise BadInput("a token or key is made of Latin letters, digits and signs")
        headers["Authorization"] = f"Bearer {secret}"
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}{root}"
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
