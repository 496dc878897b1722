"""A soak: a fleet and its server, what is done to them, and what is found."""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.exchange.output import progress
from benchmarks.soak.checks import Acknowledgements, lost, wrong_sums
from benchmarks.soak.disk import SmallDisk
from benchmarks.soak.fleet import COLUMNS, LEFT, Device, Fleet
from benchmarks.soak.report import Memory
from benchmarks.soak.server import Server
from elmgrove import Basis, HiddenLayer
from elmgrove.federation.charter import Charter
from elmgrove.federation.policy import Terms

# Seconds between two looks, and between two lines on the screen.
_TICK, _LINE = 0.5, 5.0
#: In a round, at which part of it what is done.
_ROUND = 60.0


class Soak:
    """A fleet and its server, what is done to them, and what was found."""

    def __init__(self, folder: Path, agents: int, seconds: float) -> None:
        self._seconds = seconds
        self._random = random.Random(2)
        self.small = SmallDisk(folder / "small", megabytes=max(8, agents // 10))
        self.store = SmallDisk(folder / "store", megabytes=64)
        self.server = Server(self.store.path / "store.db", folder / "server.log")
        self.heard = Acknowledgements(folder / "heard")
        # No device is clipped: what the server tells is the sum of what it stores.
        terms = Terms(most_rows=None)
        layer = HiddenLayer(COLUMNS, 4, activation="identity", seed=1)
        self.charter = Charter("soak", Basis(layer, COLUMNS), terms=terms)
        self.server.start()
        self.server.wait()
        joining = {
            "exchange": f"{self.server.base}/{self.charter.name}",
            "token": self.server.found(self.charter),
        }
        self.fleet = Fleet(agents, folder, self.small, joining, str(folder / "heard"))
        self.sums = 0
        self.lost: set[str] = set()
        self.wrong: list[str] = []
        self.not_gone: list[str] = []
        self.bad_ends: list[Device] = []
        self.began = self.ended = (Memory(0.0, 0.0), Memory(0.0, 0.0))

    def run(self) -> None:
        """Works until the time is over, and checks all along and at the end."""
        while len(self.fleet.devices) < self.fleet.size:
            self.fleet.join()
        self._wait(lambda: len(self.heard.newest) >= 0.9 * self.fleet.size)
        self.began = self._memory()
        self._say("all have joined")
        begin, last = time.monotonic(), time.monotonic()
        plan, said = self._plan(begin), begin
        while time.monotonic() < begin + self._seconds:
            time.sleep(_TICK)
            now = time.monotonic()
            self.fleet.feed(now - last)
            self.fleet.disturb(now - last)
            last = now
            self._tend()
            while plan and now >= plan[0][0]:
                plan.pop(0)[1]()
            if now - said >= _LINE:
                self._say("at work")
                said = now
        self._finish()

    def _plan(self, begin: float) -> list[tuple[float, Callable[[], None]]]:
        """What is done when: in rounds of a minute, or of half the time where that is less."""
        length = min(_ROUND, self._seconds / 2)
        steps: list[tuple[float, Callable[[], None]]] = [
            (0.10, self.server.kill),
            (0.15, self.server.start),
            (0.25, self.small.fill),
            (0.40, self.check),
            (0.50, self.small.empty),
            (0.60, self.store.fill),
            (0.65, self.server.kill),
            (0.70, self.server.start),
            (0.80, self.store.empty),
            (0.95, self.check),
        ]
        rounds = int(self._seconds // length)
        return [
            (begin + (number + share) * length, step)
            for number in range(rounds)
            for share, step in steps
        ]

    def _tend(self) -> None:
        pid = self.server.pid
        self.small.hold(self.fleet.processes(small=True))
        self.store.hold([] if pid is None else [pid])
        self.server.tend(excused=self.store.is_full)
        self.fleet.tend()

    def check(self) -> None:
        """Compares what was acknowledged and some sums with the store, while all hold still."""
        self.server.wait()
        self.lost.update(lost(self.heard.newest, self.server.stored()))
        self.fleet.signal(signal.SIGSTOP)
        try:
            sums, wrong = wrong_sums(self.server, self.charter, self._random)
        finally:
            self.fleet.signal(signal.SIGCONT)
        self.sums += sums
        self.wrong += wrong
        self._say("checked")

    def _finish(self) -> None:
        self.small.empty()
        self.store.empty()
        self.server.start()
        self._tend()
        self.server.wait()
        self.fleet.settle()
        self.check()
        stored = self.server.stored()
        gone = [one.name for one in self.fleet.devices if one.doing == LEFT]
        self.not_gone = [name for name in gone if stored[name].blob is not None]
        self.ended = self._memory()
        self.bad_ends = self.fleet.stop()

    def close(self) -> None:
        """Ends all processes, and takes the small disks away."""
        self.fleet.signal(signal.SIGKILL)
        self.server.stop()
        for disk in (self.small, self.store):
            disk.empty()
            disk.close()

    def _memory(self) -> tuple[Memory, Memory]:
        agents = [one.pid for one in self.fleet.at_work()]
        return Memory.of([self.server.pid]), Memory.of(agents)

    def _wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 120.0
        while not condition() and time.monotonic() < end:
            self._tend()
            time.sleep(_TICK)

    def _say(self, what: str) -> None:
        fleet = self.fleet
        progress.print(
            f"{time.strftime('%H:%M:%S')} {what}: {len(fleet.at_work())} agents, killed "
            f"{fleet.kills} and the server {self.server.kills} times; acknowledged "
            f"{self.heard.count}, lost {len(self.lost)}; sums {self.sums}, wrong {len(self.wrong)}"
            f"{'; disk full' * (self.small.is_full or self.store.is_full)}",
            highlight=False,
            soft_wrap=True,
        )
