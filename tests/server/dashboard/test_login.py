"""Login and logout: by token or password, what the cookie is like, and when a session ends."""

import asyncio
import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch
from urllib.parse import quote

import httpx
import pytest
from itsdangerous import TimestampSigner

from elmgrove.server.secrets import DECOY, HASHER, hashed
from support.dashboard import PASSWORD, guest
from support.serving import ADMIN, Authority, Server, done_behind, serving


def cookie(answer: httpx.Response) -> str:
    (stated,) = answer.headers.get_list("set-cookie")
    return stated


def set_password(server: Server, name: str) -> None:
    where, fields = f"/v1/administrators/{name}/password", {"password": PASSWORD}
    assert server.ask("PUT", where, ADMIN, json=fields).status_code == 204


@pytest.fixture(name="small")
def small_fixture(tmp_path: Path) -> Iterator[Server]:
    """A server of one test's own."""
    with serving(f"sqlite:///{tmp_path}/store.db") as running:
        yield running


@pytest.mark.parametrize(
    "path",
    ["/ui/fans/?search=a%26b", "/ui/fans/devices/a%2520b", "/ui/fans/devices/x%2Fy?from=now-1h"],
)
def test_who_has_not_logged_in_is_led_to_the_login_and_from_there_back(
    server: Server, path: str
) -> None:
    """A device may be called 'a%20b'."""
    with guest(server) as nobody:
        answer = nobody.get(path)
        assert answer.status_code == 303
        login = answer.headers["location"]
        assert login == f"/ui/login?next={quote(path, safe='')}"
        assert f'name="next" value="{path}"' in nobody.get(login).text
        done = nobody.login(next=path)
        assert (done.status_code, done.headers["location"]) == (303, path)
        assert nobody.get(login).headers["location"] == path, "is in already"


def test_what_is_no_address_is_no_failure(server: Server) -> None:
    with guest(server) as nobody:
        live = {"HX-Request": "true", "HX-Current-URL": "http://["}
        assert nobody.get("/ui/", **live).status_code == 401
        for origin in ("http://[", "http://", "null"):
            assert nobody.post("/ui/login", {"token": "x"}, Origin=origin).status_code == 403
        nameless = {"Origin": "null", "Host": ""}
        assert nobody.post("/ui/login", {"token": "x"}, **nameless).status_code == 403


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "/ui//evil", "javascript:x"],
)
def test_a_login_leads_to_no_other_site(server: Server, elsewhere: str) -> None:
    with guest(server) as nobody:
        assert nobody.login(next=elsewhere).headers["location"] == "/ui/"


def test_the_cookie_is_for_this_host_alone_and_no_script_reads_it(server: Server) -> None:
    with guest(server) as ada:
        stated = cookie(ada.login())
    value, *flags = stated.split("; ")
    assert value.startswith("elmgrove=")
    assert sorted(flags) == ["Max-Age=43200", "httponly", "path=/", "samesite=strict"]


def test_through_tls_the_cookie_is_bound_to_it(tmp_path: Path, authority: Authority) -> None:
    files = authority.signed("127.0.0.1")
    with serving(f"sqlite:///{tmp_path}/store.db", **files) as server, guest(server) as ada:
        stated = cookie(ada.login())
        assert stated.startswith("__Host-elmgrove=")
        assert "secure" in stated.split("; ")
        assert ada.is_in
        # One that came without TLS is nobody's.
        secret = ada.http.cookies["__Host-elmgrove"]
        ada.http.cookies.clear()
        ada.http.cookies.set("elmgrove", secret)
        assert not ada.is_in


def test_a_wrong_token_lets_nobody_in(small: Server) -> None:
    with guest(small) as nobody:
        for token in ("", "guessed", "elm-admin-" + "x" * 43, "elm-admin-\0", "é" * 40):
            answer = nobody.login(token)
            assert answer.status_code in (400, 403)
            assert "no administrator&#39;s token" in answer.text or answer.status_code == 400
            assert not nobody.is_in


def test_a_password_lets_its_owner_in(server: Server) -> None:
    server.administrator("grace", "manage")
    with guest(server) as grace:
        no_password = grace.login(name="grace", password=PASSWORD)
        assert no_password.status_code == 403
        set_password(server, "grace")
        assert grace.login(name="grace", password=PASSWORD + "?").status_code == 403
        assert not grace.is_in
        assert grace.login(name="grace", password=PASSWORD).status_code == 303
        assert ">grace<" in grace.get("/ui/").text
    acts = [(one.actor, one.act) for one in server.audit()]
    assert ("administrator grace", "logged in") in acts
    assert ("administrator grace", "refused") in acts


