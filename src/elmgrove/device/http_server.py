"""A small HTTP server for an agent: at a local socket for its control, at a port for metrics."""

import io
import json
import logging
import selectors
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

from elmgrove.errors import Problem

log = logging.getLogger("elmgrove.device")

#: The most bytes that a request may bring, and the seconds in which all of it must have come.
MOST_BYTES, SECONDS = 1 << 22, 10.0
#: Connections at once; for one more, the one that has been silent longest is closed.
MOST_CONNECTIONS = 32
#: Each kind of refusal: its status and its title. The key ends the document's ``type``.
REFUSALS = {
    "malformed": (400, "The request can't be read"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "Method not allowed"),
    "slow": (408, "The request took too long to arrive"),
    "length-required": (411, "The request must state its length"),
    "too-large": (413, "The request is too large"),
    "not-json": (415, "The request must be JSON"),
    "refused": (422, "Not done"),
    "internal": (500, "The agent failed; nothing was changed"),
    "busy": (503, "The agent can't answer now; nothing was changed"),
    "not-saved": (507, "The state can't be saved; nothing was changed"),
}


class Request(NamedTuple):
    """A request; ``read`` waits for its body and returns it."""

    method: str
    path: str
    headers: Message
    read: Callable[[], bytes]

    def json(self) -> dict[str, Any]:
        """Reads the body as a JSON object.

        Only with the Content-Type of JSON: a web page can make a browser send other types here
        without asking first.
        """
        media = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            raise Problem("not-json", "the Content-Type must be application/json")
        try:
            found = json.loads(self.read() or b"{}", parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise Problem("malformed", f"this is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise Problem("malformed", "the body must be an object: {...}")
        return found


class Response(NamedTuple):
    content: bytes
    media: str = "application/json"

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Response":
        return cls(json.dumps(fields, ensure_ascii=False, allow_nan=False).encode())


class HttpServer:
    """Answers requests at a local socket (a path), or at a host and port, until closed.

    ``answer`` is called in a thread of the connection, and may raise ``Problem``. A client that is
    slow, sends too much or hangs up costs a thread for a few seconds, and nothing else.
    """

    def __init__(
        self, address: Path | tuple[str, int], answer: Callable[[Request], Response]
    ) -> None:
        self._server = _Server(address, answer)
        self._awake, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="elmgrove-http", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Any:
        """Host and port, or the path of a local socket."""
        return self._server.server_address

    def close(self) -> None:
        """Stops listening, at once."""
        self._wake.close()
        self._thread.join()
        self._awake.close()
        self._server.server_close()

    def _serve(self) -> None:
        """Accepts connections until ``close`` closes the other end of ``_awake``."""
        with selectors.DefaultSelector() as either:
            either.register(self._server, selectors.EVENT_READ)
            either.register(self._awake, selectors.EVENT_READ)
            while all(key.fileobj is self._server for key, _ in either.select()):
                self._server.handle_request()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    # Connections that wait to be accepted: beyond, a client tries again only after a second.
    request_queue_size = 4 * MOST_CONNECTIONS
    # For ``handle_request``: it is called when there is a request, or was one.
    timeout = 0

    def __init__(
        self, address: Path | tuple[str, int], answer: Callable[[Request], Response]
    ) -> None:
        self.answer = answer
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        # Connections without a request yet, the oldest first.
        self._silent = dict[socket.socket, None]()
        if isinstance(address, Path):
            self.address_family = socket.AF_UNIX
        elif ":" in address[0]:
            self.address_family = socket.AF_INET6
        where: Any = str(address) if isinstance(address, Path) else address
        super().__init__(where, _Handler, bind_and_activate=False)
        try:
            self.server_bind()
            if isinstance(address, Path):
                # Nobody can connect before the next step: there is no moment for others.
                address.chmod(0o600)
            self.server_activate()
        except BaseException:
            self.server_close()
            raise

    def get_request(self) -> Any:
        try:
            return super().get_request()
        except OSError:
            # No more file descriptors: the connection keeps waiting, and trying again at once
            # would take all the time there is.
            time.sleep(0.1)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._has_place():
            self.shutdown_request(request)
            return
        self._silent[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread has begun that would give the place back.
            self.forget(request)
            self._free.release()
            raise

    def forget(self, request: Any) -> None:
        """Takes note that a connection has brought a request, or is gone."""
        self._silent.pop(request, None)

    def _has_place(self) -> bool:
        """Finds a place, if need be that of a connection that is silent."""
        if self._free.acquire(blocking=False):
            return True
        for oldest in list(self._silent):
            self.forget(oldest)
            with suppress(OSError):  # it hung up itself
                oldest.shutdown(socket.SHUT_RDWR)
            # Its thread ends at once.
            return self._free.acquire(timeout=1.0)
        return False

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.forget(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Clients may hang up at any time.
        log.debug("a connection was lost", exc_info=True)


class _Arriving(io.RawIOBase):
    """What a client sends, up to a point in time: one byte every few seconds is not a request."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = time.monotonic() + SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0.0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Arriving(self.connection))

    def do_GET(self) -> None:
        self.server.forget(self.connection)
        try:
            path = self.path.partition("?")[0]
            response = self.server.answer(Request(self.command, path, self.headers, self._read))
        except Problem as refusal:
            self._refuse(refusal)
        except Exception:  # whatever a request does, the agent goes on
            log.exception("%s %s failed", self.command, self.path)
            self._refuse(Problem("internal", "the agent's log says more"))
        else:
            self._send(200, *response)

    do_POST = do_GET

    def _read(self) -> bytes:
        stated = self.headers.get("Content-Length")
        if stated is None:
            raise Problem("length-required", "chunks are not taken: state a Content-Length")
        if not (stated.isascii() and stated.isdecimal()):
            raise Problem("malformed", f"a Content-Length of {stated!r:.40}")
        # Python refuses to read numbers of thousands of digits.
        if len(stated) > 18 or int(stated) > MOST_BYTES:
            raise Problem("too-large", f"{MOST_BYTES:,} bytes at most")
        try:
            return self.rfile.read(int(stated))
        except TimeoutError as error:
            raise Problem("slow", f"all of it must come within {SECONDS:g} s") from error

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuses what the base class can't read, or methods that it does not know."""
        kinds = {status: kind for kind, (status, _) in REFUSALS.items()}
        kind = "method-not-allowed" if code == 501 else kinds.get(code, "malformed")
        self._refuse(Problem(kind, message or self.responses[code][0]))

    def _refuse(self, refusal: Problem) -> None:
        # What could not be read as a request has no path.
        document = refusal.document(*REFUSALS[refusal.kind], getattr(self, "path", ""))
        content = json.dumps(document).encode()
        self._send(REFUSALS[refusal.kind][0], content, "application/problem+json")

    def _send(self, status: int, content: bytes, media: str) -> None:
        self.connection.settimeout(SECONDS)
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Logs nothing: standard error is the agent's own log."""


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")
