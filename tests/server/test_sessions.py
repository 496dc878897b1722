"""Administrators in the store: passwords, and which sessions still last, on each data base."""

from dataclasses import replace

import pytest

from elmgrove.federation.audit import require_unbroken
from elmgrove.server.store.admins import AdministratorRow
from elmgrove.server.store.database import Transaction
from elmgrove.server.store.store import Store

pytestmark = pytest.mark.anyio

ANNA = AdministratorRow("anna", "manage", "h-anna", 10.0)
BERT = AdministratorRow("bert", "look", "h-bert", 11.0, 5e9)


@pytest.fixture
async def store(store: Store) -> Store:
    for one in (ANNA, BERT):
        assert await store.admins.add(one)
    return store


async def test_administrators_are_added_found_and_removed(store: Store) -> None:
    assert not await store.admins.add(replace(ANNA, role="look", token_hash="h3"))
    assert await store.admins.all() == [ANNA, BERT]
    assert await store.admins.with_token("h-anna") == ANNA
    assert await store.admins.with_token("h3") is None
    assert await store.admins.remove("anna", actor="administrator bert")
    assert not await store.admins.remove("anna")
    assert await store.admins.with_token("h-anna") is None
    assert await acts(store) == [
        ("server", "administrator added", "anna"),
        ("server", "administrator added", "bert"),
        ("administrator bert", "administrator removed", "anna"),
    ]
    added = (await store.audit.records("", 9))[1].detail
    assert added == {"name": "bert", "role": "look", "expires": 5e9}
    assert await store.audit.logs() == ["", "fans"]


async def numbers(store: Store) -> list[int]:
    return [await store.admins.session_number(name) for name in ("anna", "bert", "root")]


async def acts(store: Store) -> list[tuple[str, str, str | None]]:
    """What was done in the server's own chain, which is whole."""
    records = await store.audit.records("", 1000)
    require_unbroken(records)
    return [(one.actor, one.act, one.detail.get("name")) for one in records]


async def test_the_sessions_of_one_administrator_end_at_once(store: Store) -> None:
    assert await store.admins.begin_session("anna") == 0
    assert await numbers(store) == [0, 0, 0]
    await store.admins.end_sessions("anna")
    await store.admins.end_sessions("root")
    assert await store.admins.begin_session("anna") == 1
    assert await numbers(store) == [1, 0, 1]
    assert (await acts(store))[-4:] == [
        ("administrator anna", "logged in", None),
        ("administrator anna", "logged out", None),
        ("administrator root", "logged out", None),
        ("administrator anna", "logged in", None),
    ]


async def test_a_password_is_set_and_taken_away(store: Store) -> None:
    assert (await store.admins.find("anna")) == ANNA
    assert await store.admins.set_password("anna", "$argon2id$1", actor="administrator bert")
    assert (await store.admins.find("anna")) == replace(ANNA, password="$argon2id$1")
    assert (await store.admins.with_token("h-anna")) == replace(ANNA, password="$argon2id$1")
    assert [one.password for one in await store.admins.all()] == ["$argon2id$1", None]
    assert await store.admins.set_password("anna", None)
    assert (await store.admins.find("anna")) == ANNA
    assert not await store.admins.set_password("carl", "$argon2id$2")
    assert await store.admins.find("carl") is None
    assert (await acts(store))[-2:] == [
        ("administrator bert", "password set", "anna"),
        ("server", "password removed", "anna"),
    ]
    assert "$argon2id$1" not in repr(await store.audit.records("", 1000))


async def test_another_password_and_a_removal_end_sessions(store: Store) -> None:
    await store.admins.set_password("anna", "$argon2id$1")
    assert await numbers(store) == [1, 0, 0]
    await store.admins.remove("bert")
    await store.admins.add(BERT)
    assert await numbers(store) == [1, 1, 0], "another one of that name is another one"


async def test_a_hash_is_not_told_by_accident() -> None:
    assert "secret" not in repr(replace(ANNA, password="secret"))


async def test_what_nobody_may_write_ends_no_session(store: Store) -> None:
    async def rule(tx: Transaction) -> None:
        await tx.fetch("SELECT 1")
        raise PermissionError("gone")

    with pytest.raises(PermissionError):
        await store.by(rule).admins.set_password("anna", "x")
    assert await numbers(store) == [0, 0, 0]
