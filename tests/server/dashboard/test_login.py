"""Login and logout: by token or password, what the cookie is like, and when a session ends."""

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
import trustme

from elmgrove.server.dashboard.session import TRIES_BY_ADDRESS, WRONG_PASSWORD, WRONG_TOKEN
from elmgrove.server.secrets import DECOY, HASHER
from elmgrove.server.store.store import Store, open_store
from support.dashboard import PASSWORD, guest
from support.serving import ADMIN, Server, serving


def cookie(answer: httpx.Response) -> str:
    (stated,) = [one for one in answer.headers.get_list("set-cookie") if "Max-Age=0" not in one]
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
    assert re.fullmatch(r"elmgrove=elm-root-session-[\w-]{43}", value)
    assert sorted(flags) == ["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=strict"]


def test_through_tls_the_cookie_is_bound_to_it(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("127.0.0.1")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    files = {"certificate": str(certificate), "private_key": str(key)}
    with serving(f"sqlite:///{tmp_path}/store.db", **files) as server, guest(server) as ada:
        stated = cookie(ada.login())
        assert stated.startswith("__Host-elmgrove=elm-root-session-")
        assert "Secure" in stated.split("; ")
        assert ada.is_in
        # One that came without TLS is nobody's.
        secret = ada.http.cookies["__Host-elmgrove"]
        ada.http.cookies.clear()
        ada.http.cookies.set("elmgrove", secret)
        assert not ada.is_in


def test_the_store_knows_a_hash_of_the_cookie_alone(small: Server) -> None:
    with guest(small, small.administrator("ada", "look")) as ada:
        secret = ada.http.cookies["elmgrove"]
        with closing(sqlite3.connect(small.store.removeprefix("sqlite:///"))) as connection:
            held = repr(connection.execute("SELECT * FROM session").fetchall())
        assert "'ada'" in held
        assert secret not in held
        assert secret.removeprefix("elm-session-") not in held


def test_a_wrong_token_lets_nobody_in(small: Server) -> None:
    with guest(small) as nobody:
        for token in ("", "guessed", "elm-admin-" + "x" * 43, "elm-admin-\0", "é" * 40):
            answer = nobody.login(token)
            assert answer.status_code in (400, 403)
            assert WRONG_TOKEN.replace("'", "&#39;") in answer.text or answer.status_code == 400
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
    assert WRONG_PASSWORD in known.text
    server.ask("DELETE", "/v1/administrators/linus", ADMIN)


def test_who_guesses_is_slowed_down(small: Server) -> None:
    with guest(small) as nobody:
        guesses = [nobody.login(f"guess-{n}") for n in range(TRIES_BY_ADDRESS + 1)]
        assert [one.status_code for one in guesses] == [403] * TRIES_BY_ADDRESS + [429]
        assert int(guesses[-1].headers["retry-after"]) >= 1
        assert "too many failed logins" in guesses[-1].text
        assert nobody.login().status_code == 429, "the right token, too"


def test_who_logs_in_again_and_again_is_not(small: Server) -> None:
    with guest(small) as ada:
        assert {ada.login().status_code for _ in range(2 * TRIES_BY_ADDRESS)} == {303}


def test_a_logout_ends_the_session_wherever_the_cookie_is(server: Server) -> None:
    with guest(server, ADMIN) as ada, guest(server) as thief:
        thief.http.cookies = httpx.Cookies(ada.http.cookies)
        assert thief.is_in
        answer = ada.logout()
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/login?out")
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert "You have logged out." in ada.get("/ui/login?out").text
        assert not thief.is_in


def test_a_second_login_ends_the_first_session_of_a_browser(server: Server) -> None:
    with guest(server, ADMIN) as ada, guest(server) as thief:
        thief.http.cookies = httpx.Cookies(ada.http.cookies)
        ada.login()
        assert ada.is_in
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


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE administrator SET expires = 1",
        "UPDATE session SET expires = 1",
        "UPDATE administrator SET created = 9e9",
    ],
)
def test_a_session_ends_with_its_time_and_with_its_administrators(
    small: Server, change: str
) -> None:
    with guest(small, small.administrator("ada", "look", days=1.0)) as ada:
        assert ada.is_in
        opened = sqlite3.connect(small.store.removeprefix("sqlite:///"))
        with closing(opened) as connection, connection:
            connection.execute(change)
        assert not ada.is_in


def test_another_first_token_ends_the_sessions_by_the_old_one(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    with serving(store) as server:
        token = server.administrator("ada", "look")
        with guest(server, ADMIN) as root, guest(server, token) as ada:
            kept = dict(root.http.cookies), dict(ada.http.cookies)
    for admin, are_in in ((ADMIN, [True, True]), ("elm-admin-another", [False, True])):
        with serving(store, admin_token=admin) as server, guest(server) as somebody:
            found = list[bool]()
            for cookies in kept:
                somebody.http.cookies = httpx.Cookies(cookies)
                found.append(somebody.is_in)
            assert found == are_in


@pytest.mark.parametrize(
    "value",
    ["", "x", "elm-session-", "elm-session-" + "x" * 43, '"quoted"', "elm-admin-of-the-tests"],
)
def test_a_made_up_cookie_is_nobodys(server: Server, value: str) -> None:
    with guest(server) as nobody:
        answer = nobody.get("/ui/", cookie=f"elmgrove={value}")
        assert answer.status_code == 303
