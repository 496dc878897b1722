"""Where a running agent can be reached: HTTP at a local socket, and at a port if set to."""

import hashlib
import hmac
import io
import ipaddress
import json
import logging
import os
import selectors
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from elmgrove.errors import BadInput, Problem

log = logging.getLogger("elmgrove.device")

#: The most bytes that a request may bring, and the seconds in which all of it must have come.
MOST_BYTES, SECONDS = 1 << 22, 10.0
#: Callers that are heard at once; for one more, who has been silent longest is hung up on.
MOST_CALLERS = 32
# Seconds to wait where a call is there and can't be taken: the system has no more files.
_PAUSE = 0.1
# Seconds in which the thread of a caller that is hung up on has long ended.
_HANG_UP = 1.0
#: Each kind of refusal: its status and its title. The key ends the document's ``type``.
REFUSALS = {
    "malformed": (400, "The request can't be read"),
    "unauthorized": (401, "A valid token is needed"),
    "forbidden": (403, "Pages of a browser may not do that"),
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
_KINDS = {status: kind for kind, (status, _) in REFUSALS.items()}
_JSON = "application/json"


class Call(NamedTuple):
    """A request as it came; ``read`` gives its body, which is not waited for before."""

    method: str
    path: str
    headers: Message
    read: Callable[[], bytes]

    def json(self) -> dict[str, Any]:
        """Reads the body as an object of JSON.

        Only if it says that it is JSON: a page elsewhere can make a browser send other types here
        without asking first.
        """
        if self.headers.get("Content-Type", "").partition(";")[0].strip().lower() != _JSON:
            raise Problem("not-json", f"the Content-Type must be {_JSON}")
        try:
            found = json.loads(self.read() or b"{}", parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise Problem("malformed", f"this is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise Problem("malformed", "the body must be an object: {...}")
        return found


class Said(NamedTuple):
    """What is answered to a call that is fulfilled."""

    content: bytes
    media: str = _JSON

    @classmethod
    def fields(cls, fields: Mapping[str, Any]) -> "Said":
        """Says an object of JSON."""
        return cls(json.dumps(fields, ensure_ascii=False, allow_nan=False).encode())


class Door:
    """Answers calls at ``address``, a path for a local socket or host and port, until closed.

    ``answer`` is called in the caller's own thread, and raises ``Problem``. A caller that is slow,
    sends too much or hangs up costs a thread for a few seconds, and nothing else.
    """

    def __init__(self, address: Path | tuple[str, int], answer: Callable[[Call], Said]) -> None:
        self._server = _Server(address, answer)
        self._awake, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="elmgrove-door", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Any:
        """Where it listens: host and port, or the path of a local socket."""
        return self._server.server_address

    def close(self) -> None:
        """Stops listening, at once."""
        self._wake.close()
        self._thread.join()
        self._awake.close()
        self._server.server_close()

    def _serve(self) -> None:
        """Hands calls on until ``close`` closes the other end; waits without waking up in vain."""
        with selectors.DefaultSelector() as either:
            either.register(self._server, selectors.EVENT_READ)
            either.register(self._awake, selectors.EVENT_READ)
            while all(key.fileobj is self._server for key, _ in either.select()):
                self._server.handle_request()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    # Calls that wait to be taken: beyond, a caller tries again only after a second.
    request_queue_size = 4 * MOST_CALLERS
    # For ``handle_request``: it is called when there is a request, or was one.
    timeout = 0

    def __init__(self, address: Path | tuple[str, int], answer: Callable[[Call], Said]) -> None:
        self.answer = answer
        self._callers = threading.Semaphore(MOST_CALLERS)
        # Those that have not asked for anything yet, the oldest first.
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
            # The call stays there: to ask again at once would take all the time there is.
            time.sleep(_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._has_place():
            self.shutdown_request(request)
            return
        self._silent[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread began that would give the place back.
            self.heard(request)
            self._callers.release()
            raise

    def heard(self, request: Any) -> None:
        """Says that a caller asked for something, or is gone."""
        self._silent.pop(request, None)

    def _has_place(self) -> bool:
        """Finds a place, if need be that of a caller that holds one and asks for nothing."""
        if self._callers.acquire(blocking=False):
            return True
        for oldest in list(self._silent):
            self.heard(oldest)
            with suppress(OSError):  # it hung up itself
                oldest.shutdown(socket.SHUT_RDWR)
            return self._callers.acquire(timeout=_HANG_UP)
        return False

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.heard(request)
            self._callers.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: callers may hang up at any time."""
        log.debug("a caller was lost", exc_info=True)


class _Arriving(io.RawIOBase):
    """What a caller sends, up to a point in time: one byte every few seconds is not a request."""

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
        self.server.heard(self.connection)
        try:
            call = Call(self.command, self.path.partition("?")[0], self.headers, self._read)
            said = self.server.answer(call)
        except Problem as refusal:
            self._refuse(refusal)
        except Exception:  # whatever a caller's request does, the agent goes on
            log.exception("%s %s failed", self.command, self.path)
            self._refuse(Problem("internal", "the agent's log says more"))
        else:
            self._send(200, *said)

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
        """Refuses what the base class can't read or does not know."""
        kind = "method-not-allowed" if code == 501 else _KINDS.get(code, "malformed")
        self._refuse(Problem(kind, message or self.responses[code][0]))

    def _refuse(self, refusal: Problem) -> None:
        # What could not be read as a request has no path.
        content = json.dumps(
            refusal.document(*REFUSALS[refusal.kind], getattr(self, "path", ""))
        ).encode()
        self._send(REFUSALS[refusal.kind][0], content, "application/problem+json")

    def _send(self, status: int, content: bytes, media: str) -> None:
        self.connection.settimeout(SECONDS)
        self.close_connection = True
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Logs nothing: standard error is the agent's log."""


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


#: The header by which a command says which state it means: a hash of where that is.
MEANT = "Elmgrove-State"


class Listener:
    """Lets ``control`` answer callers that have the token, at a port.

    The connection is not encrypted; across networks that are not yours, use a tunnel.
    """

    def __init__(self, address: str, token: str, control: Callable[[Call], Said]) -> None:
        self._token = token
        self._control = control
        host = address.rpartition(":")[0]
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}
        self._door = door_at("listen", address, self._answer)

    @property
    def url(self) -> str:
        """The listener's address on this machine."""
        host, port = self._door.address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stops listening."""
        self._door.close()

    def _answer(self, call: Call) -> Said:
        self._require_no_page(call)
        _require_token(call, self._token)
        return self._control(call)

    def _require_no_page(self, call: Call) -> None:
        """Refuses pages of a browser: those that say so, and those that come by a foreign name.

        The owner of a name can let it lead here: then a page of theirs is at home with the agent.
        """
        if "Origin" in call.headers:
            raise Problem("forbidden", "requests of pages (with an Origin) are not answered")
        name = _name(call.headers.get("Host", ""))
        if name not in self._names and not _is_number(name):
            raise Problem("forbidden", f"this agent is not called {name!r:.80}: use its number")


class LocalSocket:
    """The socket for commands on this machine: only the owner of the state may use it.

    Who says that another state is meant is refused: a name in a folder of everybody can lead to
    the socket of another agent. Where there can be none, the agent goes on without.
    """

    def __init__(self, state: Path, control: Callable[[Call], Said]) -> None:
        self._door: Door | None = None
        self._state, self._control = state, control
        troubles = list[str]()
        for place in socket_places(state) if hasattr(socket, "AF_UNIX") else ():
            try:
                # The state is locked, so no agent is behind a socket that is there.
                place.unlink(missing_ok=True)
                self._door = Door(place, self._answer)
                return
            except OSError as error:
                troubles.append(str(error))
        log.info("no local socket, so no commands while it runs. %s", "; ".join(troubles))

    def close(self) -> None:
        """Stops listening, and removes the socket."""
        if self._door is not None:
            with suppress(OSError):
                Path(self._door.address).unlink(missing_ok=True)
            self._door.close()

    def _answer(self, call: Call) -> Said:
        own = hash_of(self._state)
        if call.headers.get(MEANT, own) != own:
            raise Problem("refused", f"this agent has another state, {self._state.name}")
        return self._control(call)


def door_at(setting: str, address: str, answer: Callable[[Call], Said]) -> Door:
    """Opens a door at host:port, or raises ``BadInput`` that names the setting."""
    host, _, port = address.rpartition(":")
    try:
        return Door((host.strip("[]"), int(port)), answer)
    except OSError as error:
        raise BadInput(f"{setting}: {address}: {error.strerror}; choose another address") from error


def hash_of(state: Path) -> str:
    """Tells states apart by where they are, in a few letters."""
    return hashlib.sha256(os.fsencode(_beside(state))).hexdigest()[:16]


def socket_places(state: Path) -> list[Path]:
    """Names where the socket of the agent that has this state may be, the best place first.

    Beside the state, as the lock is; in the system's folder for temporary files where that path is
    too long for a socket, or the disk has none.
    """
    places = [_beside(state)]
    # Where no disk takes anything there is no such folder.
    with suppress(FileNotFoundError):
        places.append(Path(tempfile.gettempdir()) / f"elmgrove-{hash_of(state)}.sock")
    return places


def _beside(state: Path) -> Path:
    real = Path(os.path.realpath(state))
    return real.with_name(f".{real.name}.sock")


def _require_token(call: Call, token: str) -> None:
    given, wanted = call.headers.get("Authorization", ""), f"Bearer {token}"
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        raise Problem("unauthorized", "send it as Authorization: Bearer ...")


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
