"""The server's metrics: what was done and is held, to whom they are shown, by which names."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from elmgrove.federation.charter import address_of
from elmgrove.server.metrics import TEXT, ServerMetrics
from elmgrove.server.store.fleet import FLEET_STATES
from elmgrove.server.store.store import open_store
from support.metrics import Scraped, documented
from support.reports import report, status
from support.serving import (
    ADMIN,
    Federation,
    Server,
    charter,
    refused,
    seeded_contribution,
    serving,
)


@pytest.fixture(name="fresh", autouse=True)
def fresh_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers in this process count what they hold at each scrape."""
    monkeypatch.setattr("elmgrove.server.metrics.StoreMetrics.FRESH", 0.0)


PUT = "/v1/federations/{federation}/contributions/{device}"


def scrape(server: Server, secret: str | None = ADMIN) -> Scraped:
    answer = server.ask("GET", "/metrics", secret)
    assert (answer.status_code, answer.headers["content-type"]) == (200, TEXT), answer.text
    return Scraped(answer.text)


def test_what_is_held_and_what_was_asked_is_counted(server: Server, fans: Federation) -> None:
    name, before = fans.charter.name, scrape(server)
    fans.put(seeded_contribution("fan-1", 1, 20))
    fans.put(seeded_contribution("fan-2", 2, 30))
    refused(fans.put(seeded_contribution("fan-1", 1, 20, epoch=3)), "outdated")
    fans.ask("DELETE", "/devices/fan-2", ADMIN)
    found = scrape(server)

    assert found("elmgrove_server_store_up") == 1
    assert found("elmgrove_server_devices", federation=name, key="valid") == 2
    assert found("elmgrove_server_devices", federation=name, key="revoked") == 1
    assert found("elmgrove_server_contributions", federation=name) == 1
    assert found("elmgrove_server_contributed_rows", federation=name) == 20
    assert found("elmgrove_server_contributed_bytes", federation=name) == len(
        seeded_contribution("fan-1", 1, 20).to_bytes()
    )
    newest = found("elmgrove_server_contributed_timestamp_seconds", federation=name)
    assert newest is not None
    assert 0 <= time.time() - newest < 600
    assert found("elmgrove_server_entries_total", federation=name) == 3, "two, and a departure"
    assert found("elmgrove_server_audit_records_total", federation=name) == len(server.audit(name))

    def more(metric: str, **labels: str) -> float:
        return (found(metric, **labels) or 0.0) - (before(metric, **labels) or 0.0)

    puts = {"route": PUT, "method": "PUT"}
    assert more("elmgrove_server_requests_total", status="2xx", **puts) == 2
    assert more("elmgrove_server_requests_total", status="4xx", **puts) == 1
    assert more("elmgrove_server_request_seconds_count", route=PUT) == 3
    assert more("elmgrove_server_refused_total", kind="outdated") == 1
    assert (
        more("elmgrove_server_received_bytes_total")
        > 3 * len(seeded_contribution("fan-1", 1).to_bytes()) / 2
    )
    assert more("elmgrove_server_sent_bytes_total") > 0
    assert more("elmgrove_server_store_seconds_count", operation="write") >= 3
    assert found("elmgrove_server_requests_at_work") == 1, "this one"


def test_devices_are_counted_by_how_they_are_doing(server: Server, fans: Federation) -> None:
    def tell(name: str, **told: Any) -> None:
        fields = report(name, status=status(**told)).fields
        where = f"/reports/{address_of(name)}"
        assert fans.ask("PUT", where, fans.keys[name], json=fields).status_code == 200

    tell("fan-1", event={"number": 1})
    tell("fan-2", state="changing", drift={"text": "flow fell"})
    for device in ("fan-1", "fan-1", "fan-2"):
        fans.ask("POST", f"/commands/{device}", ADMIN, json={"action": "accept"})
    found, name = scrape(server), fans.charter.name

    def counted() -> dict[str, float | None]:
        each = {"federation": name}
        return {
            state: found("elmgrove_server_devices_by_state", state=state, **each)
            for state in FLEET_STATES
        }

    none = dict.fromkeys(FLEET_STATES, 0.0)
    assert counted() == none | {"anomalous": 1, "changing": 1, "unreported": 1}
    assert found("elmgrove_server_devices_drifting", federation=name) == 1
    assert found("elmgrove_server_commands_waiting", federation=name) == 3
    fans.ask("DELETE", "/devices/fan-2", ADMIN)
    found = scrape(server)
    assert counted() == none | {"anomalous": 1, "revoked": 1, "unreported": 1}
    assert found("elmgrove_server_devices_drifting", federation=name) == 0


def test_what_no_route_takes_makes_one_series(server: Server) -> None:
    before = scrape(server)
    for number in range(3):
        assert server.ask("GET", f"/made-up-{number}").status_code == 404
    assert server.ask("BREW", "/v1/federations").status_code == 405
    found, series = scrape(server), {"route": "none", "method": "none", "status": "4xx"}
    was = before("elmgrove_server_requests_total", **series) or 0.0
    assert found("elmgrove_server_requests_total", **series) == was + 4


def test_all_that_is_shown_is_documented_and_all_that_is_documented_is_shown(database: str) -> None:
    with serving(database, open_metrics=True) as server:
        made = server.found(charter())
        made.enrol("fan-1")
        refused(server.ask("GET", made.path), "unauthorized")
        assert made.put(seeded_contribution("fan-1", 1)).status_code == 200
        assert scrape(server, None).shown == documented("The server") | documented("Of the process")


@pytest.mark.anyio
async def test_a_data_base_that_is_away_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    metrics = ServerMetrics()
    store = metrics.watched(await open_store(str(tmp_path / "store.db")))
    up = "elmgrove_server_store_up"
    assert Scraped((await metrics.text(store)).decode())(up) == 1
    with closing(sqlite3.connect(tmp_path / "store.db")) as behind_its_back:
        behind_its_back.execute("DROP TABLE device")
    found = Scraped((await metrics.text(store)).decode())
    assert (found(up), found("elmgrove_server_federations")) == (0, None)
    assert found("elmgrove_server_store_errors_total", operation="read") == 1
    await store.close()


@pytest.mark.anyio
async def test_what_is_held_is_counted_once_for_all_who_ask_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmgrove.server.metrics.StoreMetrics.FRESH", 3600.0)
    metrics = ServerMetrics()
    store = metrics.watched(await open_store(str(tmp_path / "store.db")))
    texts = await asyncio.gather(*(metrics.text(store) for _ in range(20)))
    assert all(b"elmgrove_server_federations 0.0" in text for text in texts)
    found = Scraped(texts[-1].decode())
    assert found("elmgrove_server_store_seconds_count", operation="read") == 1
    await store.close()
