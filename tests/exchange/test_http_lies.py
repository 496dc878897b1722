"""What is answered to a device is believed as far as it is what was asked for, and in time."""

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elmgrove import Basis, HiddenLayer, Mismatch
from elmgrove.errors import BadInput, ElmgroveError, Outdated, Refused, Unauthorized, Unreachable
from elmgrove.exchange.http import HttpExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.aggregation import content_limit
from elmgrove.federation.charter import Charter
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import Departure, bundle
from elmgrove.federation.merged import Merged
from elmgrove.federation.policy import DAY, Terms
from support.exchanges import MONSTERS, Asked, HonestExchange, Pieces, Reply, saying
from support.factories import contribution_from
from support.reports import report

BASIS = Basis(HiddenLayer(3, 2, activation="tanh", seed=1), 3)
CHARTER = Charter("fans", BASIS, merged=True)
PAGE = Reply(200, b"<html>Welcome! Please log in.</html>", {"Content-Type": "text/html"})
DEEP = b"[" * 100_000


HONEST = HonestExchange(CHARTER, [contribution_from("fan-2")])
Answer = Callable[[Asked], Any]


@contextmanager
def opened(answer: Answer, timeout: float = 60.0, **more: Any) -> Iterator[HttpExchange]:
    more.setdefault("key", "any")
    with (
        saying(answer) as url,
        HttpExchange(f"{url}/fans", "fan-1", timeout=timeout, **more) as found,
    ):
        yield found


def but(route: str, reply: Any) -> Answer:
    """An honest exchange, but for one route."""
    return lambda asked: reply if asked.route == route else HONEST(asked)


PUT = {"origin": "fan-1", "epoch": 5, "revision": 1}
COMMAND = Command("command-1", "accept", {}, "anna", 1.7e9)
KNOWN = Merged("fans", 7, 1, (contribution_from("fan-2").evidence,))

#: What a device asks, by route.
QUESTIONS: dict[str, Callable[[HttpExchange], Any]] = {
    "GET /": lambda exchange: exchange.charter,
    "PUT /contributions": lambda exchange: exchange.publish(contribution_from("fan-1")),
    "DELETE /contributions": lambda exchange: exchange.publish(Departure("fan-1", 6)),
    "GET /contributions": lambda exchange: exchange.entries(),
    "GET /merged": lambda exchange: exchange.merged("fan-1"),
    "GET /others": lambda exchange: exchange.others("fan-1"),
    "PUT /reports": lambda exchange: exchange.report(report()),
}
#: What nobody who was asked anything says.
NEVER = [
    PAGE,
    Reply(204, b""),
    Reply(304),
    Reply(302, b"", {"Location": "/login"}),
    Reply(302, b"", {"Location": "http://[::"}),
    Reply(200, b"{}", {"Content-Encoding": "gzip"}),
    Reply(200, gzip.compress(b"{}"), {"Content-Encoding": "gzip"}),
    Reply(200, b"{}", {"Content-Encoding": "br"}),
    Reply(200, DEEP),
    Reply(200, b'{"entries":' * 50_000),
    Reply(200, b"\xff\xfe"),
    Reply.json(None),
    Reply.json([]),
    Reply.json({}),
    Reply(200, b"1" * 9000),
    Reply(200, b"x" * 100, {"Content-Length": "1000", "Connection": "close"}),
    Reply(404, b"<html>"),
    Reply(409, DEEP),
    Reply.json({"held_epoch": 3}, 409),
    Reply(401, b"<html>", {"WWW-Authenticate": "Basic"}),
    Reply(503, b"<html>"),
    Reply(999),
]
#: What is wrong with an answer that looks right, by route.
WRONG = {
    "GET /": [
        Reply.json({**CHARTER.fields, "basis": None}),
        Reply.json({**CHARTER.fields, "fingerprint": "0"}),
        Reply.json({"name": "fans"}),
        Reply.json(Charter("fans", Basis(HiddenLayer(6, 10**9), 6)).fields),
    ],
    "PUT /contributions": [
        Reply.json({**PUT, "origin": "fan-2"}),
        Reply.json({**PUT, "epoch": 4}),
        Reply.json({**PUT, "epoch": "5"}),
        Reply.json({**PUT, "revision": None}),
        Reply.json(PUT, 201),
    ],
    "DELETE /contributions": [Reply.json({}), Reply.json(PUT)],
    "GET /contributions": [
        Reply(200, b"\xff" * 8),
        Reply(200, bundle([contribution_from("fan-2").to_bytes()])[:-1]),
    ],
    "GET /merged": [
        Reply(200, KNOWN.to_bytes()[:-1]),
        Reply(200, contribution_from("fan-2").to_bytes()),
        Reply(200, replace(KNOWN, rule="quality").to_bytes()),
    ],
    "GET /others": [
        Reply(200, KNOWN.to_bytes()[:-1]),
        Reply(200, contribution_from("fan-2").to_bytes()),
    ],
    "PUT /reports": [
        *(
            Reply.json({"commands": asks})
            for asks in (None, {}, "", ["x"], [[]], [COMMAND.fields, 7])
        ),
        Reply.json({"commands": [], "more": "x" * 300_000}),
    ],
}


