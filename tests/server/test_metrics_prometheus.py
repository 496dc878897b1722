"""A real Prometheus scrapes server and agent, and takes the rules and the panels' queries."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.agents import Start, address
from support.factories import normal_rows, write_rows
from support.metrics import ALERTS, PAGE, expressions
from support.pages import blocks
from support.ports import free_port
from support.serving import ADMIN, Server, charter, http_get, server_process, wait_until

pytestmark = pytest.mark.usefixtures("prometheus")


@pytest.fixture(name="server")
def server_fixture(tmp_path: Path) -> Iterator[Server]:
    with server_process(f"sqlite:///{tmp_path}/store.db") as (made, _):
        yield made


@contextmanager
def prometheus(folder: Path, config: dict[str, Any]) -> Iterator[str]:
    """The address of a Prometheus with this configuration, which is JSON and so YAML."""
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = free_port()
    log = (folder / "prometheus.log").open("wb")
    command = [
        *("prometheus", f"--config.file={folder}/prometheus.yml"),
        *(f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address=127.0.0.1:{port}"),
    ]
    with log, subprocess.Popen(command, stdout=log, stderr=log) as running:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: running.poll() is not None or is_ready(url))
            assert running.poll() is None, (folder / "prometheus.log").read_text()
            yield url
        finally:
            running.terminate()


def is_ready(url: str) -> bool:
    try:
        return http_get(f"{url}/-/ready", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def queried(url: str, expression: str) -> list[Any]:
    answer = http_get(f"{url}/api/v1/query", params={"query": expression}, timeout=60).json()
    assert answer["status"] == "success", (expression, answer)
    found: list[Any] = answer["data"]["result"]
    return found


def value(url: str, expression: str) -> float | None:
    found = queried(url, expression)
    return float(found[0]["value"][1]) if found else None


def test_prometheus_scrapes_both_and_takes_rules_and_queries(
    server: Server, device: Start, tmp_path: Path
) -> None:
    federation, agent_port = server.found(charter()), free_port()
    write_rows(tmp_path / "fan.csv", normal_rows(1, 300))
    device(
        "fan",
        follow=True,
        watch_now=True,
        metrics=f"127.0.0.1:{agent_port}",
        exchange=address(federation),
        token=federation.token,
        sync_seconds=0.2,
    )
    (tmp_path / "token").write_text(server.administrator("prometheus", "look"))
    shutil.copy(ALERTS, tmp_path / "alerts.yml")
    target = server.base.removeprefix("http://")
    config = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {
                "job_name": "elmgrove-server",
                "authorization": {"credentials_file": "token"},
                "static_configs": [{"targets": [target]}],
            },
            {
                "job_name": "elmgrove-agent",
                "static_configs": [{"targets": [f"127.0.0.1:{agent_port}"]}],
            },
        ],
    }
    with prometheus(tmp_path, config) as url:
        wait_until(lambda: value(url, "elmgrove_agent_rows_read_total") == 300)
        wait_until(lambda: (value(url, "elmgrove_server_contributed_rows") or 0.0) > 0)
        assert value(url, "sum(up)") == 2
        assert value(url, 'elmgrove_server_devices{key="valid"}') == 1
        assert value(url, 'elmgrove_agent_score{quantile="0.5"}') is not None
        wait_until(lambda: all(rule["health"] == "ok" for rule in rules(url)))
        assert len(rules(url)) == ALERTS.read_text().count("- alert: ")
        for expression in expressions():
            queried(url, expression)
    for text in (
        server.ask("GET", "/metrics", ADMIN).text,
        http_get(f"http://127.0.0.1:{agent_port}/metrics", timeout=60).text,
    ):
        promtool("check", "metrics", given=text)


def rules(url: str) -> list[dict[str, Any]]:
    groups = http_get(f"{url}/api/v1/rules", timeout=60).json()["data"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def promtool(*words: object, given: str | None = None) -> None:
    command = ["promtool", *map(str, words)]
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_examples() -> None:
    promtool("check", "rules", ALERTS)
    promtool("check", "config", "--syntax-only", ALERTS.with_name("prometheus.yml"))


def test_promtool_takes_what_the_page_shows(tmp_path: Path) -> None:
    shown = blocks(PAGE.read_text(), "yaml")
    assert len(shown) == 2
    for text in shown:
        (tmp_path / "prometheus.yml").write_text(text)
        promtool("check", "config", "--syntax-only", tmp_path / "prometheus.yml")


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    """By promtool's own tests of rules: a minute between two values of each series."""
    agent = '{job="elmgrove-agent",instance="fan"}'
    # The alert, a series, its values, and the moments before and after it fires.
    cases = [
        ("Event", "elmgrove_agent_event_open", "0 0 0 1 1", "2m", "3m"),
        ("AgentNoRows", "elmgrove_agent_rows_read_total", "0+1x9 9x40", "38m", "45m"),
        ("AgentNotSynced", "elmgrove_agent_synced_timestamp_seconds", "60x90", "60m", "62m"),
        ("AgentDown", "up", "1 1 1 0x10", "7m", "9m"),
    ]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series + agent, "values": values}],
            "promql_expr_test": [
                {"expr": _firing(name), "eval_time": before, "exp_samples": []},
                {
                    "expr": f"count({_firing(name)})",
                    "eval_time": after,
                    "exp_samples": [{"labels": "{}", "value": 1}],
                },
            ],
        }
        for name, series, values, before, after in cases
    ]
    path = tmp_path / "tests.yml"
    path.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": tests}))
    promtool("test", "rules", path)


def _firing(name: str) -> str:
    return f'ALERTS{{alertname="Elmgrove{name}",alertstate="firing"}}'