def test_an_unknown_name_is_answered_as_a_known_one_after_as_much_work(server: Server) -> None:
    server.administrator("linus", "look")
    set_password(server, "linus")
    compared = list[str]()
    verify = type(HASHER).verify

    def spied(self: object, stored: str, password: str) -> bool:
        compared.append(stored)
        return verify(HASHER, stored, password)

    with guest(server) as nobody, patch.object(type(HASHER), "verify", spied):
        known = nobody.login(name="linus", password="wrong")
        unknown = nobody.login(name="nobody", password="wrong")
        no_name = nobody.login(name="../é", password="wrong")
    assert len(compared) == 3
    assert compared[1:] == [DECOY, DECOY]
    assert not HASHER.check_needs_rehash(DECOY), "it takes as much work as a password of today"
    told = {
        re.sub(r'value="[^"]*"|data-now="[^"]*"', "", one.text) for one in (known, unknown, no_name)
    }
    assert len(told) == 1
    assert {one.status_code for one in (known, unknown, no_name)} == {403}
    assert "Name and password do not fit" in known.text


def test_who_guesses_is_slowed_down(small: Server) -> None:
    with guest(small) as nobody:
        assert {nobody.login().status_code for _ in range(20)} == {303}, "who is let in is not"
        nobody.logout()
        guesses = [nobody.login(f"guess-{n}") for n in range(11)]
        assert [one.status_code for one in guesses] == [403] * 10 + [429]
        assert int(guesses[-1].headers["retry-after"]) >= 1
        assert "too many failed logins" in guesses[-1].text
        assert nobody.login().status_code == 429, "the right token, too"


def test_a_logout_ends_the_session_wherever_the_cookie_is(server: Server) -> None:
    with guest(server, ADMIN) as ada, guest(server) as thief:
        thief.http.cookies = httpx.Cookies(ada.http.cookies)
        assert thief.is_in
        answer = ada.logout()
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/login?out")
        assert "elmgrove=null" in cookie(answer)
        assert "You have logged out" in ada.get("/ui/login?out").text
        assert not thief.is_in


def replaced(server: Server, name: str) -> None:
    """By another one of the same name."""
    server.ask("DELETE", f"/v1/administrators/{name}", ADMIN)
    server.administrator(name, "manage")


def expired(server: Server, name: str) -> None:
    asyncio.run(done_behind(server.store, "UPDATE administrator SET expires = 1"))


@pytest.mark.parametrize("becomes", [replaced, expired, set_password])
def test_a_session_ends_with_its_administrator_time_or_password(
    small: Server, becomes: Callable[[Server, str], None]
) -> None:
    with guest(small, small.administrator("tove", "manage", days=1.0)) as tove:
        assert tove.is_in
        becomes(small, "tove")
        assert not tove.is_in


def test_a_session_ends_after_half_a_day(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with guest(server, ADMIN) as ada:
        true = time.time
        monkeypatch.setattr(time, "time", lambda: true() + 12 * 3600 - 60)
        assert ada.is_in
        monkeypatch.setattr(time, "time", lambda: true() + 12 * 3600 + 60)
        assert not ada.is_in


def test_another_first_token_ends_all_sessions(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    with serving(store) as server, guest(server, ADMIN) as root:
        kept = dict(root.http.cookies)
    for admin, is_in in ((ADMIN, True), ("elm-admin-another", False)):
        with serving(store, admin_token=admin) as server, guest(server) as somebody:
            somebody.http.cookies = httpx.Cookies(kept)
            assert somebody.is_in is is_in


def test_a_cookie_that_was_not_signed_here_is_nobodys(server: Server) -> None:
    key, session = hashed("sessions another"), {"administrator": "root", "number": 0, "csrf": "x"}
    made = b64encode(json.dumps(session).encode())
    forged = TimestampSigner(key).sign(made).decode()
    with guest(server, ADMIN) as ada, guest(server) as nobody:
        real = ada.http.cookies["elmgrove"]
        changed = made.decode() + real[real.index(".") :]
        for value in ("", "x", '"quoted"', ADMIN, made.decode(), forged, changed, real[:-1]):
            answer = nobody.get("/ui/", cookie=f"elmgrove={value}")
            assert answer.status_code == 303, value