@pytest.mark.parametrize("route", QUESTIONS)
def test_what_is_no_answer_is_unreachable_and_an_answer_after_it_is_taken(route: str) -> None:
    """Never another error, and never believed."""
    lies = [*NEVER, *WRONG[route]]
    if route == "DELETE /contributions":
        lies = [lie for lie in lies if lie.status != 204]
    left = iter([*lies, HONEST])

    def answer(asked: Asked) -> Reply:
        if asked.route != route:
            return HONEST(asked)
        lie = next(left)
        return lie if isinstance(lie, Reply) else lie(asked)

    with opened(answer) as exchange:
        for _ in lies:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
                QUESTIONS[route](exchange)
        QUESTIONS[route](exchange)


def problem(status: int, **more: Any) -> Reply:
    document = {"type": "urn:elmgrove:problem:x", "title": "No", "detail": "because", **more}
    return Reply.json(document, status)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem(401), Unauthorized),
        (problem(404), Refused),
        (problem(409, held_epoch=7, shrunk=False), Outdated),
        (problem(409, held_epoch="7", shrunk=False), Unreachable),
        (problem(409, held_epoch=None, shrunk=False), Unreachable),
        (problem(409, held_epoch=[7], shrunk=False), Unreachable),
        (problem(409, held_epoch=2**70, shrunk=False), Unreachable),
        (problem(409, held_epoch=7, shrunk="no"), Unreachable),
        (problem(422, title=None, detail=["x"]), Refused),
        (problem(500), Unreachable),
    ],
)
def test_a_refusal_is_the_error_that_it_stands_for(reply: Reply, error: type) -> None:
    with opened(but("PUT /contributions", reply)) as exchange:
        with pytest.raises(ElmgroveError) as raised:
            exchange.publish(contribution_from("fan-1"))
        assert type(raised.value) is error


def test_what_a_stranger_says_is_told_in_one_short_line() -> None:
    loud = problem(422, detail="\x1b[2J\n\ud800" + "x" * 10**4)
    with opened(but("PUT /contributions", loud)) as exchange, pytest.raises(Refused) as raised:
        exchange.publish(contribution_from("fan-1"))
    text = str(raised.value)
    assert text.startswith("No: ?[2J ?xxx")
    assert len(text) <= 300
    assert text.isprintable()


@pytest.mark.parametrize(
    "reply",
    [
        PAGE,
        Reply.json({"key": "k"}),
        Reply.json({"key": "k"}, 200),
        Reply.json({}, 201),
        *(Reply.json({"key": key}, 201) for key in (None, 7, ["k"], "", "ключ", "a\r\nb: c")),
    ],
)
def test_only_a_key_is_a_key(reply: Reply, tmp_path: Path) -> None:
    keyfile = tmp_path / "fan.key"
    lies, keys = [reply], list[str]()

    def answer(asked: Asked) -> Reply:
        if asked.method == "POST":
            keys.append(json.loads(asked.body)["key"])
            return lies.pop() if lies else HONEST(asked)
        return HONEST(asked)

    with opened(answer, key=None, token="join", keyfile=keyfile) as exchange:
        with pytest.raises(Unreachable):
            _ = exchange.charter
        assert exchange.charter == CHARTER
    assert keys[0] == keys[1] == keyfile.read_text(), "its own, whatever it was told"


