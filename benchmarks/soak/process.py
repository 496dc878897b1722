"""What runs in processes of its own: an agent, its leaving, and the server.

They are real ones. Only an agent's exchange is wrapped: it says what was acknowledged.
"""

import ctypes
import hashlib
import logging
import multiprocessing
import os
import signal
import socket
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.exchange.base import Exchange
from elmgrove.exchange.session import Session, keyfile, open_exchange
from elmgrove.federation.contribution import Contribution, Entry
from elmgrove.federation.member import Member
from elmgrove.server.app import listen
from elmgrove.storage.disk import load, locked, save

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["benchmarks.soak.process", "elmgrove.exchange.http"])
_DIE_WITH_PARENT = 1


class Watched:
    """An exchange that tells a socket of each entry that was acknowledged."""

    def __init__(self, exchange: Exchange, told: str) -> None:
        self._exchange = exchange
        self._told = told
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def publish(self, entry: Entry) -> None:
        """Publishes, and tells that it returned: the server has answered that it holds it."""
        self._exchange.publish(entry)
        content = hashlib.sha256(entry.to_bytes()).hexdigest()
        said = content if isinstance(entry, Contribution) else "left"
        self._socket.sendto(f"{entry.origin} {entry.epoch} {said}".encode(), self._told)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)


class WatchedAgent(Agent):
    """An agent whose exchange is watched."""

    told = ""

    def _opened_exchange(self, name: str) -> Exchange | None:
        exchange = super()._opened_exchange(name)
        return None if exchange is None else Watched(exchange, self.told)


def fork(target: Any, log: Path, *arguments: Any) -> BaseProcess:
    """Starts one of the functions below as a process, which ends with this one at the latest."""
    process = CONTEXT.Process(target=_run, args=(target, str(log), arguments), daemon=True)
    process.start()
    return process


def run_agent(settings: dict[str, Any], told: str) -> None:
    """Runs an agent until SIGTERM."""
    agent = WatchedAgent(Settings(**settings))
    agent.told = told
    signal.signal(signal.SIGTERM, lambda *_: agent.stop())
    agent.run()


def leave(settings: dict[str, Any], told: str) -> None:
    """Takes a device out of its federation, as ``elmgrove device leave`` does."""
    state = Path(settings["state"])
    with locked(state):
        member = load(state, Member.from_bytes)
        exchange = open_exchange(settings["exchange"], member.name, keyfile=keyfile(state))
        watched: Any = Watched(exchange, told)
        with Session(member, watched, save=lambda member: save(state, member)) as session:
            session.leave()


def run_server(store: str, admin: str, port: int) -> None:
    """Serves until SIGTERM."""
    listen(f"sqlite:///{store}", admin, port=port)


def _run(target: Any, log: str, arguments: tuple[Any, ...]) -> None:
    # The forks' parent ends with the soak, however that ends, and takes them along.
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    target(*arguments)
