"""Commands in the store: asked once, told until they are done, and done once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from elmgrove.errors import NotFound
from elmgrove.federation.audit import require_unbroken
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.messages import MOST_RESULTS
from elmgrove.server.store.federations import DeviceRow
from elmgrove.server.store.reports import Reports, StoredCommand
from elmgrove.server.store.store import Store
from support.reports import report
from support.serving import FANS, opened

pytestmark = pytest.mark.anyio

ANNA = "administrator anna"


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    async with opened(database) as store:
        assert await store.federations.create(FANS)
        for name in ("fan-1", "fan-2"):
            assert await store.federations.enrol(
                "fans", DeviceRow(name, name, False, 5.0), again=False
            )
        yield store


def command(number: int = 1, action: str = "accept", **words: Any) -> Command:
    return Command(f"e-{number}", action, words, "anna", 100.0 + number)


async def ask(store: Store, *commands: Command, device: str = "fan-1") -> None:
    for one in commands:
        assert await store.reports.ask("fans", device, one, actor=ANNA) is None


async def take_report(
    store: Store, *outcomes: CommandResult, device: str = "fan-1"
) -> list[Command]:
    """What a device hears that says so."""
    return await store.reports.put("fans", report(device, outcomes=outcomes), 200.0)


def done(number: int, *said: str, refused: bool = False) -> CommandResult:
    return CommandResult(f"e-{number}", 150.0, refused, said)


async def acts(store: Store) -> list[tuple[str, str, Any, Any]]:
    records = await store.audit.records("fans", 1000)
    require_unbroken(records)
    found = [one for one in records if one.act.startswith("command")]
    detail = [(one.detail["command"], one.detail.get("refused")) for one in found]
    return [(one.actor, one.act, *more) for one, more in zip(found, detail, strict=True)]


async def test_an_command_is_told_until_it_is_done(store: Store) -> None:
    words = {"from": "2024-05-01T14:20:00Z", "to": 1.8e9, "instead": True}
    first, second = command(1, **words), command(2, "reject")
    await ask(store, second, first)
    assert await take_report(store) == [first, second], "the oldest is first"
    assert await take_report(store) == [first, second]
    assert await take_report(store, device="fan-2") == []
    assert await take_report(store, done(1, "31 rows learned", "all is well")) == [second]
    assert await store.reports.commands("fans", "fan-1", 9) == [
        StoredCommand(second, "fan-1"),
        StoredCommand(first, "fan-1", 150.0, False, ("31 rows learned", "all is well")),
    ]
    assert await take_report(store, done(2, "no such rows", refused=True)) == []
    assert await acts(store) == [
        (ANNA, "command asked", "e-2", None),
        (ANNA, "command asked", "e-1", None),
        ("device fan-1", "command done", "e-1", False),
        ("device fan-1", "command done", "e-2", True),
    ]


async def test_the_first_outcome_counts_and_those_of_no_command_change_nothing(
    store: Store,
) -> None:
    await ask(store, command(1))
    assert await take_report(store, done(9), done(1, "other"), device="fan-2") == []
    assert await take_report(store, done(7)) == [command(1)], (
        "another device can't say what became of it"
    )
    for said in ("first", "second"):
        assert await take_report(store, done(1, said), done(1, said)) == []
    assert [one.said for one in await store.reports.commands("fans", "fan-1", 9)] == [("first",)]
    assert [act for _, act, *_ in await acts(store)] == ["command asked", "command done"]


async def test_who_does_not_come_is_asked_no_more(store: Store) -> None:
    await ask(store, *(command(n) for n in range(Reports.MOST_WAITING)))
    refusal = await store.reports.ask("fans", "fan-1", command(999), actor=ANNA)
    assert refusal is not None
    assert "200 commands wait for 'fan-1'" in refusal
    await ask(store, command(1000), device="fan-2")
    given = await take_report(store)
    assert given == [command(n) for n in range(MOST_RESULTS)], "as many as it can answer"
    assert (await take_report(store, done(0)))[0] == command(1)
    await ask(store, command(999))


async def test_who_never_joined_or_was_shut_out_is_asked_nothing(store: Store) -> None:
    await store.federations.revoke("fans", "fan-2")
    for device, why in (("fan-9", "has not joined"), ("fan-2", "revoked")):
        refusal = await store.reports.ask("fans", device, command(), actor=ANNA)
        assert refusal is not None
        assert why in refusal
    with pytest.raises(NotFound):
        await store.reports.ask("vans", "fan-1", command(), actor=ANNA)
    assert await acts(store) == []
    assert await store.reports.commands("fans", "fan-2", 9) == []


async def test_commands_are_forgotten_with_events(store: Store) -> None:
    await ask(store, command(1), command(50))
    assert await store.reports.expire(0.0, 120.0) == 1
    assert await take_report(store) == [command(50)]
    assert await store.federations.delete("fans")
    assert await store.federations.create(FANS)
    assert await store.reports.commands("fans", "fan-1", 9) == []


async def test_the_newest_commands_are_listed(store: Store) -> None:
    await ask(store, *(command(n) for n in range(5)))
    assert [one.command.id for one in await store.reports.commands("fans", "fan-1", 2)] == [
        "e-4",
        "e-3",
    ]
