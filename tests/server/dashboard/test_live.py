"""Live pages: what a stream tells, when it ends, and how many there may be."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from elmgrove.server.dashboard.pages import Streams
from support.dashboard import Guest, guest, tell
from support.reports import report
from support.serving import (
    ADMIN,
    AMPLE,
    Federation,
    Server,
    charter,
    server_fixture,
    server_process,
    wait_until,
)

#: On each data base.
server = server_fixture


@contextmanager
def stream(somebody: Guest, name: str, seen: str = "", **headers: str) -> Iterator[Iterator[str]]:
    """What a stream tells, one by one; "end" when it has ended in good order."""

    def told() -> Iterator[str]:
        lines, end = list[str](), time.monotonic() + 180.0
        for line in answer.iter_lines():
            assert time.monotonic() < end, "waited in vain"
            if line:
                lines.append(line)
            else:
                yield "\n".join(lines)
                lines.clear()
        yield "end"

    with somebody.http.stream(
        "GET", f"/ui/{name}/live", params={"seen": seen} if seen else {}, headers=headers
    ) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no", "nginx would hold it back"
        yield told()


def marker(told: str) -> str:
    """What the page has then seen, of a line that tells of a change."""
    event, found, data = told.split("\n")
    assert (event, data) == ("event: changed", "data:")
    return found.removeprefix("id: ")


def test_a_page_is_told_that_something_changed(ada: Guest, fans: Federation) -> None:
    name = fans.charter.name
    with stream(ada, name) as told:
        assert next(told) == ": live"
        first = marker(next(told))
        tell(fans, report("fan-1"))
        second = marker(next(told))
        assert second != first
        fans.ask("DELETE", "/devices/fan-2", ADMIN)
        third = marker(next(told))
    # What came between the page and its stream, or in a break, is not lost.
    for ways in ({"seen": first}, {"seen": first, "Last-Event-ID": second}):
        with stream(ada, name, **ways) as told:
            assert next(told) == ": live"
            assert marker(next(told)) == third


def test_what_a_page_has_seen_is_not_told_again(
    ada: Guest, fans: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stream(ada, fans.charter.name) as told:
        next(told)
        seen = marker(next(told))
    monkeypatch.setattr(Streams, "HEARTBEAT", 0.05)
    with stream(ada, fans.charter.name, seen) as told:
        assert [next(told) for _ in range(3)] == [": live", ": still live", ": still live"]


def test_a_page_says_what_it_has_seen(ada: Guest, fans: Federation) -> None:
    page = ada.get(f"/ui/{fans.charter.name}/").text
    with stream(ada, fans.charter.name) as told:
        next(told)
        seen = marker(next(told))
    assert f'hx-sse:connect="/ui/{fans.charter.name}/live?seen={seen}"' in page
    held = ada.http.get(
        f"/ui/{fans.charter.name}/",
        params={"from": "2026-11-17T06:00:00Z", "to": "2026-11-17T07:00:00Z"},
    )
    assert "hx-sse:connect" not in held.text, "what is over does not change"


def test_a_stream_ends_with_its_session(
    server: Server, fans: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Streams, "HEARTBEAT", 0.05)
    with guest(server, ADMIN) as ada, guest(server) as window:
        window.http.cookies = ada.http.cookies
        with stream(window, fans.charter.name) as told:
            assert next(told) == ": live"
            ada.logout()
            rest = list(told)
            assert rest[-2:] == ["event: ended\ndata:", "end"]


def test_a_stream_ends_with_its_federation(ada: Guest, fans: Federation) -> None:
    with stream(ada, fans.charter.name) as told:
        next(told)
        marker(next(told))
        fans.ask("DELETE", "", ADMIN)
        assert list(told)[-2:] == ["event: ended\ndata:", "end"]


def test_one_who_has_not_logged_in_gets_none(server: Server, fans: Federation) -> None:
    with guest(server) as nobody:
        answer = nobody.get(f"/ui/{fans.charter.name}/live", **{"HX-Request": "true"})
        assert answer.status_code == 401


def test_a_session_has_so_many_at_once_and_those_that_ended_do_not_count(
    server: Server, ada: Guest, fans: Federation
) -> None:
    name = fans.charter.name
    with ExitStack() as opened:
        # Kept: one that nobody reads any more is closed.
        told = [opened.enter_context(stream(ada, name)) for _ in range(4)]
        assert [next(one) for one in told] == [": live"] * 4
        answer = ada.get(f"/ui/{name}/live")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        with guest(server, ADMIN) as another, stream(another, name) as of_another:
            assert next(of_another) == ": live"

    def is_let_in() -> bool:
        with ada.http.stream("GET", f"/ui/{name}/live") as answer:
            return answer.status_code == 200

    wait_until(is_let_in)


def test_those_that_come_at_once_are_no_more(ada: Guest, fans: Federation) -> None:
    with ExitStack() as opened, ThreadPoolExecutor(20) as crowd:

        def come(_: int) -> int:
            live = ada.http.stream("GET", f"/ui/{fans.charter.name}/live")
            return opened.enter_context(live).status_code

        codes = list(crowd.map(come, range(20)))
    assert (codes.count(200), codes.count(429)) == (4, 16)


def test_a_user_has_so_many_however_often_they_logged_in(server: Server, fans: Federation) -> None:
    url, token = f"/ui/{fans.charter.name}/live", server.administrator("bert", "look")
    with ExitStack() as opened:
        guests = [opened.enter_context(guest(server, token)) for _ in range(9)]
        streams = [one.http.stream("GET", url) for one in guests for _ in range(4)]
        codes = [opened.enter_context(one).status_code for one in streams]
        assert codes == [200] * 32 + [429] * 4
        assert opened.enter_context(guest(server, ADMIN)).get("/ui/").status_code == 200


def test_a_server_that_ends_does_not_wait_for_streams(tmp_path: Path) -> None:
    with server_process(f"sqlite:///{tmp_path}/store.db", limits=AMPLE) as (server, started):
        name = server.found(charter()).charter.name
        with guest(server, ADMIN) as ada, stream(ada, name) as told:
            next(told)
            marker(next(told))
            started.send_signal(signal.SIGTERM)
            # What has begun is waited for, and cut off in the end: then there is an error here.
            assert list(told)[-1] == "end"
