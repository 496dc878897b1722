"""Limits of requests: by key, by address and over all; what is too much is told when to come."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from elmgrove.server.limits import TokenBuckets, in_chunks, network_of
from elmgrove.server.problems import ThrottledLog
from support.serving import ADMIN, AMPLE, charter, refused, serving, wait_until
from support.slow_clients import Wires, large_federation


def until_too_many(ask: Callable[[], httpx.Response]) -> None:
    """Asks until it is too much, and checks how that is said."""
    answers: list[httpx.Response] = []

    def is_too_many() -> bool:
        answers.append(ask())
        return answers[-1].status_code == 429

    wait_until(is_too_many)
    refused(answers[-1], "too-many")
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert len(answers) > 1, "some are let through first"


def test_a_key_may_not_ask_as_often_as_it_likes(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/store.db", limits=replace(AMPLE, rate_by_key=1.0)) as server:
        fans = server.found(charter())
        fans.enrol("fan-1", "fan-2")
        spaces = count(1)

        def ask() -> httpx.Response:
            # A key is one however it is written.
            written = f"bEaReR{' ' * next(spaces)}{fans.keys['fan-1']}"
            return fans.ask("GET", "/entries", headers={"Authorization": written})

        until_too_many(ask)
        assert fans.ask("GET", "/entries", fans.keys["fan-2"]).status_code == 200


@pytest.mark.parametrize("secret", [None, "guessed"])
def test_an_address_may_not_guess_as_often_as_it_likes(tmp_path: Path, secret: str | None) -> None:
    with serving(f"{tmp_path}/store.db", limits=replace(AMPLE, rate_by_address=1.0)) as server:
        fans = server.found(charter())
        fans.enrol("fan-1")
        assert fans.ask("GET", "/entries", fans.keys["fan-1"]).status_code == 200
        until_too_many(lambda: fans.ask("GET", "/entries", secret))
        assert fans.ask("GET", "/entries", fans.keys["fan-1"]).status_code == 200
        assert server.ask("GET", "/health").status_code == 200
        assert server.ask("GET", "/ready").status_code == 200


def test_who_guesses_keeps_nobody_of_the_same_address_out(tmp_path: Path) -> None:
    """Not even those whom this server has not seen yet: it was started again, or they are new."""
    bounds = replace(AMPLE, rate_by_address=0.1)
    with serving(f"{tmp_path}/store.db", limits=bounds) as server:
        fans = server.found(charter())
        anna = server.administrator("anna", "look")
        # Who is let in uses up nothing of the address.
        for number in range(2, 7):
            fans.enrol(f"fan-{number}")
            assert fans.ask("GET", "/entries", fans.keys[f"fan-{number}"]).status_code == 200
        until_too_many(lambda: fans.ask("GET", "/entries", "guessed"))
        fans.enrol("fan-1")
        assert fans.ask("GET", "/entries", fans.keys["fan-1"]).status_code == 200
    with serving(f"{tmp_path}/store.db", limits=bounds) as again:
        fans = fans.at(again)
        until_too_many(lambda: fans.ask("GET", "/entries", "guessed"))
        for secret in (fans.keys["fan-1"], anna, fans.token, ADMIN):
            assert fans.ask("GET", "", secret).status_code == 200


def test_only_so_many_requests_are_at_work_at_once(tmp_path: Path) -> None:
    bounds = replace(AMPLE, requests=3, requests_by_key=2)
    with serving(f"{tmp_path}/store.db", limits=bounds) as server, Wires(server) as slow:
        large = large_federation(server, 5)
        first, second, third = large.readers[:3]
        for key in (first, second, third):
            assert large.ask("GET", "/entries", key).status_code == 200
        where = f"{large.path}/contributions"
        for _ in range(2):
            assert slow.ask(where, first, buffer=4096).recv(1)
        problem = refused(large.ask("GET", "/entries", first), "too-many")
        assert "2 requests with this key" in problem["detail"]
        assert large.ask("GET", "/entries", second).status_code == 200
        refused(large.ask("GET", "/entries", "guessed"), "too-many")
        assert slow.ask(where, second, buffer=4096).recv(1)
        problem = refused(large.ask("GET", "/entries", third), "too-many")
        assert "the server" in problem["detail"]
        assert server.ask("GET", "/health").status_code == 200


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 30])
@pytest.mark.parametrize("more", [True, False])
def test_an_answer_in_chunks_is_the_same_answer(size: int, more: bool) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    body = bytes(range(size))
    message = {"type": "http.response.body", "body": body, "more_body": more}
    asyncio.run(in_chunks(send, 10)(message))
    assert b"".join(chunk["body"] for chunk in sent) == body
    assert max(len(chunk["body"]) for chunk in sent) <= 10
    assert [chunk["more_body"] for chunk in sent] == [True] * (len(sent) - 1) + [more]


def test_neighbours_are_one_address() -> None:
    assert network_of("10.0.0.1") != network_of("10.0.0.2")
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1")
    assert network_of("2001:db8::1") != network_of("2001:db8:0:1::1")
    assert network_of("fe80::1%eth0") == network_of("fe80::2")
    assert network_of("") == ""
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"


def test_a_bucket_fills_steadily_and_only_the_last_ones_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    buckets = TokenBuckets(2.0, 10.0, most=2)
    for _ in range(10):
        assert buckets.wait("a") == 0.0
        buckets.take("a")
    assert (buckets.wait("a"), buckets.wait("b")) == (0.5, 0.0)
    buckets.take("a", 3.0)
    assert buckets.wait("a") == 2.0
    buckets.take("a", -1.0)
    now[0] += 1.5
    assert buckets.wait("a") == 0.0
    now[0] += 60.0
    assert buckets.wait("a", 10.0) == 0.0
    assert buckets.wait("a", 11.0) == 0.5, "no more than the burst"
    for name in ("b", "a", "c"):
        buckets.take(name)
    assert [name in buckets for name in "abc"] == [True, False, True]


def test_what_happens_often_is_one_line_with_a_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    throttled_log = ThrottledLog()
    with caplog.at_level(logging.WARNING, "elmgrove.server"):
        for _ in range(1000):
            throttled_log.warn("Refused logins")
        throttled_log.warn("Something else", "why")
        now[0] += 60.0
        throttled_log.warn("Refused logins")
    first, other, last = [record.getMessage() for record in caplog.records]
    assert first == "Refused logins: 1 since the last such line"
    assert other == "Something else (why): 1 since the last such line"
    assert last == "Refused logins: 1000 since the last such line"
