"""Many live agents in few processes: each is a real agent with its own state, key and rows.

A process for each would be what devices have: 80 MB each, so 80 GB for a thousand. Here hundreds
share one, each in its thread. All that an agent does is its own code, from the file that it follows
to its syncs; what a process has once (the interpreter and its libraries) is shared. It looks for
new rows once in two seconds instead of ten times a second: a thousand that look so often need more
than a core, which a thousand devices have and this machine has not.
"""

import logging
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Queue
from random import Random
from threading import Thread
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.dashboard.told_fleet import LAYER
from benchmarks.exchange.fleet import TOKEN, name_of
from benchmarks.rows import rows
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings

#: Rows that each agent finds at its start, enough to earn its alarms; seconds between two more.
WARM_UP, SECONDS_A_ROW = 400, 5.0
#: One agent in so many has an event soon after the start; so many of its rows are anomalous.
ANOMALOUS_EACH, ANOMALOUS_ROWS = 25, 15
_POOL = 2048
# Seconds between two starts in one process: each learns a while before it rests.
_START = 0.5
# Seconds that an agent rests beside what it does by itself.
_REST = 1.9
#: How messages begin by which an agent says that something went wrong with a server.
TROUBLES = ("sync failed", "how the device")


@dataclass(frozen=True)
class AgentPlan:
    """Which agents a process runs, for which federation, and how often each syncs."""

    numbers: range
    url: str
    folder: Path
    seconds: float


class CalmAgent(Agent):
    """An agent that rests longer when there is nothing to do."""

    def _handle(self, item: Any) -> None:
        super()._handle(item)
        if item is None:
            time.sleep(_REST)


class LiveAgent:
    """One agent in a thread of its own, and the file of rows that it follows."""

    def __init__(self, number: int, plan: AgentPlan) -> None:
        name = name_of(number)
        self._number, self._given = number, 0
        self._rows = plan.folder / f"{name}.csv"
        self.measure(WARM_UP + (ANOMALOUS_ROWS if number % ANOMALOUS_EACH == 0 else 0))
        settings = Settings(
            name=name,
            state=str(plan.folder / f"{name}.elm"),
            source=str(self._rows),
            follow=True,
            exchange=plan.url,
            token=TOKEN,
            verdicts="",
            sync_seconds=plan.seconds,
        )
        self._agent = CalmAgent(settings)
        self._thread = Thread(target=self._agent.run, name=name)

    def measure(self, count: int) -> None:
        """Writes so many rows more."""
        pool = rows(_POOL)
        with self._rows.open("a") as file:
            for _ in range(count):
                row = pool[(37 * self._number + self._given) % _POOL, : LAYER.inputs].tolist()
                row[1] += float(0 <= self._given - WARM_UP < ANOMALOUS_ROWS and count > 1)
                file.write(",".join(f"{one:.6f}" for one in row) + "\n")
                self._given += 1

    def start(self) -> None:
        """Lets it begin: it joins, learns what is there, and syncs."""
        self._thread.start()

    def stop(self) -> None:
        """Lets it end after the row that it is working on."""
        self._agent.stop()

    def join(self) -> None:
        """Waits until it has ended."""
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether it is at work."""
        return self._thread.is_alive()


class Heard(logging.Handler):
    """Counts what agents log: syncs, and messages of each kind from warnings on."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.syncs = 0
        self.warnings = Counter[str]()
        self.examples = dict[str, str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Counts a message."""
        message = str(record.msg)
        self.syncs += message.startswith("sync: ")
        if record.levelno >= logging.WARNING:
            self.warnings[message] += 1
            self.examples.setdefault(message, record.getMessage()[:300])


def run_agents(plan: AgentPlan, told: "Queue[Any]", end: Event) -> None:
    """Runs agents until told to end: the main function of a process.

    Tells when all have begun, and at the end what they did.
    """
    heard = Heard()
    for name in ("elmgrove.device", "elmgrove.exchange"):
        logging.getLogger(name).setLevel(logging.INFO)
        logging.getLogger(name).addHandler(heard)
        logging.getLogger(name).propagate = False
    with threadpool_limits(1, "blas"):
        agents = [LiveAgent(number, plan) for number in plan.numbers]
        for agent in agents:
            # As those that were started at different times: not all sync at once.
            agent.start()
            end.wait(max(plan.seconds, _START * len(agents)) / len(agents))
        told.put("ready")
        _feed(agents, end)
        ended = sum(not agent.is_alive for agent in agents)
        told.put(
            {
                "syncs": heard.syncs,
                "ended": ended,
                "warnings": dict(heard.warnings),
                "examples": heard.examples,
                "processor s": time.process_time(),
            }
        )
        for agent in agents:
            agent.stop()
        for agent in agents:
            agent.join()


def _feed(agents: list[LiveAgent], end: Event) -> None:
    """Lets the agents' devices measure, one after another in a random order."""
    order = list(agents)
    Random(1).shuffle(order)
    while not end.is_set():
        for agent in order:
            agent.measure(1)
            if end.wait(SECONDS_A_ROW / len(order)):
                return
