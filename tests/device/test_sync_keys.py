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
from elmgrove.federation.terms import DAY, Terms
from support.agents import address, append_rows
from support.at_work import counts, joined
from support.factories import normal_rows, write_rows
from support.serving import Federation, Server, charter

pytestmark = pytest.mark.usefixtures("own_folder")
KEY = Path("fan.key")


def run(federation: Federation, **more: float) -> None:
    """One run of the agent, over some more rows, with a sync at its end."""
    X = normal_rows(1, 20)
    if KEY.exists():
        append_rows(Path("fan.csv"), X)
    else:
        write_rows(Path("fan.csv"), X)
    Agent(Settings(**joined(federation, "fan", **more))).run()


def grow_old(days: float) -> str:
    """Lets the key be so old, and gives it."""
    written = time.time() - days * DAY
    os.utime(KEY, (written, written))
    return KEY.read_text()


def expect_worthless(federation: Federation, key: str) -> None:
    opened = HttpExchange(address(federation), "fan", key=key)
    with opened as exchange, pytest.raises(Unauthorized):
        _ = exchange.charter


def test_a_key_older_than_the_setting_is_changed(federation: Federation) -> None:
    run(federation, rotate_key_days=7.0)
    young = grow_old(6.9)
    run(federation, rotate_key_days=7.0)
    assert KEY.read_text() == young
    old = grow_old(7.1)
    run(federation, rotate_key_days=7.0)
    assert KEY.read_text() != old
    assert KEY.stat().st_mode & 0o777 == 0o600
    assert counts(federation) == {"fan": 60}
    expect_worthless(federation, old)
    told = ["key offered", "key changed"]
    assert federation.told(*told) == [("device fan", act) for act in told]


def test_where_keys_expire_they_are_changed_in_time_without_a_setting(
    running_server: Server,
) -> None:
    federation = running_server.found(charter(terms=Terms(key_days=30.0)))
    run(federation)
    young = grow_old(19.9)
    run(federation)
    assert KEY.read_text() == young
    grow_old(20.1)
    run(federation)
    assert KEY.read_text() != young
    expect_worthless(federation, young)


def test_a_key_that_can_not_be_kept_is_not_used(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(federation)
    old = grow_old(9)

    def full(*_: object, **more: object) -> None:
        raise OSError(28, "No space left on device", "fan.key")

    with monkeypatch.context() as disk, caplog.at_level(logging.WARNING):
        disk.setattr("elmgrove.exchange.http.write", full)
        run(federation, rotate_key_days=7.0)
    assert caplog.text.count("the key of this device could not be changed") == 1
    assert KEY.read_text() == old
    assert counts(federation) == {"fan": 40}, "it syncs nevertheless"
    run(federation, rotate_key_days=7.0)
    assert KEY.read_text() != old
    expect_worthless(federation, old)
