"""Logs of server and agent as lines of JSON."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from elmgrove.cli.logs import JsonLines
from support.agents import Running, Start, append_rows
from support.commands import Elmgrove, one_clear_line
from support.factories import normal_rows, write_rows
from support.ports import free_port
from support.serving import answers, http_get


def lines_of(running: Running) -> list[dict[str, Any]]:
    """All lines that are complete, each of which is an object of JSON."""
    whole = [line for line in running.log.splitlines(keepends=True) if line.endswith("\n")]
    found = [json.loads(line) for line in whole]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in found)
    return found


def logged(running: Running, text: str) -> dict[str, Any]:
    """The first line that says this, once there is one."""
    running.logs(text)
    running.until(lambda: any(text in line["message"] for line in lines_of(running)))
    return next(line for line in lines_of(running) if text in line["message"])


def test_each_line_of_a_server_is_an_object(start: Start) -> None:
    port = free_port()
    running = start("serve", "--port", port, "--log-format", "json", "--log-level", "debug")
    line = logged(running, "Serving elmgrove.db on")
    assert (line["level"], line["logger"]) == ("info", "elmgrove.server")
    running.until(lambda: answers(port))
    assert http_get(f"http://127.0.0.1:{port}/health", timeout=60).status_code == 200
    assert logged(running, "GET /health")["level"] == "debug"
    assert running.stop() in (0, -15)
    assert lines_of(running)


def test_each_line_of_an_agent_is_an_object_and_an_event_has_fields(
    device: Start, tmp_path: Path
) -> None:
    write_rows(tmp_path / "fan.csv", normal_rows(1, 300))
    append_rows(tmp_path / "fan.csv", 50 + normal_rows(2, 20))
    running = device("fan", follow=True, watch_now=True, log_format="json")
    line = logged(running, "opened at")
    assert (line["level"], line["logger"]) == ("warning", "elmgrove.device")
    assert line["fields"]["news"] == "opened"
    assert line["fields"]["event"]["rows"] >= 1
    assert line["fields"]["event"]["causes"]
    assert running.stop() == 0
    assert lines_of(running)


def test_another_format_is_refused_before_anything_is_made(
    elmgrove: Elmgrove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = one_clear_line(elmgrove("serve", "--log-format", "xml"))
    assert "--log-format: text or json, not 'xml'" in told
    told = one_clear_line(elmgrove("device", "run", "--log-format", "xml"))
    assert "log_format: text or json, not 'xml'" in told
    assert not list(tmp_path.iterdir())


def test_what_json_can_not_hold_is_no_reason_to_lose_a_line() -> None:
    record = logging.makeLogRecord({"msg": "so far", "levelname": "INFO", "far": float("inf")})
    assert json.loads(JsonLines().format(record))["fields"] == {"text": "{'far': inf}"}


def test_a_traceback_is_in_its_line() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    line = JsonLines().format(record)
    assert "\n" not in line
    assert "ValueError: broken" in json.loads(line)["exception"]
