"""Many devices that sync at once: when they do, and what came of it."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import Timing
from benchmarks.exchange.client import Answer, DeviceConnection
from benchmarks.exchange.fleet import Fleet
from benchmarks.rows import SEED

_PATIENCE = 120.0
_GOOD = ("200", "304")


class Uploads:
    """What devices will publish, sealed beforehand into a file: sealing is the devices' work."""

    def __init__(self, path: Path, fleet: Fleet, devices: Sequence[int]) -> None:
        self.devices = devices
        self._path = path
        self._ends = [0]
        with path.open("wb") as file:
            for device in devices:
                file.write(fleet.contribution(device))
                self._ends.append(file.tell())

    def blob(self, number: int) -> bytes:
        """Reads the contribution of the device at this place in ``devices``."""
        start, end = self._ends[number : number + 2]
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)


class Traffic:
    """Syncs (PUT, then GET merged) against one or several servers, and their times."""

    def __init__(self, uploads: Uploads, ports: Sequence[int], etags: dict[int, str]) -> None:
        self._uploads = uploads
        self._ports = ports
        # Of the sum that each device has; it is told which one it got.
        self._etags = etags
        self._times: dict[str, list[float]] = {"PUT": [], "GET merged": []}
        self._answers: Counter[str] = Counter()
        self._bytes = 0
        self._seconds = 0.0

    def record(self) -> dict[str, Any]:
        """Gives the result, times in ms; an error is a status or the name of an exception."""
        timings = {kind: asdict(Timing.of(times)) for kind, times in self._times.items() if times}
        errors = {what: n for what, n in self._answers.items() if what.split()[-1] not in _GOOD}
        return {
            "seconds": self._seconds,
            "requests a second": self._answers.total() / self._seconds,
            "MB a second": self._bytes / self._seconds / 1e6,
            "timings": timings,
            "answers": dict(self._answers),
            "errors": errors,
        }

    async def spread(self, seconds: float) -> None:
        """Begins all syncs at random moments within so many seconds, each for itself."""
        moments = np.sort(np.random.default_rng(SEED).uniform(0.0, seconds, self.syncs))
        begin = time.perf_counter()

        async def later(number: int, moment: float) -> None:
            await asyncio.sleep(moment - (time.perf_counter() - begin))
            await self._sync(number)

        await asyncio.gather(*(later(n, float(moment)) for n, moment in enumerate(moments)))
        self._seconds = time.perf_counter() - begin

    async def at_full_speed(self, connections: int) -> None:
        """Does all syncs, so many at a time: each begins when another has ended."""
        numbers = iter(range(self.syncs))
        begin = time.perf_counter()
        await asyncio.gather(*(self._one_by_one(numbers) for _ in range(connections)))
        self._seconds = time.perf_counter() - begin

    @property
    def syncs(self) -> int:
        """The number of syncs to do."""
        return len(self._uploads.devices)

    async def _one_by_one(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            await self._sync(number)

    async def _sync(self, number: int) -> None:
        device, blob = self._uploads.devices[number], self._uploads.blob(number)
        port = self._ports[number % len(self._ports)]
        kind = "PUT"
        try:
            async with asyncio.timeout(_PATIENCE), DeviceConnection(device, port) as connection:
                self._note(kind, await connection.put(blob))
                kind = "GET merged"
                answer = await connection.merged(self._etags.get(device, ""))
                self._note(kind, answer)
                self._etags[device] = answer.etag
                self._bytes += len(blob) + answer.size
        except (OSError, EOFError, TimeoutError) as error:
            self._answers[f"{kind} {type(error).__name__}"] += 1

    def _note(self, kind: str, answer: Answer) -> None:
        self._times[kind].append(1e3 * answer.seconds)
        self._answers[f"{kind} {answer.status}"] += 1
