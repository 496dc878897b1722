"""Sessions and passwords in the store, on each data base."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from elmgrove.federation.audit import require_unbroken
from elmgrove.server.store.admins import AdministratorRow, Admins, SessionRow
from elmgrove.server.store.database import Transaction
from elmgrove.server.store.store import Store
from support.serving import opened

pytestmark = pytest.mark.anyio

ANNA = AdministratorRow("anna", "manage", "h-anna", 10.0)
BERT = AdministratorRow("bert", "look", "h-bert", 11.0, 5e9)


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    async with opened(database) as store:
        for one in (ANNA, BERT):
            assert await store.admins.add(one)
        yield store


def session(number: int = 1, who: str = "anna") -> SessionRow:
    return SessionRow(f"id-{number}", who, f"csrf-{number}", 100.0 + number, 1e4 + number)


async def there(store: Store, *numbers: int) -> list[int]:
    return [number for number in numbers if await store.admins.session(f"id-{number}") is not None]


async def acts(store: Store) -> list[tuple[str, str, str | None]]:
    """What was done in the server's own chain, which is whole."""
    records = await store.audit.records("", 1000)
    require_unbroken(records)
    return [(one.actor, one.act, one.detail.get("name")) for one in records]


async def test_a_session_comes_back_as_it_was_begun_until_it_ends(store: Store) -> None:
    assert await store.admins.session("id-1") is None
    await store.admins.open_session(session())
    await store.admins.open_session(session(2))
    assert await store.admins.session("id-1") == session()
    await store.admins.close_session("id-1")
    await store.admins.close_session("id-1")
    assert await there(store, 1, 2) == [2]


async def test_that_somebody_came_is_in_the_audit(store: Store) -> None:
    await store.admins.open_session(session())
    assert (await acts(store))[-1] == ("administrator anna", "logged in", None)


async def test_sessions_that_expired_go_when_one_begins(store: Store) -> None:
    await store.admins.open_session(replace(session(1), expires=150.0))
    await store.admins.open_session(replace(session(2), created=150.0))
    assert await there(store, 1, 2) == [2]


async def test_of_too_many_sessions_the_oldest_goes_and_nobody_elses(store: Store) -> None:
    await store.admins.open_session(session(0, "bert"))
    for number in range(1, Admins.MOST_SESSIONS + 4):
        await store.admins.open_session(session(number))
    assert await there(store, *range(Admins.MOST_SESSIONS + 4)) == [
        0,
        *range(4, Admins.MOST_SESSIONS + 4),
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
    for number, who in enumerate(["anna", "bert", "anna"]):
        await store.admins.open_session(session(number, who))
    await store.admins.set_password("anna", "$argon2id$1")
    assert await there(store, 0, 1, 2) == [1]
    await store.admins.remove("bert")
    assert await there(store, 0, 1, 2) == []


async def test_a_hash_is_not_told_by_accident() -> None:
    assert "secret" not in repr(replace(ANNA, password="secret"))
    assert "csrf-1" not in repr(session())


async def test_what_nobody_may_write_ends_no_session(store: Store) -> None:
    async def rule(tx: Transaction) -> None:
        await tx.fetch("SELECT 1")
        raise PermissionError("gone")

    await store.admins.open_session(session())
    with pytest.raises(PermissionError):
        await store.by(rule).admins.set_password("anna", "x")
    assert await there(store, 1) == [1]
