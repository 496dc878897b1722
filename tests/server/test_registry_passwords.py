"""Passwords over HTTP: who may set whose, what is kept of them, and what ends with them."""

import asyncio
import time
from typing import Any

import pytest

from elmgrove.server.secrets import Passwords
from elmgrove.server.store.admins import SessionRow
from support.serving import ADMIN, Server, contents, refused
from support.stores import opened

LONG = "correct horse battery"


def where(name: str) -> str:
    return f"/v1/administrators/{name}/password"


def put(server: Server, name: str, secret: str, password: Any = LONG) -> Any:
    return server.ask("PUT", where(name), secret, json={"password": password})


def kept(server: Server, name: str) -> str | None:
    """What the data base has of a password."""
    found = {row[0]: row[-1] for row in contents(server.store)["administrator"]}
    hashed: str | None = found[name]
    return hashed


def shown(server: Server, name: str) -> bool:
    found = server.ask("GET", "/v1/administrators", ADMIN).json()["administrators"]
    return bool(next(one["password"] for one in found if one["name"] == name))


def test_a_password_is_kept_as_a_hash_and_nowhere_else(server: Server) -> None:
    server.administrator("fred", "look")
    assert put(server, "fred", ADMIN).status_code == 204
    hashed = kept(server, "fred")
    assert hashed is not None
    assert hashed.startswith("$argon2id$")
    assert asyncio.run(Passwords().matches(LONG, hashed))
    assert not asyncio.run(Passwords().matches(LONG + "!", hashed))
    listed = server.ask("GET", "/v1/administrators", ADMIN).text
    records = repr(server.audit())
    assert "password set" in records
    for text in (LONG, hashed):
        assert text not in listed + records
    assert shown(server, "fred")
    assert put(server, "fred", ADMIN).status_code == 204
    assert kept(server, "fred") != hashed, "each has a salt of its own"
    assert server.ask("DELETE", where("fred"), ADMIN).status_code == 204
    assert (kept(server, "fred"), shown(server, "fred")) == (None, False)


def test_one_who_looks_may_change_its_own_and_nobody_elses(server: Server) -> None:
    gina, hugo = server.administrator("gina", "look"), server.administrator("hugo", "manage")
    assert put(server, "gina", gina).status_code == 204
    assert put(server, "gina", hugo).status_code == 204
    mine = kept(server, "gina")
    for method in ("PUT", "DELETE"):
        asked = {"json": {"password": LONG}} if method == "PUT" else {}
        refused(server.ask(method, where("hugo"), gina, **asked), "forbidden")
        for stranger in ("elm-admin-guessed", None):
            refused(server.ask(method, where("gina"), stranger, **asked), "unauthorized")
    assert (kept(server, "gina"), kept(server, "hugo")) == (mine, None)
    assert server.ask("DELETE", where("gina"), gina).status_code == 204


def test_one_who_was_removed_sets_no_password(server: Server) -> None:
    ida = server.administrator("ida", "manage")
    assert server.ask("DELETE", "/v1/administrators/ida", ADMIN).status_code == 204
    refused(put(server, "ida", ida), "unauthorized")
    refused(put(server, "ida", ADMIN), "not-found")
    problem = refused(put(server, "root", ADMIN), "not-found")
    assert "the token that the server was started with" in problem["detail"]


@pytest.mark.parametrize(
    "wrong", [None, "", "x" * 11, "x" * 257, 123456789012, [LONG], {"": LONG}, True], ids=repr
)
def test_what_is_no_password_is_refused(server: Server, wrong: Any) -> None:
    name = f"jo-{abs(hash(repr(wrong)))}"
    server.administrator(name, "look")
    refused(put(server, name, ADMIN, wrong), "malformed")
    assert kept(server, name) is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"password": "' + b"x" * 20_000 + b'"}'])
def test_a_body_that_is_none_is_refused(server: Server, body: bytes) -> None:
    name = f"kim-{len(body)}"
    server.administrator(name, "look")
    answer = server.ask("PUT", where(name), ADMIN, content=body)
    refused(answer, "too-large" if len(body) > 2**14 else "malformed")
    assert kept(server, name) is None


def test_half_a_letter_is_in_no_password(server: Server) -> None:
    server.administrator("lena", "look")
    body = b'{"password": "correct horse \\ud800"}'
    refused(server.ask("PUT", where("lena"), ADMIN, content=body), "malformed")


def test_another_password_ends_sessions(server: Server) -> None:
    server.administrator("mona", "look")

    async def session(begin: bool) -> bool:
        async with opened(server.store) as store:
            if begin:
                now = time.time()
                await store.open_session(SessionRow("id-of-mona", "mona", "c", now, now + 60))
            return await store.session("id-of-mona") is not None

    for method in ("PUT", "DELETE"):
        assert asyncio.run(session(True))
        asked = {"json": {"password": LONG}} if method == "PUT" else {}
        assert server.ask(method, where("mona"), ADMIN, **asked).status_code == 204
        assert not asyncio.run(session(False))
