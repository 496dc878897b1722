"""What the store keeps of federations in rounds: one contract, on each data base."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from elmgrove.server.store import (
    DeviceRow,
    FederationRow,
    NoSuchFederation,
    RoundsRow,
    Store,
    StoredReply,
)
from support.serving import contents
from support.stores import opened

pytestmark = pytest.mark.anyio

FANS = FederationRow("fans", {}, 0.0, None, "t0", 12.5, agenda={"rule": "e2lm", "clients": 2})
REPORT: dict[str, Any] = {"number": 1, "answered": ["a"], "left_out": {"b": "late"}}


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    async with opened(database) as store:
        assert await store.create_rounds(FANS, 2, b"first", {"rounds": 0}, b"exam")
        for name in ("a", "b"):
            assert await store.enrol("fans", DeviceRow(name, f"k-{name}", False, 1.0), again=False)
        yield store


def everybody(names: Sequence[str]) -> Sequence[str]:
    return names


async def begun(store: Store, until: float = 100.0) -> RoundsRow:
    assert await store.begin_rounds("fans", 2, everybody, 10.0, until)
    return await standing(store)


async def standing(store: Store) -> RoundsRow:
    found = await store.rounds("fans")
    assert found is not None
    return found


async def close(store: Store, seen: RoundsRow, *kept: str) -> bool:
    progress, report = {"rounds": seen.number}, {**REPORT, "number": seen.number}
    request = f"after {seen.number}".encode()
    return await store.close_round(
        "fans", seen, request, progress, report, kept, everybody, 20.0, 200.0
    )


async def reply(store: Store, origin: str, blob: bytes, number: int = 1, now: float = 11.0) -> Any:
    return await store.put_reply("fans", StoredReply.of(number, origin, blob), now)


async def test_a_federation_in_rounds_comes_back_as_it_was_made(store: Store) -> None:
    assert await store.federation("fans") == FANS
    assert await standing(store) == RoundsRow("fans", 0, 2, (), 12.5, 12.5)
    assert await store.round_request("fans") == (0, b"first")
    held = await store.rounds_held("fans")
    assert held is not None
    assert (held.progress, held.request, held.exam) == ({"rounds": 0}, b"first", b"exam")
    assert await store.round_reports("fans") == []
    assert not await store.create_rounds(FANS, 9, b"x", {}, None)
    assert await store.round_request("fans") == (0, b"first")


async def test_the_first_round_begins_once_when_enough_have_joined(store: Store) -> None:
    assert not await store.begin_rounds("fans", 3, everybody, 10.0, 99.0)
    both = (store.begin_rounds("fans", 2, everybody, 10.0, 99.0) for _ in range(8))
    assert sorted(await asyncio.gather(*both)) == [False] * 7 + [True]
    assert await standing(store) == RoundsRow("fans", 1, 2, ("a", "b"), 10.0, 99.0)


async def test_who_is_shut_out_or_expired_is_not_drawn(store: Store) -> None:
    await store.enrol("fans", DeviceRow("c", "k-c", False, 1.0, expires=5.0), again=False)
    assert await store.revoke("fans", "b")
    assert not await store.begin_rounds("fans", 2, everybody, 10.0, 99.0)
    assert await store.begin_rounds("fans", 1, everybody, 10.0, 99.0)
    assert (await standing(store)).asked == ("a",)


async def test_a_reply_is_taken_once_and_again_if_it_is_the_same(store: Store) -> None:
    assert "no round" in await reply(store, "a", b"1")
    await begun(store)
    assert await reply(store, "a", b"1") is None
    assert await reply(store, "a", b"1") is None
    assert "another" in await reply(store, "a", b"2")
    assert "not drawn" in await reply(store, "z", b"1")
    assert "no round 2" in await reply(store, "b", b"1", number=2)
    assert "over" in await reply(store, "b", b"1", now=100.0)
    assert (await standing(store)).replied == {"a"}


async def test_what_came_too_late_is_told_also_when_it_was_there_before(store: Store) -> None:
    seen = await begun(store)
    assert await reply(store, "a", b"1") is None
    assert await close(store, await standing(store), "a")
    assert seen.number == 1
    assert await reply(store, "a", b"1") is None, "it was acknowledged, so it is again"
    assert "round 1 is over" in await reply(store, "b", b"1")


async def test_of_an_unusable_reply_the_reason_is_kept_and_no_bytes(store: Store) -> None:
    await begun(store)
    bad = StoredReply.of(1, "a", b"nonsense", "BadFile: no")
    assert await store.put_reply("fans", bad, 11.0) is None
    held = await store.rounds_held("fans")
    assert held is not None
    assert [(one.unusable, one.blob) for one in held.replies] == [("BadFile: no", b"")]
    assert (await standing(store)).replied == {"a"}


async def test_a_round_is_closed_once(store: Store) -> None:
    await begun(store)
    await reply(store, "a", b"1")
    seen = await standing(store)
    closed = await asyncio.gather(*(close(store, seen, "a") for _ in range(8)))
    assert sorted(closed) == [False] * 7 + [True]
    state = await standing(store)
    assert (state.number, state.asked, state.replied) == (2, ("a", "b"), frozenset())
    assert await store.round_request("fans") == (2, b"after 1")
    assert [one["number"] for one in await store.round_reports("fans")] == [1]


async def test_a_reply_that_came_meanwhile_is_not_lost(store: Store) -> None:
    seen = await begun(store)
    assert await reply(store, "a", b"1") is None
    assert not await close(store, seen), "what was seen is not what there is"
    assert (await standing(store)).number == 1
    assert await close(store, await standing(store), "a")


async def test_the_newest_reply_that_is_needed_is_kept_and_no_other(store: Store) -> None:
    await begun(store)
    for name in ("a", "b"):
        await reply(store, name, f"{name}1".encode())
    assert await close(store, await standing(store), "a", "b")
    for name in ("a", "b"):
        await reply(store, name, f"{name}2".encode(), number=2, now=21.0)
    assert await close(store, await standing(store), "a")
    held = await store.rounds_held("fans")
    assert held is not None
    assert [(one.origin, one.number, one.blob) for one in held.replies] == [
        ("a", 2, b"a2"),
        ("b", 1, b"b1"),
    ]
    assert await store.replies_held("fans") == {(one.origin, one.digest) for one in held.replies}
    state = await standing(store)
    assert state.ended
    assert state.asked == ()
    assert await store.rounds_under_way() == []


async def test_who_is_shut_out_has_no_reply_any_more(store: Store) -> None:
    await begun(store)
    await reply(store, "a", b"1")
    assert await store.revoke("fans", "a")
    assert (await standing(store)).replied == frozenset()


async def test_all_federations_that_are_not_over_are_under_way(store: Store) -> None:
    other = replace(FANS, name="cars")
    assert await store.create_rounds(other, 1, b"", {}, None)
    await begun(store)
    await reply(store, "b", b"1")
    found = await store.rounds_under_way()
    assert [(one.federation, one.number, one.replied) for one in found] == [
        ("cars", 0, frozenset()),
        ("fans", 1, {"b"}),
    ]


async def test_a_federation_without_rounds_has_none(store: Store) -> None:
    assert await store.create_federation(replace(FANS, name="cars", agenda=None))
    assert await store.rounds("cars") is None
    assert await store.round_request("cars") is None
    assert await store.rounds_held("cars") is None
    assert not await store.begin_rounds("cars", 0, everybody, 1.0, 2.0)
    with pytest.raises(NoSuchFederation):
        await store.rounds("vans")
    with pytest.raises(NoSuchFederation):
        await store.round_reports("vans")


async def test_deleting_takes_all_of_it(database: str, store: Store) -> None:
    await begun(store)
    await reply(store, "a", b"1")
    assert await close(store, await standing(store), "a")
    assert await store.delete_federation("fans")
    left = await asyncio.to_thread(contents, database)
    assert not any(left[name] for name in ("rounds", "rounds_held", "reply", "report"))
    assert await store.create_rounds(FANS, 2, b"again", {}, None)
    assert await store.round_request("fans") == (0, b"again")


async def test_the_audit_tells_of_it(store: Store) -> None:
    await begun(store)
    await reply(store, "a", b"1")
    assert await close(store, await standing(store), "a")
    told = [(one.actor, one.act) for one in await store.audit("fans", 100)]
    assert told[-3:] == [
        ("server", "rounds begun"),
        ("device a", "replied"),
        ("server", "round closed"),
    ]


async def test_all_is_there_after_reopening(database: str, store: Store) -> None:
    await begun(store)
    await reply(store, "a", b"1")
    before = await store.rounds_held("fans")
    async with opened(database) as again:
        assert await again.rounds_held("fans") == before
