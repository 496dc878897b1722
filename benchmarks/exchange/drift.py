"""How far a running sum drifts from a full sum, over very many replacements."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from benchmarks.exchange.output import progress
from benchmarks.rows import SEED, Matrix
from elmgrove import Evidence
from elmgrove.federation.sums import RunningSum

DEVICES = 100
CHECKS = 10
#: One replacement in so many is by a giant; the next one replaces it again.
GIANT_EACH = 1000
GIANT = 1e8


class Plain:
    """A sum kept up to date in the obvious way."""

    def __init__(self, first: Evidence) -> None:
        self.U, self.V = first.U.copy(), first.V.copy()

    def add(self, evidence: Evidence, sign: float) -> None:
        """Adds (1) or removes (-1) one device."""
        self.U += sign * evidence.U
        self.V += sign * evidence.V


@dataclass
class Drift:
    """The largest differences seen so far."""

    running: float = 0.0
    plain: float = 0.0


def drift_of(pool: list[Evidence], replacements: int, *, giants: bool) -> Drift:
    """Replaces contributions among a few devices, each by one of the pool, and notes the drift."""
    held = list(islice(cycle(pool), DEVICES))
    running, plain = RunningSum(pool[0].basis), Plain(Evidence.sum(held))
    for evidence in held:
        running.add(evidence)
    drift = Drift()
    for number, (device, new) in enumerate(_replacements(pool, replacements, giants), 1):
        old, held[device] = held[device], new
        running.add(new)
        running.remove(old)
        plain.add(new, 1.0)
        plain.add(old, -1.0)
        if number % (replacements // CHECKS) == 0:
            _check(drift, running, plain, held)
            progress.print(f"  {number} replacements: {drift.running:.1e}, plain {drift.plain:.1e}")
    return drift


def _replacements(pool: list[Evidence], count: int, giants: bool) -> Iterator[tuple[int, Evidence]]:
    """Which device is replaced, and by what."""
    rng = np.random.default_rng(SEED)
    # As if each row had been seen so many times.
    giant = pool[0].weighted(GIANT)
    device = 0
    for number in range(count):
        phase = number % GIANT_EACH if giants else GIANT_EACH
        if phase != 1:
            device = int(rng.integers(DEVICES))
        yield device, giant if phase == 0 else pool[int(rng.integers(len(pool)))]


def _check(drift: Drift, running: RunningSum, plain: Plain, held: list[Evidence]) -> None:
    full, kept = Evidence.sum(held), running.evidence()
    drift.running = max(drift.running, _difference(kept.U, kept.V, full))
    drift.plain = max(drift.plain, _difference(plain.U, plain.V, full))
    numbers = ((kept.energy, full.energy), (kept.count, full.count))
    drift.running = max(drift.running, *(abs(a - b) / b for a, b in numbers))


def _difference(U: Matrix, V: Matrix, right: Evidence) -> float:
    pairs = ((U, right.U), (V, right.V))
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
