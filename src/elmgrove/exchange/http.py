"""A server by HTTP: requests that end in time, answers that are checked, and the exchange there.

Somebody else may answer: the page of a network that wants a login, a proxy, the wrong
machine. What is not as it must be is ``Unreachable``: it may be better the next time.
"""

import json
import logging
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies
from weakref import WeakKeyDictionary

import httpx
from msgspec import UNSET, Meta, Struct, UnsetType

from elmgrove import __version__
from elmgrove.errors import (
    BadInput,
    ElmgroveError,
    Outdated,
    Refused,
    Unauthorized,
    Unreachable,
    plain,
)
from elmgrove.exchange.base import SLOWEST, TLS, Tls
from elmgrove.exchange.tls import context_of
from elmgrove.federation.aggregation import (
    MOST_BYTES,
    content_limit,
    others_limit,
    require_makeable,
)
from elmgrove.federation.charter import Charter, address_of, require_address
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import Contribution, Entry, entry_from_bytes, unbundle
from elmgrove.federation.merged import Merged
from elmgrove.federation.policy import DAY
from elmgrove.federation.report import Report
from elmgrove.federation.schemas import MOST_RESULTS, Count, Stored, read
from elmgrove.federation.selection import EVERYONE, Rule
from elmgrove.storage.disk import write

#: Seconds for which an exchange may ask to be left alone.
MOST_PATIENCE = 300.0


def no_response(host: str, why: str) -> Unreachable:
    """Makes the error for what no exchange and no agent says."""
    return Unreachable(f"{host} is no Elmgrove exchange or agent: {plain(why)}")


class Problem(Struct):
    """The problem document (RFC 9457) that Elmgrove refuses with."""

    type: Annotated[str, Meta(pattern="^urn:elmgrove:problem:")]
    title: Any = None
    detail: Any = None
    held_epoch: Count | UnsetType = UNSET
    shrunk: bool = False


@dataclass(frozen=True)
class Response:
    """What came back: the status, the whole body, and for how long to leave the host alone."""

    host: str
    status: int
    content: bytes
    retry_after: float = 0.0

    def read(self, kind: Any, field: str | None = None) -> Any:
        """Reads the body as JSON of this kind, or one field of the object that it is."""
        try:
            found = json.loads(self.content)
        except (ValueError, RecursionError) as error:
            raise self.unlike(f"it answered {self.status}, and no JSON") from error
        with self.reading():
            if field is None:
                return read(kind, found)
            if not isinstance(found, dict) or field not in found:
                raise self.unlike(f"its answer has no {field!r}")
            return read(kind, found[field])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turns what can't be made of this answer, inside ``with``, into ``Unreachable``."""
        try:
            yield
        except Unreachable:
            raise
        except ElmgroveError as error:
            raise self.unlike(str(error)) from error

    def unlike(self, why: str) -> Unreachable:
        """Makes the error for an answer that no exchange gives."""
        return no_response(self.host, why)

    def refusal(self) -> ElmgroveError:
        """Makes the error that an answer other than the expected one stands for."""
        try:
            problem = self.read(Problem)
        except Unreachable:
            # Somebody else's, or none.
            problem = None
        said = f"it answered {self.status}"
        if problem is not None:
            parts = (problem.title, problem.detail)
            said = plain(": ".join(part for part in parts if isinstance(part, str)))
        if self.status >= 500 or self.status == 429:
            return Unreachable(f"{self.host}: {said}", self.retry_after)
        if problem is None or self.status < 400:
            return self.unlike(f"it answered {self.status}")
        if self.status in (401, 403):
            return Unauthorized(said)
        if problem.held_epoch is not UNSET:
            return Outdated(said, problem.held_epoch, problem.shrunk)
        return Refused(said)


def patience(stated: str | None) -> float:
    """Reads the seconds that a Retry-After asks for, within reason; 0 where it states none.

    >>> patience("20"), patience("Wed, 21 Oct 2026 07:28:00 GMT"), patience("9" * 40)
    (20.0, 0.0, 300.0)
    """
    if stated is None or not (stated.isascii() and stated.isdigit()):
        return 0.0
    return MOST_PATIENCE if len(stated) > 9 else min(float(stated), MOST_PATIENCE)


