"""The agent changes its key when it is old, and syncs whether or not that works."""

import logging
import os
import time
from pathlib import Path

import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.errors import Unauthorized
from elmgrove.exchange.http import HttpExchange
from elmgrove.federation.policy import DAY, Terms
from support.agents import address, append_rows, counts, joined
from support.factories import normal_rows, write_rows
from support.serving import Federation, Server, charter

pytestmark = pytest.mark.usefixtures("own_folder")
KEY = Path("fan.key")


def run(federation: Federation) -> None:
    """One run of the agent, over some more rows, with a sync at its end."""
    X = normal_rows(1, 20)
    if KEY.exists():
        append_rows(Path("fan.csv"), X)
    else:
        write_rows(Path("fan.csv"), X)
    Agent(Settings(**joined(federation, "fan"))).run()


def grow_old(days: float) -> str:
    """Lets the key be so old, and gives it."""
    written = time.time() - days * DAY
    os.utime(KEY, (written, written))
    return KEY.read_text()


def expect_worthless(federation: Federation, key: str) -> None:
    opened = HttpExchange(address(federation), "fan", key=key)
    with opened as exchange, pytest.raises(Unauthorized):
        _ = exchange.charter


def test_a_key_is_changed_in_time_before_it_expires(running_server: Server) -> None:
    federation = running_server.found(charter(terms=Terms(key_days=30.0)))
    run(federation)
    young = grow_old(19.9)
    run(federation)
    assert KEY.read_text() == young
    old = grow_old(20.1)
    run(federation)
    assert KEY.read_text() != old
    assert KEY.stat().st_mode & 0o777 == 0o600
    assert counts(federation) == {"fan": 60}
    expect_worthless(federation, old)
    told = ["key offered", "key changed"]
    assert federation.told(*told) == [("device fan", act) for act in told]


def test_a_key_that_can_not_be_kept_is_not_used(
    running_server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    federation = running_server.found(charter(terms=Terms(key_days=12.0)))
    run(federation)
    old = grow_old(9)

    def full(*_: object, **more: object) -> None:
        raise OSError(28, "No space left on device", "fan.key")

    with monkeypatch.context() as disk, caplog.at_level(logging.WARNING):
        disk.setattr("elmgrove.exchange.http.write", full)
        run(federation)
    assert caplog.text.count("the key of this device could not be changed") == 1
    assert KEY.read_text() == old
    assert counts(federation) == {"fan": 40}, "it syncs nevertheless"
    run(federation)
    assert KEY.read_text() != old
    expect_worthless(federation, old)