def test_only_a_new_key_takes_the_place_of_one_that_is_old(tmp_path: Path) -> None:
    keyfile, expiring = tmp_path / "fan.key", replace(CHARTER, terms=Terms(key_days=3.0))
    honest = HonestExchange(expiring, [contribution_from("fan-2")])
    lies: list[Any] = [*NEVER, Reply.json({"name": "fan-2", "key": "new"})]
    lies += [Reply.json({"name": "fan-1", "key": key}) for key in (None, 7, "", "ключ", "a\nb")]
    left = iter([*lies, Reply.json({"name": "fan-1", "key": "new"})])

    def answer(asked: Asked) -> Any:
        return next(left) if asked.method == "POST" else honest(asked)

    with saying(answer) as url:
        for expected in [*["old"] * len(lies), "new"]:
            if not keyfile.exists():
                keyfile.write_text("old")
            long_ago = time.time() - 2.5 * DAY
            os.utime(keyfile, (long_ago, long_ago))
            with HttpExchange(f"{url}/fans", "fan-1", keyfile=keyfile) as exchange:
                assert exchange.merged("fan-1") is not None, "the old one will do for now"
            assert keyfile.read_text() == expected


def test_what_is_no_command_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A newer server may ask what this device can't do; the rest is to be done all the same."""
    fields = COMMAND.fields
    wrong = [{**fields, "id": one} for one in MONSTERS if one != "7"]
    wrong += [{**fields, "asked_by": one} for one in MONSTERS if one != "7"]
    wrong += [{**fields, "words": one} for one in MONSTERS if one != {}]
    wrong += [{**fields, "action": one} for one in [*MONSTERS, "tune", "status"]]
    wrong += [{**fields, "asked_at": one} for one in ("", None, [], 10**400, float("inf"))]
    wrong += [{}, {**fields, "more": 1}, {**fields, "words": {"dry_run": True}}]
    wrong += [{**fields, "words": {"rows": [[1.0]]}}, {**fields, "words": {"from": "x" * 10**5}}]
    with opened(but("PUT /reports", Reply.json({"commands": [*wrong, fields]}))) as exchange:
        assert exchange.report(report()) == (COMMAND,)
        assert exchange.report(report()) == (COMMAND,)
    assert len(caplog.records) == 1


def test_no_more_commands_are_taken_than_one_report_tells_of() -> None:
    asks = [{**COMMAND.fields, "id": f"{number}"} for number in range(2000)]
    with opened(but("PUT /reports", Reply.json({"commands": asks}))) as exchange:
        assert [one.id for one in exchange.report(report())] == [f"{n}" for n in range(20)]


def test_a_token_that_no_header_can_hold_is_refused() -> None:
    with opened(HONEST, key="ключ") as exchange, pytest.raises(BadInput, match="token or key"):
        exchange.entries()


def test_another_federations_charter_is_asked_for_again() -> None:
    other = replace(CHARTER, basis=Basis(HiddenLayer(3, 2, activation="tanh", seed=9), 3))
    charters = iter([other, CHARTER])

    def answer(asked: Asked) -> Reply:
        return Reply.json(next(charters).fields) if asked.route == "GET /" else HONEST(asked)

    with opened(answer) as exchange:
        session = Session(CHARTER.start("fan-1"), exchange)
        with pytest.raises(Mismatch):
            session.sync()
        assert session.sync().devices == 1


def test_nothing_is_followed_and_no_cookie_is_kept() -> None:
    asked = list[str]()

    def elsewhere(question: Asked) -> Reply:
        asked.append(question.path)
        return HONEST(question)

    with saying(elsewhere) as other:
        away = Reply(302, b"", {"Location": f"{other}/v1/federations/fans", "Set-Cookie": "a=b"})
        with opened(but("GET /", away)) as exchange, pytest.raises(Unreachable, match="302"):
            _ = exchange.charter
    assert asked == []


# How long, and how much


