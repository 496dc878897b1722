"""How much was published over time: counted once, and right whatever comes and goes."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from elmgrove.server.dashboard.audit_page import ActCounts
from elmgrove.server.store import audit
from elmgrove.server.store.store import Store

pytestmark = pytest.mark.anyio
#: The begin of the hour before the last one, in hours.
PLACE = int(time.time() // 3600) - 2


@pytest.fixture(name="publish")
def publish_fixture(store: Store, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Publishes something at a time."""

    async def publish(at: float) -> None:
        monkeypatch.setattr(audit, "time", SimpleNamespace(time=lambda: at))
        await store.contributions.put("fans", "a", 7, 2.5, b"x", at, successor=lambda held: True)

    return publish


async def test_what_is_over_is_counted_once_until_it_is_pruned(
    store: Store, publish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, count = list[int](), store.audit.count

    async def counted(federation: str, act: str, begin: float, end: float) -> int:
        asked.append(int(begin // 3600) - PLACE)
        return await count(federation, act, begin, end)

    monkeypatch.setattr(store.audit, "count", counted)
    monkeypatch.setattr(audit, "time", SimpleNamespace(time=lambda: 3600.0 * (PLACE - 1)))
    await store.audit.add("fans", "server", "tried", {})
    counts, places = ActCounts(), range(PLACE - 1, PLACE + 3)
    # That the federation was made is the oldest record, and of now.
    await store.audit.prune("fans", time.time())
    for at in (PLACE - 0.5, PLACE + 0.2, PLACE + 0.4):
        await publish(3600.0 * at)
    await publish(time.time())
    assert await counts.of(store, "fans", 3600, places) == [1, 2, 0, 1]
    assert set(asked) == {-1, 0, 1, 2}
    asked.clear()
    await publish(time.time())
    assert await counts.of(store, "fans", 3600, places) == [1, 2, 0, 2]
    assert set(asked) <= {1, 2}, "what came before is over"
    await store.audit.prune("fans", 3600.0 * (PLACE + 0.3))
    assert await counts.of(store, "fans", 3600, places) == [0, 1, 0, 2], "one of it is gone"
