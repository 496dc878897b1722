"""Live views: one thread at a time uses what is kept, even if one who asked is cancelled."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from elmgrove.federation.charter import Charter
from elmgrove.federation.others import StandingOthers
from elmgrove.server.damage import CorruptEntries, Reader
from elmgrove.server.store.records import FederationRow
from elmgrove.server.store.store import open_store
from elmgrove.server.sums import LiveOther
from support.serving import charter

pytestmark = pytest.mark.anyio


def row(made: Charter) -> FederationRow:
    return FederationRow(made.name, made.basis.fields, made.ridge, None, "", 1.0)


async def test_what_is_kept_has_one_thread_at_a_time_even_if_one_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = StandingOthers.merged
    begun, going_on, at_work, most = threading.Event(), threading.Event(), 0, 0

    def slow(*asked: Any) -> Any:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        begun.set()
        assert going_on.wait(60)
        at_work -= 1
        return told(*asked)

    monkeypatch.setattr(StandingOthers, "merged", slow)
    store, made = await open_store(f"{tmp_path}/store.db"), charter()
    await store.create_federation(row(made))
    live = LiveOther(store, Reader(row(made), made, CorruptEntries()))
    first = asyncio.create_task(live.merged("a", 1))
    assert await asyncio.to_thread(begun.wait, 60)
    first.cancel()
    second = asyncio.create_task(live.merged("b", 1))
    # Long enough for the second to begin, if it could.
    for _ in range(20):
        await store.ready()
    going_on.set()
    assert (await second).devices == 0
    with pytest.raises(asyncio.CancelledError):
        await first
    assert most == 1
    await store.close()


async def test_who_asks_for_groups_that_take_long_gets_them_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = threading.Event()

    def slow(_: Any) -> dict[int, list[str]]:
        assert going_on.wait(60)
        return {1: ["fan-1"]}

    monkeypatch.setattr(StandingOthers, "grouped", property(slow))
    store, made = await open_store(f"{tmp_path}/store.db"), charter()
    await store.create_federation(row(made))
    live = LiveOther(store, Reader(row(made), made, CorruptEntries()))
    assert await live.grouped(0.01) is None
    assert await live.grouped(0.01) is None
    going_on.set()
    assert await live.grouped(60.0) == {1: ["fan-1"]}
    await store.close()
