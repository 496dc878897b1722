"""Whatever is sent, the server stays up, says no, and keeps what it has."""

import http.client
import json
import logging
import os
import random
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from elmgrove.federation.contribution import EVIDENCE_FORMAT
from elmgrove.server.routes import ROUTES
from elmgrove.storage.sealed import seal, unseal
from support.serving import ADMIN, Federation, Server, charter, contents, seeded_contribution

THREADS = 4
#: How many requests are sent; .ci/run asks for more.
FUZZ = int(os.environ.get("ELMGROVE_TEST_FUZZ", "1200"))
# What is nonsense to PostgreSQL alone is in a few names; the rest is the same work again.
REQUESTS = {"sqlite": FUZZ, "postgresql": min(FUZZ, 2_000)}
# Nothing can follow this, so not even a forgery that happens to be right may change anything.
HELD = 2**62 - 1
ME = "fan-1"
SAID = seeded_contribution(ME, 1, epoch=HELD).to_bytes()

MONSTERS: list[Any] = [
    None, True, 0, -1, 1.5, -0.0, 1e308, -1e308, 5e-324, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63),
    10**400, 10**4000, float("nan"), float("inf"), -float("inf"), "", " ", "\0", "\ud800", "\u202e",
    "ü" * 300, "x" * 100_000, "../../etc/passwd", "%00", "' OR 1=1 --", "{}", [], {}, [[]], [None],
    {"": None}, ["x"] * 1000, [1e308] * 6, {"inputs": 10**9}, "NaN", b"".hex(), "*", ["*"], "0",
]  # fmt: skip


@dataclass
class World:
    """What the fuzzer may know: a device's key and more, but no way to do anything with it."""

    mine: Federation
    other: Federation
    revoked: str

    @property
    def wrong_secrets(self) -> list[str | None]:
        others = [self.other.token, self.other.keys[ME], self.revoked]
        return [None, "", "x", "\u00ff" * 9, "x" * 30_000, ADMIN[:-1], ADMIN.upper(), *others]


@pytest.fixture(name="world")
def world_fixture(server: Server) -> World:
    mine, other = server.found(charter()), server.found(charter())
    mine.enrol(ME, "fan-2", "gone")
    other.enrol(ME)
    assert mine.ask("DELETE", "/devices/gone", ADMIN).status_code == 204
    assert mine.put(seeded_contribution(ME, 1, epoch=HELD)).status_code == 200
    assert mine.put(seeded_contribution("fan-2", 2)).status_code == 200
    return World(mine, other, mine.keys["gone"])


@dataclass
class Sent:
    """Bytes for a connection: not ``whole`` if they break off, ``harmless`` if they may succeed."""

    raw: bytes
    whole: bool = True
    harmless: bool = False


def request(
    method: str, path: str, secret: str | None, body: bytes = b"", *headers: bytes
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), b"Host: x", *headers]
    if secret is not None:
        lines.append(f"Authorization: Bearer {secret}".encode("latin-1"))
    lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def put(world: World, blob: bytes) -> Sent:
    where, key = f"{world.mine.path}/contributions/{ME}", world.mine.keys[ME]
    # What is held already may be put again: some changes change nothing.
    return Sent(request("PUT", where, key, blob), harmless=blob == SAID)


def damaged_blob(world: World, chance: random.Random) -> Sent:
    blob = bytearray(SAID)
    for _ in range(chance.choice([1, 1, 1, 2, 10])):
        blob[chance.randrange(len(blob))] ^= 1 << chance.randrange(8)
    cut = chance.choice([len(blob), len(blob), chance.randrange(len(blob))])
    return put(world, bytes(blob[:cut]) + chance.randbytes(chance.choice([0, 0, 1, 50])))


def forged_blob(world: World, chance: random.Random) -> Sent:
    """Nonsense with a right checksum."""
    fields, arrays = unseal(EVIDENCE_FORMAT, SAID)
    arrays = {name: array.copy() for name, array in arrays.items()}
    chance.choice([_forge_field, _forge_number, _forge_array])(fields, arrays, chance)
    try:
        return put(world, seal(EVIDENCE_FORMAT, fields, arrays))
    except ValueError:  # NaN, which JSON does not know
        return put(world, json.dumps(fields).encode())


def _forge_field(fields: dict[str, Any], arrays: dict[str, Any], chance: random.Random) -> None:
    places = [fields, fields["basis"], fields["basis"]["layer"], fields["basis"]["scaling"]]
    place = chance.choice(places)
    name = chance.choice([*place, "more"])
    if chance.random() < 0.1:
        place.pop(name, None)
    else:
        place[name] = chance.choice(MONSTERS)


def _forge_number(fields: dict[str, Any], arrays: dict[str, Any], chance: random.Random) -> None:
    array = chance.choice(list(arrays.values())).reshape(-1)
    values = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e155, -1.0, 1e16, 5e-324]
    for _ in range(chance.choice([1, 2, len(array)])):
        array[chance.randrange(len(array))] = chance.choice(values)
    fields[chance.choice(["count", "energy"])] = chance.choice([0.0, 1.0, 20.0, 1e199, 1e308])


