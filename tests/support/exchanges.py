"""Exchanges that say what a test wants: honest ones without a data base, and liars."""

import gzip
import hashlib
import json
import random
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from elmgrove.exchange.base import Exchange
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.http import HttpExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.mqtt import MqttExchange
from elmgrove.federation.charter import Charter
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.contribution import Contribution, Entry, bundle, unbundle
from elmgrove.federation.report import Report
from elmgrove.federation.selection import rule_of
from elmgrove.storage.sealed import seal, unseal
from support.mosquitto import running_broker
from support.serving import ADMIN, empty_database, serving

#: What is written to the connection, piece by piece.
Pieces = Iterator[bytes]


@dataclass
class Asked:
    """A request as it came; ``route`` is what follows the federation's name."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

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
    def results(self) -> list[CommandResult]:
        """What came of commands, as it was told."""
        return [result for report in self.heard for result in report.results]

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
                done = {result.command for result in self.results}
                waiting = [command.fields for command in self.asks if command.id not in done]
                return Reply.json({"commands": waiting})
            case "DELETE /contributions":
                return Reply(204)
            case "GET /contributions":
                return Reply(200, bundle(one.to_bytes() for one in self.others))
            case "GET /merged" | "GET /others":
                held = MemoryExchange(replace(self.charter, members=None))
                for one in self.others:
                    held.publish(one)
                ask = held.merged if asked.route == "GET /merged" else held.others
                found = ask(asked.query["without"][0], rule_of(asked.query["merge"][0]))
                assert found is not None
                return Reply(200, found.to_bytes())
        raise AssertionError(asked)


@contextmanager
def saying(answer: Callable[[Asked], Reply | Pieces]) -> Iterator[str]:
    """A server that answers so, at this address; what is no ``Reply`` is written as it is."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            said = answer(Asked(self.command, self.path, body, dict(self.headers)))
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


# Lies of an exchange: a grammar of what it may answer that is not what was asked for.


#: What no field should be, whichever it is.
MONSTERS: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**53,
    2**62 - 1,
    2**63 - 1,
    2**63,
    10**400,
    0.5,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "7",
    "\x00",
    "\ud800",
    "\x1b[2J\n",
    "x" * 5000,
    [],
    [1],
    [[]],
    {},
    {"": {}},
]
FORMATS = ("elmgrove.evidence", "elmgrove.merged")
Lie = Callable[[Asked, Reply, random.Random], Reply | Pieces]


def page(asked: Asked, truth: Reply, chance: random.Random) -> Reply:
    """Another status, another body: a portal, a proxy, the wrong machine."""
    status = chance.choice([200, 201, 204, 206, 301, 302, 304, 307, 400, 401, 403, 404, 407])
    status = chance.choice([status, 409, 413, 418, 422, 429, 500, 502, 503, 511, 600, 999])
    headers = {
        "Location": chance.choice(["/", "http://[::", "//x", "\xff", "file:///etc", asked.path]),
        "Retry-After": str(chance.choice([0, -1, 7, 10**30, "soon", "\xff"])),
        "Set-Cookie": f"a{chance.random()}=b; Path=/",
        "WWW-Authenticate": "Basic",
        "Content-Type": chance.choice(["text/html", "application/json", "\xff"]),
    }
    body = chance.choice([b"", b"<html>Please log in.</html>", b"null", truth.body])
    names = chance.sample(sorted(headers), chance.randrange(len(headers)))
    return Reply(status, body, {name: headers[name] for name in names})


def packed(asked: Asked, truth: Reply, chance: random.Random) -> Reply:
    """An encoding that was not asked for, or that is none."""
    body = chance.choice([truth.body, gzip.compress(truth.body), gzip.compress(b" " * 10**6)])
    name = chance.choice(["gzip", "deflate", "br", "zstd", "x", "gzip, gzip", "identity, gzip"])
    return Reply(
        truth.status, body + chance.randbytes(chance.randrange(3)), {"Content-Encoding": name}
    )


def wrong_field(asked: Asked, truth: Reply, chance: random.Random) -> Reply:
    """A field of what was true that is missing, or a monster; or of what is no such object."""
    try:
        fields = json.loads(truth.body)
    except ValueError:
        fields = {"entries": [], "type": "x"}
    _mangle(fields, chance)
    return Reply.json(fields, truth.status)


def _mangle(found: Any, chance: random.Random) -> None:
    while True:
        keys = list(found) if isinstance(found, dict) else range(len(found))
        key = chance.choice([*keys, "more"] if isinstance(found, dict) else [*keys] or [None])
        if key is None:
            found.append(chance.choice(MONSTERS))
            return
        inner = found.get(key) if isinstance(found, dict) else found[key]
        if not isinstance(inner, dict | list) or chance.random() < 0.4:
            break
        found = inner
    if isinstance(found, dict) and key in found and chance.random() < 0.2:
        del found[key]
    else:
        # A copy: one monster must not become part of another.
        found[key] = json.loads(json.dumps(chance.choice(MONSTERS)))


