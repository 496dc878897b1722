"""The listener: gives away what was published and received, to agents that may have it."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from elmgrove.device.listening import Listener
from elmgrove.errors import BadInput
from elmgrove.exchange import Unauthorized, Unreachable
from elmgrove.exchange.peers import PATH, pull
from elmgrove.federation import Departure, Member, entry_from_bytes, unbundle
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
            answer = httpx.get(made.url + PATH, headers=headers)
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
    assert httpx.get(listener.url + "/").status_code == 404
    assert httpx.get(f"{listener.url}{PATH}/../x").status_code == 404
    assert httpx.post(listener.url + PATH).status_code == 405
    assert httpx.get(listener.url + "/v1/status").status_code == 404
    answer = httpx.get(listener.url + PATH)
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