def _forge_array(fields: dict[str, Any], arrays: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(["U", "V", "W", ""])
    shape = tuple(chance.choice([0, 1, 3, 6, 7]) for _ in range(chance.choice([0, 1, 2, 3])))
    kind = chance.choice(["f8", "f4", "f2", "i8", "u1", "?", "c8"])
    if chance.random() < 0.2:
        arrays.pop(name, None)
    else:
        arrays[name] = np.zeros(shape, kind)


def json_monster(world: World, chance: random.Random) -> Sent:
    if chance.random() < 0.5:
        # The name is taken, so not even a definition that happens to be right changes anything.
        fields = json.loads(json.dumps(world.mine.charter.fields))
        places = [fields, fields["basis"], fields["basis"]["layer"], fields["basis"]["scaling"]]
        place = chance.choice(places)
        place[chance.choice([key for key in place if key != "name"])] = chance.choice(MONSTERS)
        if chance.random() < 0.5:
            fields.pop("fingerprint", None)
        path, secret = "/v1/federations", ADMIN
    else:
        # As here: only names that are taken or that can't be names.
        names = [one for one in MONSTERS if not (isinstance(one, str) and one.isprintable())]
        names += ["", "x" * 100_000]
        fields = {chance.choice(["name", "Name"]): chance.choice([*names, ME, "."])}
        path, secret = f"{world.mine.path}/devices", world.mine.token
    body = json.dumps(fields).encode()
    damage = chance.choice([lambda: body, lambda: body, lambda: _damaged_text(body, chance)])
    return Sent(request("POST", path, secret, damage()))


def _damaged_text(body: bytes, chance: random.Random) -> bytes:
    depth = chance.choice([10, 1000, 100_000])
    cut = chance.randrange(len(body))
    deep = [b"[" * depth, b'{"name":' * depth]
    return chance.choice([*deep, body[:cut], b"\xff\xfe" + body, b"1" * 5000, b"1e999999"])


def no_access(world: World, chance: random.Random) -> Sent:
    """Any route, with any method, by somebody who may not use it."""
    route = chance.choice([route for route in ROUTES if route.secrets])
    method = chance.choice([route.method, "GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    path = route.path.replace("{federation}", chance.choice([world.mine.charter.name, "nowhere"]))
    path = path.replace("{device:path}", chance.choice([ME, "x", "%2e%2e", "a%2Fb"]))
    secret = chance.choice(world.wrong_secrets)
    return Sent(request(method, path, secret, chance.choice([b"", b"{}", SAID])))


def odd_question(world: World, chance: random.Random) -> Sent:
    """Reading with a right key, and everything else wrong."""
    monster = str(chance.choice(MONSTERS)).encode("utf-8", "replace")[:5000]
    raw = chance.choice([quote(monster), "%", "%zz", "%00", "%ff%fe", "%ed%a0%80", "+", "a&b=c;d"])
    paths = [
        f"/merged?without={raw}",
        f"/merged?merge={raw}",
        f"/others?merge={raw}",
        f"/merged?merge=group&without={raw}",
        f"/merged?patterns={raw}&merge=quality",
        "/others?merge=quality&merge=group",
        "/others?merge=" + ",".join([raw[:20]] * 50),
        f"/contributions/{raw}",
        f"/{raw}",
        f"/entries?{raw}",
        f"{raw}/merged",
    ]
    headers = [b"If-None-Match: " + chance.choice([b"*", b'"', b'W/"0"', b"\xff", b"x" * 5000])]
    path = world.mine.path + chance.choice(paths)
    method = chance.choice(["GET", "HEAD", "POST", "PATCH"])
    return Sent(request(method, path, world.mine.keys[ME], b"", *headers), harmless=True)


def odd_departure(world: World, chance: random.Random) -> Sent:
    epochs = ["", "-1", "x", "1e9", "0", "²", str(HELD), str(2**62), "9" * 19, "9" * 500, "%00"]
    path = f"{world.mine.path}/contributions/{ME}?epoch={quote(chance.choice(epochs), safe='%')}"
    return Sent(request("DELETE", path, world.mine.keys[ME]))


def broken_http(world: World, chance: random.Random) -> Sent:
    good = put(world, SAID).raw
    head, _, body = good.partition(b"\r\n\r\n")
    target = head.split(b" ", 2)[1]
    bare = b"\r\n".join(line for line in head.split(b"\r\n") if b"Content-Length" not in line)
    chunked = bare + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    choices: list[Sent] = [
        Sent(head + b"\r\nContent-Length: 5\r\n\r\n" + body),
        Sent(bare + b"\r\nContent-Length: -1\r\n\r\n" + body),
        Sent(bare + b"\r\nContent-Length: 1e3\r\n\r\n" + body),
        Sent(bare + b"\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n" + body, whole=False),
        Sent(bare + b"\r\nContent-Length: %d\r\n\r\n" % (len(body) + 9) + body, whole=False),
        Sent(bare + b"\r\nContent-Length: %d\r\n\r\n" % (len(body) - 9) + body),
        Sent(chunked + b"zz\r\n"),
        Sent(chunked + b"-5\r\nhello\r\n0\r\n\r\n"),
        Sent(chunked + b"ffffffffffffffffffff\r\nx", whole=False),
        Sent(chunked + b"5\r\nhelloXX0\r\n\r\n"),
        Sent(chunked + b"%x\r\n" % len(body) + body[:100], whole=False),
        Sent(chunked + b"5;x=" + b"y" * 100_000 + b"\r\nhello\r\n0\r\n\r\n"),
        Sent(bare + b"\r\nTransfer-Encoding: gzip\r\n\r\n" + body),
        Sent(bare + b"\r\nExpect: 200-maybe\r\nContent-Length: 3\r\n\r\nabc"),
        Sent(bare + b"\r\nX: " + b"y" * 200_000 + b"\r\n\r\n"),
        Sent(bare + b"\r\nX: y" * 20_000 + b"\r\n\r\n"),
        Sent(bare + b"\r\n: nothing\r\n\r\n"),
        Sent(bare + b"\r\nX : y\r\nX\x00: \x01\r\n\r\n"),
        Sent(bare + b"\r\n folded\r\n\r\n"),
        Sent(b"GET " + target + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
        Sent(b"GET / HTTP/9.9\r\nHost: x\r\n\r\n"),
        Sent(b"GET / HTTP/1.1\r\n\r\n"),
        Sent(b"GET /health HTTP/1.1\r\nHost: [::\r\n\r\n", harmless=True),
        Sent(b"GET /v2 HTTP/1.1\r\nHost: x@[::1]:99999\r\n\r\n"),
        Sent(b"GET //x/y HTTP/1.1\r\nHost: x\r\n\r\n"),
        Sent(b"GET http://x/../v1 HTTP/1.1\r\nHost: x\r\n\r\n"),
        Sent(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"),
        Sent(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
        Sent(b"G\xc3\x9cT / HTTP/1.1\r\nHost: x\r\n\r\n"),
        Sent(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        Sent(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(60), whole=False),
        Sent(chance.randbytes(chance.randrange(1, 3000)), whole=False),
        Sent(good[: chance.randrange(len(good) - 1)], whole=False),
        Sent(b"\r\n" * 50, whole=False),
    ]
    return chance.choice(choices)


KINDS: tuple[Callable[[World, random.Random], Sent], ...] = (
    damaged_blob,
    forged_blob,
    json_monster,
    no_access,
    odd_question,
    odd_departure,
    broken_http,
)


class Wire:
    """A connection that is kept while the server keeps it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def ask(self, sent: Sent, method: str) -> int | None:
        """The status of the answer; None if the server hung up without one."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        try:
            # It may have refused before all was sent: there is an answer to be read.
            with suppress(OSError):
                self._socket.sendall(sent.raw)
                if not sent.whole:
                    self._socket.shutdown(socket.SHUT_WR)
            answer = http.client.HTTPResponse(self._socket, method=method)
            with closing(answer):
                answer.begin()
                answer.read()
            if answer.will_close or not sent.whole:
                self.close()
            return answer.status
        except (OSError, http.client.HTTPException):
            self.close()
            return None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def bombard(world: World, seed: int, requests: int) -> dict[str, int]:
    """How many requests of each kind were answered."""
    chance, wire = random.Random(seed), Wire(int(world.mine.server.base.rpartition(":")[2]))
    counts = dict.fromkeys((kind.__name__ for kind in KINDS), 0)
    with closing(wire):
        for _ in range(requests):
            kind = chance.choice(KINDS)
            sent = kind(world, chance)
            status = wire.ask(sent, "HEAD" if sent.raw.startswith(b"HEAD") else "GET")
            least = 200 if sent.harmless else 300
            assert status is None or least <= status < 500, (status, sent.raw[:300])
            if kind is broken_http:
                wire.close()
            else:
                assert status is not None, sent.raw[:300]
            counts[kind.__name__] += 1
    return counts


def test_nothing_that_is_sent_breaks_anything(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = world.mine.server
    before, merged = contents(server.store), world.mine.merged("fan-2")
    requests = REQUESTS[server.store.partition(":")[0]]
    with ThreadPoolExecutor(THREADS) as pool:
        each = -(-requests // THREADS)
        counts = list(pool.map(lambda seed: bombard(world, seed, each), range(THREADS)))
    assert sum(sum(count.values()) for count in counts) >= requests
    assert min(sum(count[kind.__name__] for count in counts) for kind in KINDS) > requests / 10
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []
    assert contents(server.store) == before
    assert world.mine.merged("fan-2") == merged
    # And it still works.
    assert server.ask("GET", "/ready").status_code == 200
    assert world.mine.put(seeded_contribution("fan-2", 2, 30)).status_code == 200