def nonsense(asked: Asked, truth: Reply, chance: random.Random) -> Reply:
    """Text that is no JSON, or far too deep."""
    deep = chance.randrange(900, 100_000)
    texts = [b"[" * deep, b'{"entries":' * deep, b'{"a":[' * deep + b"]}" * deep]
    texts += [b"\xff\xfe", b"{", b"nul", b"1" * chance.randrange(4000, 9000), b"1e999", b"NaN"]
    texts += [truth.body[: chance.randrange(len(truth.body) + 1)], b'{"\\ud800": 1}']
    return Reply(chance.choice([truth.status, 200, 409]), chance.choice(texts))


def refusal(asked: Asked, truth: Reply, chance: random.Random) -> Reply:
    """A problem document, as Elmgrove writes them or nearly so."""
    document = {
        "type": f"urn:elmgrove:problem:{chance.choice(['outdated', 'refused', 'x'])}",
        "title": "No",
        "detail": chance.choice(["because", "\x1b[2J\n" * 99, f"{chance.random()}", "x" * 10**5]),
        "held_epoch": chance.choice([*MONSTERS, chance.randrange(2**40)]),
        "shrunk": chance.choice([*MONSTERS, True, False]),
    }
    for name in chance.sample(sorted(document), chance.randrange(3)):
        document[name] = chance.choice(MONSTERS)
    for name in chance.sample(sorted(document), chance.randrange(2)):
        del document[name]
    return Reply.json(
        document, chance.choice([400, 401, 403, 404, 409, 409, 409, 422, 429, 500, 503])
    )


def damaged(asked: Asked, truth: Reply, chance: random.Random) -> Reply:
    """Bytes that changed on their way."""
    body = bytearray(truth.body or b"?")
    for _ in range(chance.choice([1, 1, 2, 30])):
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    cut = chance.choice([len(body), chance.randrange(len(body))])
    return Reply(truth.status, bytes(body[:cut]) + chance.randbytes(chance.choice([0, 1, 40])))


def forged(asked: Asked, truth: Reply, chance: random.Random) -> Reply:
    """What a server could have sealed, with a right checksum, and no device has learned."""
    if asked.route != "GET /contributions":
        return Reply(truth.status, _forged(truth.body, chance))
    blobs = [_forged(blob, chance) for blob in unbundle(truth.body)]
    raw = bundle(blobs * chance.choice([1, 1, 2]))
    return Reply(truth.status, chance.choice([raw, raw[:8], b"\xff" * 8 + raw, raw[:-3]]))


def _forged(blob: bytes, chance: random.Random) -> bytes:
    for name in FORMATS:
        try:
            fields, arrays = unseal(name, blob)
        except ValueError:
            continue
        arrays = {key: array.copy() for key, array in arrays.items()}
        if chance.random() < 0.5:
            _mangle(fields, chance)
        else:
            array = chance.choice(list(arrays.values())).reshape(-1)
            value = chance.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, -1.0, 0.0])
            array[chance.randrange(len(array))] = value
        try:
            return seal(chance.choice([*FORMATS, name, name]), fields, arrays)
        except (ValueError, UnicodeError):  # what JSON does not know
            return json.dumps(fields).encode()
    return b"{}"


def broken(asked: Asked, truth: Reply, chance: random.Random) -> Pieces:
    """No HTTP, or not as much of it as it says."""
    head = b"HTTP/1.1 200 OK\r\n"
    raw, size = truth.raw(), len(truth.body)
    texts = [
        b"",
        chance.randbytes(chance.randrange(1, 3000)),
        raw[: chance.randrange(len(raw))],
        raw.replace(b"HTTP/1.1", chance.choice([b"HTTP/9.9", b"ICY", b"HTTP/1.0", b"http/1.1"])),
        head + b"Content-Length: %d\r\n\r\n" % (size + 9) + truth.body,
        head + b"Content-Length: -1\r\n\r\n" + truth.body,
        head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n" + truth.body,
        head + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
        head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        head + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
        head + b"Transfer-Encoding: gzip\r\n\r\n" + truth.body,
        head + b"X: " + b"y" * chance.randrange(200_000) + b"\r\n\r\n",
        head + b"X\x00: \x01\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * chance.randrange(1, 200) + raw,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + raw,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(60),
        b"HTTP/1.1 200 " + b"\xff" * chance.randrange(1, 99) + b"\r\n\r\n" + truth.body,
    ]
    yield chance.choice(texts)


def slow(asked: Asked, truth: Reply, chance: random.Random) -> Pieces:
    """A byte now and then, or more than anybody wants; until the agent has had enough."""
    head = b"HTTP/1.1 200 OK\r\n"
    begin, drop, pause = chance.choice(
        [
            (head + b"X: ", b"x", 0.05),
            (head + b"Content-Length: 9999\r\n\r\n{", b" ", 0.05),
            (head + b"Transfer-Encoding: chunked\r\n\r\n5;", b"x", 0.05),
            (head + b"\r\n", b" " * 65536, 0.0),
            (head + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.0),
            (head, b"X: y\r\n" * 100, 0.0),
        ]
    )
    yield begin
    while True:
        time.sleep(pause)
        yield drop