class Deadline:
    """Hangs up inside ``with`` where an answer takes longer as a whole, however it comes.

    The timeouts of httpx are for each read: of a byte now and then they never end. What ``moved``
    makes the deadline later, as long as it takes at ``SLOWEST`` bytes a second.
    """

    def __init__(self, seconds: float, stream: Any = None) -> None:
        self._until = time.monotonic() + seconds
        #: The connection, as far as httpx told of it.
        self.stream = stream
        self._timer: threading.Timer | None = None
        self.over = False

    def moved(self, size: int) -> None:
        """Notes that so many bytes came or are to go."""
        self._until += size / SLOWEST

    def trace(self, _: str, told: Mapping[str, Any]) -> None:
        """Notes the connection that httpx makes or takes (its extension ``trace``)."""
        stream = told.get("return_value")
        if hasattr(stream, "get_extra_info"):
            self.stream = stream

    def __enter__(self) -> Self:
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        left = self._until - time.monotonic()
        self.over = left <= 0
        if self.over:
            self._hang_up()
        # Once more a second later: by then there may be another connection.
        self._timer = threading.Timer(max(left, 1.0), self._wait)
        self._timer.daemon = True
        self._timer.start()

    def _hang_up(self) -> None:
        connected = None if self.stream is None else self.stream.get_extra_info("socket")
        if connected is not None:
            with suppress(OSError):
                # Of the socket itself: that of TLS must not be touched while somebody reads it.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)


_CONNECTED = WeakKeyDictionary[httpx.Client, Any]()
#: Seconds that an answer may take, and a little longer for each byte of it (``SLOWEST``).
SECONDS = 30.0
#: The bytes of an answer that says what was done, or why it was not.
SHORT = 1 << 16


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
    return _opened(url, tls, base_url=base, headers=headers, timeout=timeout)


def _opened(url: str, tls: Tls = TLS, **options: Any) -> httpx.Client:
    # Without TLS nobody is to be trusted, and reading all certificates takes a while.
    secure = any(one.startswith("https://") for one in (url, *getproxies().values()))
    trust: ssl.SSLContext | bool = secure and context_of(tls, httpx.create_ssl_context)
    try:
        return httpx.Client(verify=trust, **options)
    except httpx.InvalidURL as error:
        raise BadInput(f"{url!r}: {error}") from error
    except (ImportError, ValueError) as error:
        scheme = url.partition(":")[0]
        raise BadInput(
            f"{scheme}_proxy in the environment must begin with http:// or https://"
        ) from error


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
    content = options.get("content", b"")
    with _timed(opened, f"{host}: ") as deadline:
        deadline.moved(len(content))
        trace = {"trace": deadline.trace}
        with opened.stream(method, url, headers=headers, extensions=trace, **options) as came:
            answer = _whole(host, came, most, deadline)
        opened.cookies.clear()
    done = {"GET": (200,), "POST": (200, 201), "PUT": (200,), "DELETE": (204,)}
    if answer.status not in (expected or done[method]):
        raise answer.refusal()
    return answer


def post(url: str, content: bytes, headers: Mapping[str, str], seconds: float) -> int:
    """Posts something to a web address, within so many seconds, and gives the answer's status.

    ``Unreachable`` where that may be better the next time: nobody answers in time, the server fails
    (5xx) or has too much to do (429). Of the answer no more is read.
    """
    with _opened(url, timeout=seconds) as opened, _timed(opened) as deadline:
        trace = {"trace": deadline.trace}
        with opened.stream("POST", url, content=content, headers=headers, extensions=trace) as came:
            after = patience(came.headers.get("retry-after"))
            if came.status_code >= 500 or came.status_code == 429:
                raise Unreachable(f"it answered {came.status_code}", after)
            return came.status_code


@contextmanager
def _timed(opened: httpx.Client, where: str = "") -> Iterator[Deadline]:
    """Turns whatever happens to a connection inside ``with`` into ``Unreachable``, in time."""
    # A connection that is used again is not told of again.
    deadline = Deadline(opened.timeout.read or SECONDS, _CONNECTED.get(opened))
    try:
        with deadline:
            yield deadline
            _CONNECTED[opened] = deadline.stream
    except httpx.TimeoutException as error:
        raise Unreachable(f"{where}no complete answer in time") from error
    except httpx.TransportError as error:
        if deadline.over:
            raise Unreachable(f"{where}no complete answer in time") from error
        said = plain(str(error)).rstrip(".") or type(error).__name__
        raise Unreachable(f"{where}{said}{_hint(error)}") from error
    except httpx.InvalidURL as error:
        raise BadInput(f"{where}{error}") from error


