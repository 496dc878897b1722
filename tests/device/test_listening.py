"""The listener: callers that have its token are answered, and pages of a browser are not."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from elmgrove.device.control_server import Listener, Said
from elmgrove.errors import BadInput
from support import plain


def made_at(address: str, token: str = "sesame") -> Listener:
    """One that answers the same to all who may ask."""
    return Listener(address, token, lambda call: Said(b"{}"))


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = made_at("127.0.0.1:0")
    yield made
    made.close()


def call(listener: Listener, token: str | None = "sesame", **headers: str) -> httpx.Response:
    secret = {} if token is None else {"Authorization": f"Bearer {token}"}
    return plain.get(f"{listener.url}/v1/status", headers=secret | headers)


def test_after_closing_nobody_answers() -> None:
    made = made_at("127.0.0.1:0")
    made.close()
    with pytest.raises(httpx.ConnectError):
        call(made)


def test_it_listens_on_version_six_as_well() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")  # nothing to listen on
    made = made_at("[::1]:0")
    try:
        assert call(made).status_code == 200
    finally:
        made.close()


def test_a_place_that_is_taken_is_named(listener: Listener) -> None:
    taken = listener.url.removeprefix("http://")
    with pytest.raises(BadInput, match=f"listen: {taken}: Address already in use"):
        made_at(taken)


def test_it_answers_those_with_its_token(listener: Listener) -> None:
    assert call(listener).status_code == 200
    for token in (None, "sesam", "sesames", "Sesame"):
        answer = call(listener, token)
        assert answer.status_code == 401, token
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert plain.get(f"{listener.url}/ledger").status_code == 401


def test_a_token_may_have_any_letters() -> None:
    made = made_at("127.0.0.1:0", "sësame")
    try:
        answer = plain.get(made.url, headers={"Authorization": "sësame".encode()})
        assert answer.status_code == 401
    finally:
        made.close()


def test_pages_elsewhere_are_refused_even_with_the_token(listener: Listener) -> None:
    """Of a browser: those that say so, and those whose name was led here."""
    for origin in ("http://evil.example", "null", listener.url):
        answer = call(listener, Origin=origin)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
    for host in ("evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "[", ""):
        assert call(listener, Host=host).status_code == 403, host
    port = listener.url.rpartition(":")[2]
    for host in ("localhost", f"LOCALHOST:{port}", "[::1]:80", "10.0.0.7", socket.gethostname()):
        assert call(listener, Host=host).status_code == 200, host
