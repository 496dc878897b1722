"""Tables of a released version become those of this one, with all that is in them."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from elmgrove.federation.audit import require_unbroken
from elmgrove.server.store.admins import AdministratorRow
from elmgrove.server.store.federations import DeviceRow, FederationRow
from elmgrove.server.store.store import Store, open_store
from support.places import GOLDEN
from support.reports import event, minute, report
from support.serving import TABLES, done_behind, opened

pytestmark = pytest.mark.anyio

FANS = FederationRow("fans", {"inputs": 3}, 1e-3, ("fan-*",), "t0", 12.5)
ANNA = AdministratorRow("anna", "look", "h-anna", 10.0, 5e9)


@pytest.fixture(name="golden")
def golden_fixture(tmp_path: Path) -> Path:
    """A store that version 4 wrote."""
    return Path(shutil.copy(GOLDEN / "store-4.db", tmp_path / "store.db"))


def tables(path: Path) -> dict[str, str]:
    """Each table and index as it was made, on one line."""
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        return {name: " ".join(sql.split()) for name, sql in made}


async def require_all(store: Store) -> None:
    """All that the older release wrote is there."""
    assert await store.federations.all() == [FANS]
    assert await store.federations.devices("fans") == [
        DeviceRow("fan-1", "k1", False, 5.5, 9e9),
        DeviceRow("fan-2", "k2", True, 6.5),
    ]
    found = await store.contributions.blob("fans", "fan-1")
    assert found is not None
    assert found[1] == b"what fan-1 knows"
    assert await store.admins.all() == [ANNA]
    records = await store.audit.records("fans", 100)
    assert [one.act for one in records] == ["made", "joined", "joined", "published", "revoked"]
    require_unbroken(records)
    require_unbroken(await store.audit.records("", 100))


async def test_what_an_older_release_wrote_is_there_and_what_is_new_works(golden: Path) -> None:
    for again in range(2):
        async with opened(str(golden)) as store:
            if not again:
                await require_all(store)
            told = report(minutes=(minute(),), events=(event(1),))
            await store.reports.put("fans", told, 100.0)
            assert await store.admins.set_password("anna", "$argon2id$")
            page = await store.fleet.page("fans", now=100.0)
            assert [row.state for row in page.rows] == ["watching", "revoked"]
            assert len(await store.audit.records("", 100)) == 2 + again


async def test_tables_that_grew_are_those_that_are_made(golden: Path, tmp_path: Path) -> None:
    for path in (golden, tmp_path / "new.db"):
        async with opened(str(path)):
            pass
    grown, made = tables(golden), tables(tmp_path / "new.db")
    assert set(TABLES) | {"audit"} <= set(grown)
    assert grown == made


async def be_of_version_4(url: str) -> None:
    """Makes the tables those that version 4 had."""
    new = ("device_status", "report", "hour", "event", "command", "device_changes")
    new += ("session_number", "probe")
    older = [f"DROP TABLE {name}" for name in new]
    older += ["ALTER TABLE administrator DROP COLUMN password"]
    older += ["ALTER TABLE federation ADD COLUMN alarm TEXT NOT NULL DEFAULT 'unknown'"]
    older += ["ALTER TABLE federation DROP COLUMN merged"]
    older += ["ALTER TABLE federation ADD COLUMN agenda TEXT"]
    older += ["CREATE TABLE rounds (federation TEXT PRIMARY KEY)"]
    older += [
        f"CREATE TABLE {name} (federation TEXT REFERENCES rounds)"
        for name in ("rounds_held", "reply", "report")
    ]
    older += ["UPDATE elmgrove_schema SET version = 4"]
    await done_behind(url, *older)


async def test_servers_that_start_together_upgrade_tables_of_version_4_once(database: str) -> None:
    async with opened(database) as store:
        assert await store.federations.create(FANS)
        assert await store.admins.add(ANNA)
    await be_of_version_4(database)
    stores = await asyncio.gather(*(open_store(database) for _ in range(4)))
    for store in stores:
        assert [one.name for one in await store.federations.all()] == ["fans"]
        assert await store.admins.all() == [ANNA]
        assert await store.reports.get("fans", "fan-1") is None
        assert await store.reports.minutes("fans", "fan-1", 0.0, 1e12) == []
    for store in stores:
        await store.reports.put("fans", report(minutes=(minute(),)), 1.0)
        await store.close()
