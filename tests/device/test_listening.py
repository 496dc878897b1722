"""The listener: gives away what was published and received, to agents that may have it."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from elmgrove.device.doors import Said
from elmgrove.device.listening import Listener
from elmgrove.errors import BadInput
from elmgrove.exchange import Unauthorized, Unreachable
from elmgrove.exchange.peers import PATH, pull
from elmgrove.federation import Departure, Member, entry_from_bytes, unbundle
from support import plain
from support.serving import charter, rows, said


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener("127.0.0.1:0", "")
    yield made
    made.close()


@pytest.fixture
def member() -> Member:
    """One that learned 20 rows, heard of two others, and has not offered anything."""
    made: Member = charter("fans").start("fan")
    made.detector.learn_many(rows(1, 20))
    made.receive(said("pump", 2))
    made.receive(Departure("gone", 3))
    return made


def test_before_it_was_told_anything_there_is_nothing(listener: Listener) -> None:
    assert pull(listener.url) == []


def test_it_tells_what_was_heard_and_offered_and_nothing_newer(
    listener: Listener, member: Member
) -> None:
    heard = member.ledger.entries
    listener.tell(member)
    assert pull(listener.url) == heard, "what was learned but not offered stays here"
    offered = member.offer()
    listener.tell(member)
    assert pull(listener.url) == [offered, *heard]
    member.detector.learn_many(rows(3, 2))
    member.offer()
    listener.tell(member)
    assert pull(listener.url) == [offered, *heard], "two rows are too few for the guard"
    member.detector.learn_many(rows(4, 2))
    newer = member.offer()
    assert pull(listener.url) == [offered, *heard], "it was not told yet"
    listener.tell(member)
    assert pull(listener.url) == [newer, *heard]
    assert newer != offered


def test_a_token_is_asked_for(member: Member) -> None:
    made = Listener("127.0.0.1:0", "sësame")
    try:
        made.tell(member)
        for headers in (
            {},
            {"Authorization": "Bearer guess"},
            {"Authorization": "sësame".encode()},
        ):
            answer = plain.get(made.url + PATH, headers=headers)
            assert answer.status_code == 401
            assert b"pump" not in answer.content
        with pytest.raises(Unauthorized):
            pull(made.url, token="guess")
        with pytest.raises(Unauthorized):
            pull(made.url)
    finally:
        made.close()


def test_with_the_token_it_tells(member: Member) -> None:
    made = Listener("127.0.0.1:0", "sesame")
    try:
        made.tell(member)
        assert pull(made.url, token="sesame") == member.ledger.entries
    finally:
        made.close()


def test_there_is_nothing_else(listener: Listener, member: Member) -> None:
    listener.tell(member)
    assert plain.get(listener.url + "/").status_code == 404
    assert plain.get(f"{listener.url}{PATH}/../x").status_code == 404
    assert plain.post(listener.url + PATH).status_code == 405
    assert plain.get(listener.url + "/v1/status").status_code == 404
    answer = plain.get(listener.url + PATH)
    assert [entry_from_bytes(blob) for blob in unbundle(answer.content)] == member.ledger.entries


def test_after_closing_nobody_answers(member: Member) -> None:
    made = Listener("127.0.0.1:0", "")
    made.close()
    with pytest.raises(Unreachable):
        pull(made.url, timeout=5)


def test_it_listens_on_version_six_as_well(member: Member) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")  # nothing to listen on
    made = Listener("[::1]:0", "")
    try:
        made.tell(member)
        assert pull(made.url) == member.ledger.entries
    finally:
        made.close()


def test_a_place_that_is_taken_is_named(listener: Listener) -> None:
    taken = listener.url.removeprefix("http://")
    with pytest.raises(BadInput, match=f"listen: {taken}: Address already in use"):
        Listener(taken, "")


# Control


@pytest.fixture
def controlled() -> Iterator[Listener]:
    """One that repeats what it is told, to those who may tell it."""
    made = Listener("127.0.0.1:0", "peers", lambda call: Said(b"{}"), "sesame")
    yield made
    made.close()


def call(listener: Listener, token: str | None = "sesame", **headers: str) -> httpx.Response:
    secret = {} if token is None else {"Authorization": f"Bearer {token}"}
    return plain.get(f"{listener.url}/v1/status", headers=secret | headers)


def test_control_is_for_those_with_its_token(controlled: Listener) -> None:
    assert call(controlled).status_code == 200
    for token in (None, "peers", "sesam", "sesames", "Sesame"):
        answer = call(controlled, token)
        assert answer.status_code == 401, token
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    with pytest.raises(Unauthorized):
        pull(controlled.url, token="sesame")


def test_pages_elsewhere_are_refused_even_with_the_token(controlled: Listener) -> None:
    """Of a browser: those that say so, and those whose name was led here."""
    for origin in ("http://evil.example", "null", controlled.url):
        answer = call(controlled, Origin=origin)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
    for host in ("evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "[", ""):
        assert call(controlled, Host=host).status_code == 403, host
    port = controlled.url.rpartition(":")[2]
    for host in ("localhost", f"LOCALHOST:{port}", "[::1]:80", "10.0.0.7", socket.gethostname()):
        assert call(controlled, Host=host).status_code == 200, host


def test_where_a_server_moves_evidence_nobody_pulls() -> None:
    made = Listener("127.0.0.1:0", "", lambda call: Said(b"{}"), "sesame", pulled=False)
    try:
        assert call(made).status_code == 200
        assert plain.get(made.url + PATH).status_code == 401
    finally:
        made.close()