def asking(asked: Asked, truth: Reply, chance: random.Random) -> Reply:
    """Commands that no server gives: not as they must be, far too many, or what nobody may ask."""
    usual = {"action": "accept", "words": {}, "asked_by": "anna", "asked_at": 1.7e9}
    words = [{"rows": [[1.0] * 4]}, {"from": "x" * 10**5}, {"dry_run": True}, {"to": 10**400}]
    words += [{"instead": 1}, {"": {}}, [], None, {"from": [[[]]]}, {"to": "\x1b[2J"}]
    actions = ["reject", "tune", "status", "__class__", "x" * 10**5, "accept\n", "", None, {}]
    many = chance.choice([1, 1, 2, 50, 2000, 100_000])
    asks = [{"id": f"{chance.random()}"[2:], **usual} for _ in range(min(many, 50))]
    for one in asks:
        name = chance.choice([*one, "more"])
        lies = {"words": words, "action": actions}.get(name, MONSTERS)
        one[name] = chance.choice(lies)
    found = chance.choice([{"commands": asks * (many // len(asks))}, {"commands": {"0": asks}}])
    return Reply.json(chance.choice([found, found, found, asks, {"command": asks}]))


LIES: tuple[Lie, ...] = (page, packed, wrong_field, nonsense, refusal, damaged, forged, broken)
#: Of the last kind one in so many: each takes as long as the agent waits.
RARELY = 50


class Liar:
    """An exchange that lies as often as not; it knows the truth, to get to the next question.

    A device asks for its key and for the charter until it gets them: these lies come first, for
    each device a few, and then the truth.
    """

    def __init__(self, truths: list[Callable[[Asked], Reply]], first: int, seed: int = 0) -> None:
        self._truths, self._chance, self._lock = truths, random.Random(seed), threading.Lock()
        self._first = dict.fromkeys(("POST /devices", "GET /"), first)
        self.told: dict[str, set[str]] = {}
        self.honest = False

    @property
    def different(self) -> int:
        """How many different lies were told."""
        return sum(map(len, self.told.values()))

    def __call__(self, asked: Asked) -> Reply | Pieces:
        with self._lock:
            chance = random.Random(self._chance.random())
            truth = chance.choice(self._truths)(asked)
            if self.honest or not self._lies(asked.route, chance):
                return truth
            kinds = (*LIES, asking, asking) if asked.route == "PUT /reports" else LIES
            kind = slow if chance.randrange(RARELY) == 0 else chance.choice(kinds)
            said = kind(asked, truth, chance)
            # A slow one is told by what it begins with.
            raw = said.raw() if isinstance(said, Reply) else (first := next(said))
            digest = hashlib.sha256(f"{asked.route} {kind.__name__}".encode() + raw).hexdigest()
            self.told.setdefault(asked.route, set()).add(digest)
        return said if isinstance(said, Reply) else _again(first, said)

    def _lies(self, route: str, chance: random.Random) -> bool:
        if route not in self._first:
            return chance.random() < 0.6
        self._first[route] -= 1
        return self._first[route] >= 0


def _again(first: bytes, rest: Pieces) -> Pieces:
    yield first
    yield from rest


# Every exchange there is, as the same fixture: ways of devices to one place.


#: Opens the way of one device to the exchange; all ways of a test lead to the same place.
Way = Callable[[str], Exchange]
#: Who may read what each device contributed.
READER = "reader"
KINDS = ["memory", "folder", "http on sqlite", "http on postgres", "mqtt"]


def entries(way: Way) -> list[Entry]:
    """All that is held, in the order of the names."""
    return way(READER).entries()  # type: ignore[attr-defined, no-any-return]


@contextmanager
def ways_to(request: pytest.FixtureRequest, folder: Path, charter: Charter) -> Iterator[Way]:
    """Founds a federation at the exchange that ``request.param`` names."""
    ways = ExitStack()
    if request.param == "memory":
        shared = MemoryExchange(charter)

        def way(device: str) -> Exchange:
            return shared
    elif request.param.startswith("http"):
        database = empty_database(request, folder, request.param.rpartition(" ")[2])
        server = ways.enter_context(serving(database))
        token = server.found(charter).token
        known: dict[str, Exchange] = {}

        def way(device: str) -> Exchange:
            if device not in known:
                base = f"{server.base}/{charter.name}"
                key = ADMIN if device == READER else None
                known[device] = HttpExchange(base, device, token=token, key=key)
                ways.callback(known[device].close)
            return known[device]
    elif request.param == "mqtt":
        request.getfixturevalue("mosquitto")
        place = ways.enter_context(running_broker(folder))
        url, links = place.url("elmgrove/fans"), dict[str, Exchange]()
        MqttExchange.create(url, charter)

        def way(device: str) -> Exchange:
            if device not in links:
                links[device] = MqttExchange(url, device)
                ways.callback(links[device].close)
            return links[device]
    else:
        FolderExchange.create(folder, charter)

        def way(device: str) -> Exchange:
            return FolderExchange(folder)

    with ways:
        yield way
