"""Chains in the store: written with what they tell, never changed, deleted from the oldest on."""

from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest

from elmgrove.errors import BadFile, BadInput
from elmgrove.federation.audit import AuditRecord, require_unbroken
from elmgrove.server.store import audit
from elmgrove.server.store.contributions import StoredEntry
from elmgrove.server.store.store import Store
from support.serving import (
    ADMIN,
    FANS,
    Federation,
    Server,
    done_behind,
    enrol,
    put,
    refused,
    seeded_contribution,
)

pytestmark = pytest.mark.anyio


async def audited(store: Store, federation: str = "fans", **more: Any) -> list[AuditRecord]:
    return await store.audit.records(federation, 1000, **more)


async def test_what_did_not_happen_is_not_told(store: Store) -> None:
    def refuse(held: StoredEntry | None) -> bool:
        raise BadInput("no")

    with pytest.raises(BadInput):
        await put(store, "a", successor=refuse)
    await put(store, "a")
    await put(store, "a", successor=lambda held: False)
    # The transaction fails after all of it was said: nothing of it stays.
    with suppress(ValueError):
        async with store.database.write("fans") as tx:
            await audit.record(tx, "fans", "server", "tried")
            raise ValueError
    assert not await store.federations.create(FANS)
    assert not await store.federations.offer_key("fans", "nobody's", "k2", 2.0, None)
    assert not await store.federations.revoke("fans", "nobody")
    assert [one.act for one in await audited(store)] == ["made", "published"]


AGAIN = "SELECT federation, 4, at, actor, act, detail, hash FROM audit WHERE number = 3"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET actor = 'nobody' WHERE number = 2",
        "DELETE FROM audit WHERE number = 2",
        f"INSERT INTO audit {AGAIN}",
    ],
)
async def test_a_change_behind_the_stores_back_is_found(
    store: Store, database: str, change: str
) -> None:
    await put(store, "a")
    await put(store, "b")
    await done_behind(database, change)
    with pytest.raises(BadFile):
        require_unbroken(await audited(store))


async def test_pages_filters_and_names(store: Store) -> None:
    for n in range(6):
        await put(store, f"fan-{n % 2}", actor=f"device fan-{n % 2}")
    await store.audit.add("fans", "join token", "refused", {"reason": 'no "device":"fan-1" here'})
    await enrol(store, "fan-1")
    records = await audited(store)
    assert [one.number for one in records] == list(range(1, 10))
    assert await store.audit.records("fans", 3) == records[-3:]
    assert await store.audit.records("fans", 3, after=2) == records[2:5]
    assert await audited(store, after=9) == []
    about = await audited(store, device="fan-1")
    assert [one.number for one in about] == [3, 5, 7, 9], "not what only speaks of it"
    assert await audited(store, since=records[4].at) == records[4:]
    assert await audited(store, since=records[4].at, until=records[7].at) == records[4:7]
    assert await audited(store, until=records[2].at, before=2) == records[:1]
    assert await audited(store, since=records[-1].at + 1) == []
    assert await audited(store, "vans") == []
    assert await audited(store, "vans", since=0.0) == []
    begin, end = records[2].at, records[5].at
    assert await store.audit.of_act("fans", "published", begin, end, 2) == [records[4], records[3]]
    assert await store.audit.count("fans", "published", begin, end) == 3


async def test_the_oldest_are_deleted_and_the_rest_is_whole(store: Store) -> None:
    for n in range(9):
        await put(store, f"{n}")
    before = await audited(store)
    await store.audit.prune("fans", before[0].at)
    assert await audited(store) == before, "none is older"
    await store.audit.prune("fans", before[4].at)
    assert await audited(store) == before[4:]
    # The last one stays, so that the next one follows it.
    await store.audit.prune("fans", before[-1].at + 1)
    await store.audit.prune("nobody", before[-1].at + 1)
    assert await audited(store) == before[-1:]
    await put(store, "a")
    records = await audited(store)
    assert [one.number for one in records] == [10, 11]
    assert require_unbroken(records) == records[-1]


# Over HTTP: read page by page, kept after a deletion


def test_the_story_of_a_federation(server: Server, fans: Federation) -> None:
    fans.put(seeded_contribution("fan-1", 1))
    assert fans.put(seeded_contribution("fan-1", 1)).status_code == 200, "the same again"
    fans.ask("DELETE", "/contributions/fan-1", fans.keys["fan-1"])
    fans.put(seeded_contribution("fan-2", 2))
    fans.ask("DELETE", "/devices/fan-2", ADMIN)
    fans.ask("POST", "/devices", ADMIN, json={"name": "fan-2"})
    fans.ask("POST", "/token", ADMIN)
    fans.ask("DELETE", "", ADMIN)
    root = "administrator root"
    assert fans.told() == [
        (root, "made"),
        *[("join token", "joined")] * 3,
        ("device fan-1", "published"),
        ("device fan-1", "left"),
        ("device fan-2", "published"),
        (root, "revoked"),
        (root, "left"),
        (root, "readmitted"),
        (root, "token renewed"),
        (root, "deleted"),
    ]
    records = server.audit(fans.charter.name)
    require_unbroken(records)
    sent = seeded_contribution("fan-1", 1).to_bytes()
    published = {"device": "fan-1", "epoch": 20, "rows": 20.0, "size": len(sent)}
    assert records[4].detail == published | {"digest": sha256(sent).hexdigest()}
    assert records[1].detail == {"device": "fan-1", "expires": None}
    server.found(fans.charter)
    assert [one.act for one in server.audit(fans.charter.name)][-2:] == ["deleted", "made"]


def test_it_is_read_page_by_page(server: Server, fans: Federation) -> None:
    name = fans.charter.name
    everything = server.audit(name)
    assert [one.number for one in everything] == [1, 2, 3, 4]
    assert server.audit(name, limit="2") == everything[-2:]
    assert server.audit(name, limit="2", after="1") == everything[1:3]
    assert server.audit(name, device="fan-2") == everything[2:3]
    assert server.audit(name, since=repr(everything[3].at)) == everything[3:]
    assert server.audit("no such") == []


@pytest.mark.parametrize(
    "query",
    ["limit=-1", "limit=x", "after=1e9", "since=", "since=1.2.3", "federation=%00", "device=%00"],
)
def test_a_question_that_can_not_be_read_is_refused(server: Server, query: str) -> None:
    problem = refused(server.ask("GET", f"/v1/audit?{query}", ADMIN), "malformed")
    assert query.partition("=")[0] in problem["detail"]
