"""An agent's metrics: a real agent counts its rows and tells its troubles, by documented names."""

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from elmgrove.device.metrics import AgentMetrics
from elmgrove.device.settings import Settings
from elmgrove.errors import BadInput, MissingExtra
from support.agents import Running, Start, address, append_rows
from support.factories import normal_rows, write_rows
from support.faults import full_for
from support.metrics import Scraped, documented
from support.ports import free_port
from support.serving import Federation, http_get


class Watched:
    """An agent, and what it shows."""

    def __init__(self, running: Running, port: int) -> None:
        self.running, self.url = running, f"http://127.0.0.1:{port}/metrics"

    def scrape(self) -> Scraped:
        answer = http_get(self.url, timeout=60)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return Scraped(answer.text)

    def until(self, condition: Callable[[Scraped], bool]) -> Scraped:
        """The first scrape for which this holds."""
        found: list[Scraped] = []

        def holds() -> bool:
            try:
                found.append(self.scrape())
            except httpx.TransportError:  # it has not begun to listen
                return False
            return condition(found[-1])

        self.running.until(holds)
        return found[-1]


@pytest.fixture(name="watched")
def watched_fixture(device: Start, tmp_path: Path) -> Callable[..., Watched]:
    """Starts an agent that follows 300 rows."""

    def start(**more: object) -> Watched:
        port = free_port()
        write_rows(tmp_path / "fan.csv", normal_rows(1, 300))
        shown = {"follow": True, "metrics": f"127.0.0.1:{port}", "watch_now": True}
        return Watched(device("fan", **shown, **more), port)

    return start


def counted(found: Scraped, name: str) -> float:
    return found.total(f"elmgrove_agent_{name}")


def test_rows_events_and_syncs_are_counted_by_documented_names(
    watched: Callable[..., Watched], federation: Federation, tmp_path: Path
) -> None:
    agent = watched(
        exchange=address(federation), token=federation.token, sync_seconds=0.1, save_rows=10
    )
    quiet = agent.until(
        lambda found: counted(found, "rows_read_total") == 300 and counted(found, "syncs_total") > 1
    )
    assert quiet("elmgrove_agent_score_count") == 300
    quantiles = [quiet("elmgrove_agent_score", quantile=q) for q in ("0.5", "0.9", "0.99", "1")]
    assert quantiles == sorted(quantiles)
    threshold = quiet("elmgrove_agent_threshold")
    assert threshold is not None
    assert quantiles[0] < threshold

    append_rows(tmp_path / "fan.csv", 50 + normal_rows(2, 20))
    with (tmp_path / "fan.csv").open("a") as file:
        file.write("no,row,at,all,of,these\n")
    anomalous = agent.until(
        lambda found: (
            counted(found, "rows_left_out_total") == 1 and found("elmgrove_agent_event_open") == 1
        )
    )
    assert counted(anomalous, "rows_read_total") == 320
    assert counted(anomalous, "rows_anomalous_total") >= counted(quiet, "rows_anomalous_total") + 20
    assert counted(anomalous, "events_total") >= 1
    assert anomalous("elmgrove_agent_disk_trouble") == 0
    for moment in ("synced", "saved"):
        at = anomalous(f"elmgrove_agent_{moment}_timestamp_seconds")
        assert at is not None
        assert 0 <= time.time() - at < 600
    assert anomalous.total("elmgrove_agent_state") == 1
    assert anomalous.shown == documented("The agent")


def test_an_agent_that_waits_for_its_federation_says_so(
    watched: Callable[..., Watched], federation: Federation
) -> None:
    lost = f"http://127.0.0.1:{free_port()}/{federation.charter.name}"
    agent = watched(exchange=lost, token=federation.token, sync_seconds=0.1)
    found = agent.until(lambda found: found("elmgrove_agent_state", state="waiting") == 1)
    assert found("elmgrove_agent_synced_timestamp_seconds") is None
    assert counted(found, "rows_read_total") == 0


def test_a_disk_that_takes_nothing_is_told_until_it_takes_something(
    watched: Callable[..., Watched], tmp_path: Path
) -> None:
    agent = watched(save_rows=10)
    agent.until(lambda found: found("elmgrove_agent_disk_trouble") == 0)
    with full_for(agent.running.process.pid, 1000):
        append_rows(tmp_path / "fan.csv", normal_rows(2, 20))
        agent.until(lambda found: found("elmgrove_agent_disk_trouble") == 1)
    agent.until(lambda found: found("elmgrove_agent_disk_trouble") == 0)


def test_an_address_that_is_none_or_taken_is_refused() -> None:
    with pytest.raises(BadInput, match=r"metrics: host:port, like 127.0.0.1:9190, not '9190'"):
        Settings(metrics="9190")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadInput, match=r"metrics: .* in use; choose another address"):
            AgentMetrics(f"127.0.0.1:{taken.getsockname()[1]}")


def test_without_its_extra_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtra, match=r"pip install 'elmgrove\[metrics\]'"):
        AgentMetrics("127.0.0.1:0")