def dripping(begin: bytes, drop: bytes) -> Pieces:
    """A byte now and then, for a minute."""
    yield begin
    for _ in range(600):
        time.sleep(0.1)
        yield drop


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 ", b"O"),
        (HEAD + b"X: ", b"x"),
        (HEAD, b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 103 Wait\r\n\r\n"),
        (HEAD + b"Content-Length: 9999\r\n\r\n{", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;", b"x"),
    ],
)
def test_a_byte_now_and_then_is_no_answer(begin: bytes, drop: bytes) -> None:
    """Neither on a new connection, nor on one that is used again."""
    for route in ("GET /", "GET /merged"):
        drips = [True]

        def answer(asked: Asked, route: str = route, drips: list[bool] = drips) -> Any:
            return dripping(begin, drop) if asked.route == route and drips.pop() else HONEST(asked)

        with opened(answer, timeout=0.3) as exchange:
            began = time.monotonic()
            with pytest.raises(Unreachable):
                exchange.merged("fan-1")
            assert time.monotonic() - began < 20
            drips.append(False)
            assert exchange.merged("fan-1") is not None


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (HEAD + b"\r\n", b" " * 65536),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", b" " * 65536),
        (HEAD, b"X: y\r\n" * 1000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    ],
)
def test_an_endless_answer_is_given_up(begin: bytes, more: bytes) -> None:
    sent = [0]

    def endless() -> Pieces:
        yield begin
        while True:
            sent[0] += len(more)
            yield more

    with opened(but("GET /merged", endless()), 2.0) as exchange, pytest.raises(Unreachable):
        exchange.merged("fan-1")
    # What is under way is in the buffers of two sockets.
    assert sent[0] < 20_000_000


def test_an_answer_is_no_longer_than_the_charter_explains() -> None:
    for more, said_of_it in ((0, "not a file of Elmgrove's"), (1, "longer than")):
        long = Reply(200, b" " * (content_limit(CHARTER) + more))
        with (
            opened(but("GET /merged", long)) as exchange,
            pytest.raises(Unreachable, match=said_of_it),
        ):
            exchange.merged("fan-1")


def test_what_was_done_is_said_in_few_bytes() -> None:
    told, most = json.dumps(PUT).encode(), 1 << 16
    with opened(but("PUT /contributions", Reply(200, told.ljust(most)))) as exchange:
        exchange.publish(contribution_from("fan-1"))
    with (
        opened(but("PUT /contributions", Reply(200, told.ljust(most + 1)))) as exchange,
        pytest.raises(Unreachable, match="longer than"),
    ):
        exchange.publish(contribution_from("fan-1"))


def test_an_answer_that_says_it_is_packed_is_not_believed_even_if_it_is_not() -> None:
    true = HONEST(Asked("GET", "/v1/federations/fans", b""))
    lie = Reply(200, true.body, {"Content-Encoding": "gzip"})
    with opened(lambda asked: lie) as exchange, pytest.raises(Unreachable, match="packed"):
        _ = exchange.charter


def test_a_server_that_asks_for_patience_is_left_alone() -> None:
    for stated, seconds in (("20", 20.0), ("-1", 0.0), ("soon", 0.0), ("9" * 99, 300.0)):
        busy = Reply(429, b"", {"Retry-After": stated})
        with opened(but("GET /merged", busy)) as exchange:
            with pytest.raises(Unreachable, match="429") as raised:
                exchange.merged("fan-1")
            assert raised.value.retry_after == seconds


def test_a_proxy_of_the_environment_is_used_with_its_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = list[str]()

    def proxy(asked: Asked) -> Reply:
        heard.append(asked.path)
        inside = "/" + asked.path.split("/", 3)[3]
        return HONEST(replace(asked, path=inside))

    with saying(proxy) as url:
        monkeypatch.setenv("http_proxy", url.replace("http://", "http://me:secret@"))
        monkeypatch.setenv("no_proxy", "exchange.invalid")
        with HttpExchange("http://fans.invalid/fans", "fan-1", key="any") as exchange:
            assert exchange.charter == CHARTER
        with (
            HttpExchange("http://exchange.invalid/fans", "fan-1", key="any") as exchange,
            pytest.raises(Unreachable),
        ):
            _ = exchange.charter
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
        with (
            HttpExchange("http://fans.invalid/fans", "fan-1", key="any") as exchange,
            pytest.raises(BadInput, match="http_proxy"),
        ):
            _ = exchange.charter
    assert heard == ["http://fans.invalid/v1/federations/fans"]


@pytest.mark.parametrize("path", ["", "/", "/ui/fans", "/v1/federations/fans"])
def test_a_url_that_names_no_federation_is_told_before_anything_is_asked(path: str) -> None:
    with pytest.raises(BadInput, match=r"its URL is http://127\.0\.0\.1:8470/NAME"):
        HttpExchange(f"http://127.0.0.1:8470{path}", "fan-1", token="any")