def _hint(error: httpx.TransportError) -> str:
    """What to do about a server that speaks another protocol, or is not trusted."""
    said, url = str(error), error.request.url
    place = url.netloc.decode("ascii", "replace")
    silent = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
    # What OpenSSL says where the other side answers in plain text, and of whom nobody vouches for.
    if any(mark in said for mark in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER")):
        return f" (it does not speak TLS: its URL is http://{place})"
    if re.search("self.signed certificate|unable to get local issuer", said):
        return (
            " (this machine does not trust its certificate: name that of its authority as ca, or "
            "the certificate itself if it is self-signed)"
        )
    if silent and url.scheme == "https":
        return " (does it ask for a client certificate? then state certificate and private_key)"
    if silent:
        return f" (if it speaks TLS, its URL is https://{place})"
    return ""


def _whole(host: str, came: httpx.Response, most: int, deadline: Deadline) -> Response:
    """Reads an answer to its end, if that comes within ``most`` bytes."""
    if came.headers.get("content-encoding", "identity").lower() != "identity":
        raise no_response(host, "it answered packed, which was not asked for")
    content = bytearray()
    for chunk in came.iter_raw():
        content += chunk
        deadline.moved(len(chunk))
        if len(content) > most:
            raise no_response(host, f"its answer is longer than the {most:,} bytes it may have")
    after = patience(came.headers.get("retry-after"))
    return Response(host, came.status_code, bytes(content), after)


def is_secret(text: str) -> bool:
    """Says whether a text can stand in a header as a token or key."""
    return 0 < len(text) <= 1000 and text.isascii() and text.isprintable()


log = logging.getLogger("elmgrove.exchange")
# What stands before a key as long as it is not known whether the device has joined by it.
_JOINING = "joining "


class HttpExchange:
    """Speaks with ``elmgrove serve``; ``url`` ends in the federation's name.

    A device has a key of its own. The first time it makes one, keeps it in ``keyfile``, and joins
    by it with the federation's ``token``; a key that will expire is changed in time. Nothing is
    sent before it is needed. An answer is believed if it is what was asked for, no longer than the
    charter explains, and complete within ``timeout`` seconds.
    """

    def __init__(
        self,
        url: str,
        device: str,
        *,
        key: str | None = None,
        token: str | None = None,
        keyfile: Path | None = None,
        tls: Tls = TLS,
        timeout: float = SECONDS,
    ) -> None:
        server, federation = require_federation(url)
        root = f"/v1/federations/{federation}"
        self._open = partial(client, server, tls=tls, timeout=timeout, root=root)
        require_address(device)
        self._device = device
        self._key = key
        self._token = token
        self._keyfile = keyfile
        # The key by which the device joins, once it is kept.
        self._made: str | None = None
        self._opened: httpx.Client | None = None
        self._charter: Charter | None = None
        # Whether the server was told that a command is none, and when a key may be changed again.
        self._told_unclear, self._change_key_from = False, 0.0

    @property
    def charter(self) -> Charter:
        """The federation's charter, asked for once."""
        if self._charter is None:
            answer = self._request("GET", "")
            with answer.reading():
                found = Charter.from_fields(answer.read(dict[str, Any]))
                require_makeable(found)
            self._charter = found
        return self._charter

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one; see ``Exchange``."""
        where = f"/contributions/{address_of(entry.origin)}"
        if not isinstance(entry, Contribution):
            self._request("DELETE", where, params={"epoch": entry.epoch}, most=SHORT)
            return
        answer = self._request("PUT", where, content=entry.to_bytes(), most=SHORT)
        told = answer.read(Stored)
        if (told.origin, told.epoch) != (entry.origin, entry.epoch) or not told.revision:
            raise answer.unlike("it did not store what was sent")

    def others(
        self, device: str, rule: Rule = EVERYONE, known: Merged | None = None
    ) -> Merged | None:
        """Asks what others know and lend; what is unchanged costs a few hundred bytes."""
        asked = {"without": device, "merge": str(rule)}
        return self._unless_known("/others", known, asked, others_limit(self.charter))

    def merged(
        self,
        device: str,
        rule: Rule = EVERYONE,
        known: Merged | None = None,
        *,
        patterns: bool = False,
    ) -> Merged | None:
        """Asks for the sum over others; an unchanged one costs a few hundred bytes."""
        asked = {"without": device, "merge": str(rule)} | ({"patterns": "true"} if patterns else {})
        return self._unless_known("/merged", known, asked, content_limit(self.charter))

    def _unless_known(
        self, path: str, known: Merged | None, asked: dict[str, str], most: int
    ) -> Merged | None:
        self._renew_key()
        tag = {} if known is None else {"If-None-Match": f'"{known.revision}"'}
        expected = [200] if known is None else [200, 304]
        answer = self._request("GET", path, headers=tag, params=asked, most=most, expected=expected)
        if answer.status == 304:
            return None
        with answer.reading():
            found = Merged.from_bytes(answer.content)
        if found.rule != asked["merge"]:
            raise answer.unlike(f"it answered for {found.rule!r:.80}")
        return found

    def report(self, report: Report) -> tuple[Command, ...]:
        """Tells the server how a device is doing; gives what its administrators ask of it.

        As many commands as one report tells the results of.
        """
        answer = self._request(
            "PUT",
            f"/reports/{address_of(report.device)}",
            content=_written(report.fields),
            headers={"Content-Type": "application/json"},
            # As many as a server keeps for one device.
            most=1 << 18,
        )
        found = (self._command(stated) for stated in answer.read(list[dict[str, Any]], "commands"))
        return tuple(islice((one for one in found if one is not None), MOST_RESULTS))

    def _command(self, stated: dict[str, Any]) -> Command | None:
        """What is asked of the device; None for what a newer server, or somebody else, may ask."""
        try:
            return Command.from_fields(stated)
        except BadInput as error:
            level = logging.DEBUG if self._told_unclear else logging.WARNING
            log.log(level, "a command that this device can't do: %s", error)
            self._told_unclear = True
            return None

    def entries(self) -> list[Entry]:
        """Fetches what all devices contributed, for administrators."""
        answer = self._request("GET", "/contributions", most=1 << 30)
        with answer.reading():
            return [entry_from_bytes(blob) for blob in unbundle(answer.content)]

    def close(self) -> None:
        """Closes the connection, if there is one, and lets go of the charter."""
        self._charter = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, method: str, path: str, **options: Any) -> Response:
        if self._opened is None:
            self._opened = self._open(self._known_key() or self._enrolled())
        return request(self._opened, method, path, **options)

    # The device's key

    def _renew_key(self) -> None:
        """Changes a key that is old for a new one; where that can't be done, it will do for now.

        It is old when two thirds of the time are over for which keys of the federation last. Its
        age is that of its file.
        """
        lasts, file = self.charter.terms.key_days, self._keyfile
        if lasts is None or file is None or not file.exists():
            return
        is_old = time.time() - file.stat().st_mtime > lasts * DAY * 2 / 3
        if is_old and time.monotonic() >= self._change_key_from:
            # Once an hour while it fails: the server records each offer of a key.
            self._change_key_from = time.monotonic() + 3600.0
            try:
                self._change_key(file)
            except (ElmgroveError, OSError) as error:
                log.warning("the key of this device could not be changed: %s", error)
            else:
                log.info("this device has a new key; the old one is worthless")

    def _change_key(self, file: Path) -> None:
        answer = self._request("POST", f"/devices/{address_of(self._device)}/key", most=SHORT)
        key: str = answer.read(str, "key")
        if answer.read(str, "name") != self._device or not is_secret(key):
            raise answer.unlike("it gave no new key")
        # Before it is used: whatever happens, the file holds a key that is valid.
        write(file, key.encode(), private=True)
        if self._opened is not None:
            self._opened.close()
        self._key, self._opened = key, None

    def _known_key(self) -> str | None:
        if self._key is None and self._keyfile is not None and self._keyfile.exists():
            text = self._keyfile.read_text(encoding="utf-8").strip()
            key = text.removeprefix(_JOINING)
            if key != text and self._token is not None:
                self._made = key
            else:
                self._key = key
        return self._key

    def _enrolled(self) -> str:
        """Joins the federation, by a key of its own that is kept before it is told.

        Whatever happens then, asking again with this key is the same as having asked once.
        """
        if self._token is None:
            raise Unauthorized(f"{self._device!r} needs the federation's token to join, or its key")
        is_first = self._made is None
        if self._made is None:
            made = f"elm-key-{secrets.token_urlsafe(32)}"
            self._keep_key(_JOINING + made)
            self._made = made
        asked = {"name": self._device, "key": self._made}
        try:
            with self._open(self._token) as opened:
                answer = request(
                    opened, "POST", "/devices", json=asked, expected=(201,), most=SHORT
                )
        except (Refused, Unauthorized):
            # Asked before without an answer, the device may have joined by that key.
            if is_first:
                self._made = None
                if self._keyfile is not None:
                    self._keyfile.unlink(missing_ok=True)
            raise
        if answer.read(str, "key") != self._made:
            raise answer.unlike(f"it did not take the key of {self._device!r}")
        # Where the disk is full by now, the next start asks again.
        with suppress(Unreachable):
            self._keep_key(self._made)
        self._key = self._made
        return self._key

    def _keep_key(self, key: str) -> None:
        if self._keyfile is None:
            return
        try:
            write(self._keyfile, key.encode(), private=True)
        except OSError as error:
            raise Unreachable(
                f"{self._keyfile} can't be written: {error.strerror}; without a place for its key "
                f"{self._device!r} can't join"
            ) from error


def require_federation(url: str) -> tuple[str, str]:
    """Gives the URL of the server and the federation's name that a URL is made of.

    Raises ``BadInput`` unless it ends in a name. Before that it may have a prefix of paths, under
    which a proxy shows the server.
    """
    parts = urlsplit(url)
    path, _, name = parts.path.rstrip("/").rpartition("/")
    # Addresses of the dashboard and of the interface are taken for that of a federation.
    if parts.netloc and (not name or path.endswith(("/ui", "/v1/federations"))):
        like = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/NAME"
        raise BadInput(
            f"{url}: no federation is named; its URL is {like}, as 'elmgrove federation create' "
            "said"
        )
    return parts._replace(path=path, query="", fragment="").geturl(), name


def _written(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
