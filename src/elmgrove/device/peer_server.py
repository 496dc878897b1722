"""The server that other agents pull from: plain HTTP, in a thread of its own."""

import hmac
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from elmgrove.errors import BadInput
from elmgrove.exchange import PATH
from elmgrove.federation import Member, bundle


class Listener:
    """Gives other agents what a member published and what it received, as of the last ``tell``.

    What the member learned since then stays on the device: the upload guard holds for peers as
    well. The connection is not encrypted; across networks that are not yours, use a tunnel.
    """

    def __init__(self, address: str, token: str | None) -> None:
        self._content = b""
        self._token = token
        self._server = _bound(address, self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The listener's address on this machine."""
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def tell(self, member: Member) -> None:
        """Takes what the member may tell others, and gives it to agents that ask from now on."""
        own = [] if member.shared is None else [member.shared]
        self._content = bundle(entry.to_bytes() for entry in [*own, *member.ledger.entries])

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 30

            def do_GET(self) -> None:
                if self.path != PATH:
                    self.send_error(404)
                elif not listener._allows(self.headers.get("Authorization", "")):
                    self.send_error(401)
                else:
                    self._send(listener._content)

            def _send(self, content: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Logs nothing: standard error is the agent's log."""

        return Handler

    def _allows(self, authorization: str) -> bool:
        wanted = f"Bearer {self._token}"
        return not self._token or hmac.compare_digest(authorization.encode(), wanted.encode())


def _bound(address: str, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    host, _, port = address.rpartition(":")

    class Bound(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET

    try:
        return Bound((host.strip("[]"), int(port)), handler)
    except OSError as error:
        raise BadInput(f"listen: {address}: {error.strerror}; choose another address") from error
