"""Exchanges that say what a test wants: honest ones without a data base, and liars."""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from elmgrove.exchange.base import listing_of, merged_of, others_of
from elmgrove.federation.charter import Charter
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.contribution import Contribution, Departure, bundle
from elmgrove.federation.report import Report

#: What is written to the connection, piece by piece.
Pieces = Iterator[bytes]


@dataclass
class Asked:
    """A request as it came; ``route`` is what follows the federation's name."""

    method: str
    path: str
    body: bytes

    @property
    def route(self) -> str:
        route = urlsplit(self.path).path.removeprefix("/v1/federations/").partition("/")[2]
        return f"{self.method} /{route.partition('/')[0]}"

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query)


@dataclass
class Reply:
    """An answer, written as HTTP."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, fields: Any, status: int = 200, **headers: str) -> "Reply":
        return cls(status, json.dumps(fields).encode(), headers)

    def raw(self) -> bytes:
        headers = {"Content-Length": str(len(self.body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} Said", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


@dataclass
class HonestExchange:
    """Answers what a server would, for devices that each have published once.

    ``asks`` are commands, each for whichever device comes first; ``heard`` what devices told.
    """

    charter: Charter
    others: list[Contribution]
    asks: list[Command] = field(default_factory=list)
    heard: list[Report] = field(default_factory=list)

    @property
    def outcomes(self) -> list[CommandResult]:
        """What came of commands, as it was told."""
        return [outcome for report in self.heard for outcome in report.outcomes]

    def __call__(self, asked: Asked) -> Reply:
        match asked.route:
            case "GET /":
                return Reply.json(self.charter.fields)
            case "POST /devices":
                return Reply.json(json.loads(asked.body), 201)
            case "PUT /contributions":
                put = Contribution.from_bytes(asked.body)
                return Reply.json({"origin": put.origin, "epoch": put.epoch, "revision": 1})
            case "PUT /reports":
                self.heard.append(Report.from_fields(json.loads(asked.body)))
                done = {outcome.command for outcome in self.outcomes}
                waiting = [command.fields for command in self.asks if command.id not in done]
                return Reply.json({"commands": waiting})
            case "DELETE /contributions":
                return Reply(204)
            case "GET /entries":
                return Reply.json({"entries": [_entry(one) for one in self.others]})
            case "GET /contributions":
                wanted = asked.query["origin"]
                found = (one.to_bytes() for one in self.others if one.origin in wanted)
                return Reply(200, bundle(found))
            case "GET /merged":
                return Reply(200, merged_of(self.charter, 7, self.others).to_bytes())
            case "GET /others":
                own = asked.query["without"][0]
                return Reply(200, others_of(self.charter, 7, self.others, own).to_bytes())
        raise AssertionError(asked)


def _entry(one: Contribution) -> dict[str, Any]:
    shown = listing_of(one, len(one.to_bytes()))
    assert not isinstance(one, Departure)
    return {
        "origin": shown.origin,
        "epoch": shown.epoch,
        "count": one.evidence.count,
        "size": shown.size,
        "received": 1.0,
        "left": shown.left,
        "revision": 1,
    }


@contextmanager
def saying(answer: Callable[[Asked], Reply | Pieces]) -> Iterator[str]:
    """A server that answers so, at this address; what is no ``Reply`` is written as it is."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            said = answer(Asked(self.command, self.path, body))
            if isinstance(said, Reply):
                self.wfile.write(said.raw())
                self.close_connection = "Connection" in said.headers
                return
            self.close_connection = True
            for piece in said:
                self.wfile.write(piece)
                if over.is_set():
                    return

        do_POST = do_PUT = do_DELETE = do_GET

        def handle(self) -> None:
            with suppress(OSError, ValueError):  # the device has hung up
                super().handle()

        def finish(self) -> None:
            with suppress(OSError, ValueError):
                super().finish()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            over.set()
            server.shutdown()
            thread.join()
