"""Somebody else's server, and a sync by hand."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from elmgrove.exchange import Unreachable
from elmgrove.exchange.peers import PeerSession, pull


@contextmanager
def answering(content: bytes, code: int = 200) -> Iterator[str]:
    """Somebody else's server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def sync(session: PeerSession) -> Any:
    return session.apply(session.transfer(session.prepare()))


def heard(url: str, token: str | None = None) -> list[Any]:
    """What an agent that listens gives away; nothing before it does."""
    try:
        return list(pull(url, token=token))
    except Unreachable:
        return []
