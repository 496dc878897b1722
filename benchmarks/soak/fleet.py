"""The fleet of a soak: agents that join, are killed, started again, leave and come back."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.soak.disk import SmallDisk
from benchmarks.soak.process import fork, leave, run_agent

COLUMNS = 6
#: One device in so many has its state on the small disk.
_ON_SMALL_DISK = 5
# How often an agent is killed, and leaves, a second.
_KILLED, _LEAVES = 1 / 100, 1 / 300
#: What a device is doing.
AT_WORK, KILLED, STOPPING, LEAVING, LEFT = "at work", "killed", "stopping", "leaving", "left"


@dataclass
class Device:
    """A device, the process that works for it, and when something is to be done with it next."""

    number: int
    settings: dict[str, Any]
    rows: Path
    log: Path
    small: bool
    doing: str = LEFT
    due: float = 0.0
    process: BaseProcess | None = None
    chance: Random = field(default_factory=Random)

    @property
    def name(self) -> str:
        """Its name in the federation."""
        return str(self.settings["name"])

    @property
    def pid(self) -> int | None:
        """Its process; None while there is none."""
        alive = self.process is not None and self.process.is_alive()
        return self.process.pid if alive and self.process is not None else None

    def write_rows(self, count: int) -> None:
        """Measures so many rows: each device has a normal of its own."""
        level = self.number % 7
        lines = (
            ",".join(f"{self.chance.gauss(level, 1.0):.6f}" for _ in range(COLUMNS)) + "\n"
            for _ in range(count)
        )
        with self.rows.open("a") as file:
            file.writelines(lines)


class Fleet:
    """Agents in processes of their own; about so many are at work at any time."""

    def __init__(
        self, size: int, folder: Path, disk: SmallDisk, joining: dict[str, Any], told: str
    ) -> None:
        self.size = size
        self.devices: list[Device] = []
        self.kills = self.joined = self.left = 0
        #: Devices whose agent ended though nobody asked it to.
        self.ended: list[Device] = []
        self._folder, self._disk = folder, disk
        self._joining, self._told = joining, told
        # Seconds between two syncs: a server on the same machine has to bear all of them.
        self._seconds = max(2.0, size / 20)
        self._random = Random(1)

    def at_work(self) -> list[Device]:
        """Those that should be running, and are."""
        return [one for one in self.devices if one.doing == AT_WORK and one.pid is not None]

    def processes(self, *, small: bool | None = None) -> list[int]:
        """All processes, or those with their state on the small disk."""
        wanted = [one for one in self.devices if small is None or one.small == small]
        return [pid for one in wanted if (pid := one.pid) is not None]

    def join(self) -> None:
        """Lets one more device begin."""
        number = len(self.devices) + 1
        small = number % _ON_SMALL_DISK == 0
        name, home = f"device-{number:05d}", self._disk.path if small else self._folder
        settings = {
            "name": name,
            "state": str(home / f"{name}.elm"),
            "source": str(self._folder / f"{name}.csv"),
            "follow": True,
            "verdicts": str(home / f"{name}.jsonl"),
            "only": "events",
            # One in three merges all others into its model, as the papers do.
            "merged": number % 3 == 1,
            "sync_seconds": self._seconds,
            "save_seconds": 5.0,
            "save_rows": 20,
            **self._joining,
        }
        log = self._folder / f"{name}.log"
        device = Device(number, settings, Path(str(settings["source"])), log, small)
        device.chance.seed(number)
        device.write_rows(40)
        self.devices.append(device)
        self.joined += 1
        self._start(device)

    def feed(self, seconds: float) -> None:
        """Lets each device measure as many rows as it does in this time."""
        for device in self.devices:
            if device.doing != LEFT:
                device.write_rows(max(1, round(2.0 * seconds)))

    def disturb(self, seconds: float) -> None:
        """Kills and stops some, as many as fit to this time."""
        working = self.at_work()
        for device in working:
            chance = self._random.random() / seconds
            if chance < _KILLED:
                self.kills += 1
                _send(device, signal.SIGKILL)
                device.doing, device.due = KILLED, time.monotonic() + self._random.uniform(0, 3)
            elif chance < _KILLED + _LEAVES:
                _send(device, signal.SIGTERM)
                device.doing = STOPPING

    def tend(self) -> None:
        """Takes the next step with each device whose time it is."""
        for device in self.devices:
            self._step(device)
        missing = self.size - sum(device.doing != LEFT for device in self.devices)
        for _ in range(min(missing, 5)):
            if not self._come_back():
                self.join()

    def _step(self, device: Device) -> None:
        if device.pid is not None:
            return
        code = None if device.process is None else device.process.exitcode
        if device.doing == AT_WORK:
            self.ended.append(device)
            self._start(device)
        elif device.doing == KILLED and time.monotonic() >= device.due:
            self._start(device)
        elif device.doing == STOPPING:
            if code:
                # It could not save: its disk is full. It is asked again later.
                self._start(device)
            else:
                device.doing = LEAVING
                device.process = fork(leave, device.log, device.settings, self._told)
        elif device.doing == LEAVING:
            if code:
                # The server is down, or the disk full.
                device.process = fork(leave, device.log, device.settings, self._told)
            else:
                device.doing, device.due = LEFT, time.monotonic() + self._random.uniform(5, 60)
                self.left += 1

    def _come_back(self) -> bool:
        """Lets a device that left join again; says whether there is one whose time it is."""
        for device in self.devices:
            if (
                device.doing == LEFT
                and time.monotonic() >= device.due
                and self._random.random() < 0.5
            ):
                self._start(device)
                return True
        return False

    def _start(self, device: Device) -> None:
        device.doing = AT_WORK
        device.process = fork(run_agent, device.log, device.settings, self._told)
        if self._disk.is_full and device.small and device.pid is not None:
            self._disk.hold([device.pid])

    def settle(self) -> None:
        """Lets those that are on their way out leave, and those that were killed work again."""
        for device in self.devices:
            device.due = 0.0
        end = time.monotonic() + 60.0
        while time.monotonic() < end:
            for device in self.devices:
                self._step(device)
            if all(device.doing in (AT_WORK, LEFT) for device in self.devices):
                return
            time.sleep(0.1)

    def signal(self, number: int) -> None:
        """Sends a signal to all processes."""
        for device in self.devices:
            _send(device, number)

    def stop(self) -> list[Device]:
        """Ends all; gives those that did not end well."""
        self.signal(signal.SIGTERM)
        bad = []
        for device in self.devices:
            if device.process is not None:
                device.process.join(60.0)
                if device.doing == AT_WORK and device.process.exitcode != 0:
                    bad.append(device)
        return bad


def _send(device: Device, number: int) -> None:
    # It may end at any moment, and its parent has waited for it then.
    if (pid := device.pid) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
