"""Login and logout: by token or password, what the cookie is like, and when a session ends."""

import asyncio
import json
import re
import sqlite3
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
import trustme
from itsdangerous import TimestampSigner

from elmgrove.server.secrets import DECOY, HASHER, hashed
from elmgrove.server.store.store import Store, open_store
from support.dashboard import PASSWORD, guest
from support.serving import ADMIN, Server, serving


def cookie(answer: httpx.Response) -> str:
    (stated,) = answer.headers.get_list("set-cookie")
    return stated


async def _set_password(store: str, name: str, password: str | None) -> None:
    opened: Store = await open_store(store)
    try:
        hashed = None if password is None else HASHER.hash(password)
        assert await opened.admins.set_password(name, hashed)
    finally:
        await opened.close()


def set_password(server: Server, name: str, password: str | None = PASSWORD) -> None:
    asyncio.run(_set_password(server.store, name, password))


@pytest.fixture(name="small")
def small_fixture(tmp_path: Path) -> Iterator[Server]:
    """A server of one test's own."""
    with serving(f"sqlite:///{tmp_path}/store.db") as running:
        yield running


def test_who_has_not_logged_in_is_led_to_the_login_and_from_there_back(server: Server) -> None:
    with guest(server) as nobody:
        answer = nobody.get("/ui/fans/?search=a%26b")
        assert answer.status_code == 303
        login = answer.headers["location"]
        assert login == "/ui/login?next=%2Fui%2Ffans%2F%3Fsearch%3Da%2526b"
        page = nobody.get(login)
        assert page.status_code == 200
        assert 'name="next" value="/ui/fans/?search=a%26b"' in page.text
        done = nobody.login(next="/ui/fans/?search=a%26b")
        assert (done.status_code, done.headers["location"]) == (303, "/ui/fans/?search=a%26b")
        assert nobody.get(login).headers["location"] == "/ui/fans/?search=a%26b", "is in already"


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


def test_through_tls_the_cookie_is_bound_to_it(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("127.0.0.1")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    files = {"certificate": str(certificate), "private_key": str(key)}
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
    server.ask("DELETE", "/v1/administrators/grace", ADMIN)


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
    server.ask("DELETE", "/v1/administrators/linus", ADMIN)


def test_who_guesses_is_slowed_down(small: Server) -> None:
    with guest(small) as nobody:
        guesses = [nobody.login(f"guess-{n}") for n in range(11)]
        assert [one.status_code for one in guesses] == [403] * 10 + [429]
        assert int(guesses[-1].headers["retry-after"]) >= 1
        assert "too many failed logins" in guesses[-1].text
        assert nobody.login().status_code == 429, "the right token, too"


def test_who_logs_in_again_and_again_is_not(small: Server) -> None:
    with guest(small) as ada:
        assert {ada.login().status_code for _ in range(20)} == {303}


def test_a_logout_ends_the_session_wherever_the_cookie_is(server: Server) -> None:
    with guest(server, ADMIN) as ada, guest(server) as thief:
        thief.http.cookies = httpx.Cookies(ada.http.cookies)
        assert thief.is_in
        answer = ada.logout()
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/login?out")
        assert "elmgrove=null" in cookie(answer)
        assert "You have logged out" in ada.get("/ui/login?out").text
        assert not thief.is_in


def test_a_session_ends_with_its_administrator(server: Server) -> None:
    with guest(server, server.administrator("tove", "manage")) as tove:
        assert tove.is_in
        server.ask("DELETE", "/v1/administrators/tove", ADMIN)
        assert not tove.is_in
        # Another one of that name is another one.
        server.administrator("tove", "manage")
        assert not tove.is_in
    server.ask("DELETE", "/v1/administrators/tove", ADMIN)


def test_a_session_ends_with_another_password(server: Server) -> None:
    token = server.administrator("barbara", "look")
    with guest(server, token) as barbara:
        assert barbara.is_in
        set_password(server, "barbara")
        assert not barbara.is_in
    server.ask("DELETE", "/v1/administrators/barbara", ADMIN)


def test_a_session_ends_with_its_administrators_time(small: Server) -> None:
    with guest(small, small.administrator("ada", "look", days=1.0)) as ada:
        assert ada.is_in
        opened = sqlite3.connect(small.store.removeprefix("sqlite:///"))
        with closing(opened) as connection, connection:
            connection.execute("UPDATE administrator SET expires = 1")
        assert not ada.is_in


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
