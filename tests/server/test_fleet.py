"""A fleet at a glance, in the store: sorted, searched and counted alike on each data base."""

import time
from dataclasses import replace
from typing import Any

import pytest

from elmgrove.errors import NotFound
from elmgrove.federation.commands import Command
from elmgrove.server.store.fleet import (
    ANOMALOUS,
    FLEET_STATES,
    REVOKED,
    SILENT,
    SORTS,
    UNREPORTED,
    FleetPage,
    FleetRow,
)
from elmgrove.server.store.store import Store
from support.reports import report, status
from support.serving import FANS, enrol

pytestmark = pytest.mark.anyio


async def publish(store: Store, name: str, rows: float, at: float = 50.0) -> None:
    await store.contributions.put("fans", name, 1, rows, b"x", at, successor=lambda held: True)


async def tell(store: Store, name: str, at: float, **told: Any) -> None:
    await store.reports.put("fans", report(name, status=status(**told)), at)


async def fleet(store: Store, **asked: Any) -> FleetPage:
    return await store.fleet.page("fans", **{"now": 1000.0, **asked})


async def names(store: Store, **asked: Any) -> list[str]:
    return [row.name for row in (await fleet(store, **asked)).rows]


@pytest.fixture
async def mixed(store: Store) -> Store:
    """One device in each state, and an open event and a drift among them."""
    await enrol(store, "a", "B", "c", "d", "e", "f", "g")
    await tell(store, "a", 990.0, state="learning", learned=5)
    await tell(store, "B", 980.0, state="watching", learned=900, event={"number": 1})
    await tell(store, "c", 985.0, state="changing", learned=70, drift={"text": "x"})
    await tell(store, "d", 100.0, state="watching", learned=80)
    await publish(store, "e", 300.0)
    await publish(store, "B", 800.0)
    await tell(store, "f", 995.0)
    await tell(store, "g", 975.0, state="watching", learned=1000)
    await store.federations.revoke("fans", "f")
    return store


async def test_each_device_is_shown_with_what_is_known_of_it(mixed: Store) -> None:
    page = await fleet(mixed)
    assert page.rows == [
        FleetRow("B", 5.0, ANOMALOUS, 980.0, 900, True, False, 800.0, False),
        FleetRow("a", 5.0, "learning", 990.0, 5, False, False, None, False),
        FleetRow("c", 5.0, "changing", 985.0, 70, False, True, None, False),
        FleetRow("d", 5.0, SILENT, 100.0, 80, False, False, None, False),
        FleetRow("e", 5.0, UNREPORTED, 50.0, None, False, False, 300.0, False),
        FleetRow("f", 5.0, REVOKED, 995.0, 1200, False, False, None, False),
        FleetRow("g", 5.0, "watching", 975.0, 1000, False, False, None, False),
    ]
    assert page.total == 7
    assert page.counts == dict.fromkeys(FLEET_STATES, 1)


async def test_who_left_has_no_rows_and_who_learns_or_comes_at_no_time_is_well(
    mixed: Store,
) -> None:
    await mixed.contributions.leave("fans", "e")
    # An event may be open when a device begins to learn again, for another rate, say.
    await tell(mixed, "a", 990.0, state="learning", learned=5, event={"number": 1})
    await tell(mixed, "g", 1.0, sync_seconds=None)
    found = {row.name: row for row in (await fleet(mixed)).rows}
    assert (found["e"].rows, found["e"].left) == (None, True)
    assert found["e"].seen == pytest.approx(time.time(), abs=60.0)
    assert (found["a"].state, found["a"].event) == ("learning", True)
    assert found["g"].state == "watching"


@pytest.mark.parametrize(
    ("sort", "up", "down"),
    [
        ("name", "Bacdefg", "gfedcaB"),
        ("state", "Bcdeagf", "fgaedcB"),
        ("seen", "edgBcaf", "facBgde"),
        ("learned", "acdBgfe", "fgBdcae"),
        ("event", "acdfgBe", "Bacdfge"),
        ("drift", "Badfgce", "cBadfge"),
        ("rows", "eBacdfg", "Beacdfg"),
    ],
)
async def test_devices_are_sorted_and_what_is_not_known_is_last(
    mixed: Store, sort: str, up: str, down: str
) -> None:
    assert await names(mixed, sort=sort) == list(up)
    assert await names(mixed, sort=sort, descending=True) == list(down)


async def test_pages_are_parts_of_one_order(mixed: Store) -> None:
    for sort in SORTS:
        whole = await names(mixed, sort=sort)
        parts = [await names(mixed, sort=sort, limit=2, offset=n) for n in (0, 2, 4, 6)]
        assert [name for part in parts for name in part] == whole
        assert (await fleet(mixed, sort=sort, limit=2)).total == 7


async def test_devices_are_found_by_state(mixed: Store) -> None:
    for state, name in zip(FLEET_STATES, ("B", "c", "d", "e", "a", "g", "f"), strict=True):
        page = await fleet(mixed, state=state)
        assert [row.name for row in page.rows] == [name]
        assert page.total == 1
        assert sum(page.counts.values()) == 7, "the others are counted all the same"
    page = await fleet(mixed, state="no such state")
    assert (page.rows, page.total) == ([], 0)


async def test_devices_are_found_by_a_part_of_their_name(store: Store) -> None:
    await enrol(store, "Pump-7 West", "pump_70%", "Fän", "FÄN", "a\\b", "fan'--")
    for search, found in (
        ("pump", ["Pump-7 West", "pump_70%"]),
        ("P-7 W", ["Pump-7 West"]),
        ("_", ["pump_70%"]),
        ("%", ["pump_70%"]),
        ("\\", ["a\\b"]),
        ("'--", ["fan'--"]),
        ("än", ["Fän"]),
        ("Än", ["FÄN"]),
        ("nothing", []),
    ):
        page = await fleet(store, search=search)
        assert [row.name for row in page.rows] == found, search
        assert (page.total, sum(page.counts.values())) == (len(found), len(found))
    assert await names(store, search="pump", state=UNREPORTED, limit=1, offset=1) == ["pump_70%"]
    assert await names(store, search="pump", state="watching") == []


async def test_federations_do_not_mix(mixed: Store) -> None:
    assert await mixed.federations.create(replace(FANS, name="cars"))
    await enrol(mixed, "a", federation="cars")
    page = await mixed.fleet.page("cars", now=1000.0)
    assert [(row.name, row.state) for row in page.rows] == [("a", UNREPORTED)]
    with pytest.raises(NotFound):
        await mixed.fleet.page("vans", now=1.0)
    with pytest.raises(NotFound):
        await mixed.fleet.marker("vans")


async def test_a_federation_without_devices_has_an_empty_page(store: Store) -> None:
    assert await fleet(store) == FleetPage([], 0, dict.fromkeys(FLEET_STATES, 0))


async def test_whatever_changes_is_noticed(store: Store) -> None:
    seen = [await store.fleet.marker("fans")]
    for change in (
        enrol(store, "a"),
        tell(store, "a", 100.0),
        # Also by a server whose clock stands still.
        tell(store, "a", 100.0),
        publish(store, "a", 10.0),
        store.reports.ask("fans", "a", Command("e-1", "accept", {}, "anna", 1.0), actor="server"),
        store.contributions.leave("fans", "a"),
        store.contributions.clear("fans", "a"),
        store.federations.revoke("fans", "a"),
    ):
        assert await store.fleet.marker("fans") == seen[-1]
        await change
        assert await store.fleet.marker("fans") not in seen
        seen.append(await store.fleet.marker("fans"))
