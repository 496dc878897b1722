"""Processes to be killed while they change a device: forked, with everything imported."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from elmgrove.cli.running import Device
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings

CONTEXT = multiprocessing.get_context("forkserver")
# Not this module: the server does not look where tests are.
CONTEXT.set_forkserver_preload(["elmgrove.cli.running", "elmgrove.exchange.http"])


def ask(state: str, action: str, words: dict[str, Any], told: Connection) -> None:
    """Asks a device; ``told`` hears when it begins and when it is done."""
    told.send("begins")
    Device(Path(state)).ask(action, **words)
    told.send("done")


def work(settings: dict[str, Any]) -> None:
    """Runs an agent."""
    Agent(Settings(**settings)).run()
