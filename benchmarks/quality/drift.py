"""Drift: rows until a change is noticed, whether its kind, sensor and onset are told right.

And false alarms in 10⁵ rows of no change. Fans are Yamada and Matsutani's own experiment: learned
in a silent room, then a noisy one. Simulated machines have the laws of the battery, and rows that
remember the last one. What the watch allows, and how sure it must be, was chosen on simulated rows
of other laws and seeds (pumps of 4 sensors; 4 and 6 columns with memories of 0 to 0.99), with the
fans at medium speed in sight; the other fans and these machines are what it is reported on.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from benchmarks.quality.centroids import WINDOWS, Centroids
from benchmarks.quality.machines import Machine, machine
from benchmarks.quality.windows import Matrix
from elmgrove import Detector, FalseAlarmRate
from elmgrove.detector.drift import CHANGE, SLOW, SPIKE, Drift
from elmgrove_papers.data import recordings
from elmgrove_papers.data.fans import NORMAL

FILE = "cooling_fan.npz"
FANS, SEEN = "fans, silent → noisy", "fans at medium speed, silent → noisy"
CALM = "no change"
OWN = "Elmgrove"
THEIRS = {f"centroids, W = {window}": window for window in WINDOWS}
#: Rows that a fan learns, and of the same recording before the change; rows of a block.
FAN_ROWS, FAN_BLOCK = 200, 10
#: Rows of no change, and how many at a time.
CALM_ROWS, _AT_ONCE = 100_000, 5_000
#: Rows that a machine learns, before a change, and after it.
LEARNED, BEFORE, AFTER = 2000, 600, 2400
#: A step is so many residual σ, a ramp one σ in so many rows, a spike so many rows of a step.
STEP, RAMP, SPIKE_ROWS = 6.0, 100, 10
_SENSORS = 8
_MEMORIES = (0.0, 0.9, 0.95)
_SHAPES = {
    CHANGE: np.where(np.arange(BEFORE + AFTER) < BEFORE, 0.0, STEP),
    SLOW: np.maximum(np.arange(BEFORE + AFTER) - BEFORE, 0.0) / RAMP,
    SPIKE: np.where((np.arange(BEFORE + AFTER) - BEFORE) // SPIKE_ROWS == 0, STEP, 0.0),
}


class DriftCase(NamedTuple):
    """Rows that a method learns, and what happens in those that follow: a kind, or no change."""

    set: str
    name: str
    kind: str


class SmallestError(NamedTuple):
    """What a method made of a case.

    ``rows`` counts those from the change to its being told, None if it never was; ``told`` counts
    how often a lasting change was. ``kind`` and ``sensor`` say whether they were told right, and
    ``onset`` by how many rows it was told wrong; None where the method tells no such thing.
    """

    case: DriftCase
    method: str
    rows: int | None
    told: int
    kind: bool | None = None
    sensor: bool | None = None
    onset: int | None = None


def cases(folder: Path | None, quick: bool) -> list[DriftCase]:
    """Lists all cases; fans only where their file is there."""
    rooms = [(speed, room) for speed in "hlm" for room in ("silentA", "silentB")]
    fans = [] if folder is None or quick else rooms
    seeds = range(20, 22 if quick else 40)
    machines = [f"{_SENSORS} sensors, memory {memory}" for memory in _MEMORIES]
    made = [
        DriftCase(SEEN if speed == "m" else FANS, f"{speed} {room}", kind)
        for speed, room in fans
        for kind in (CHANGE, CALM)
    ]
    for name in machines:
        made += [DriftCase(name, str(seed), kind) for seed in seeds for kind in _SHAPES]
        if not quick:
            made += [DriftCase(name, str(seed), CALM) for seed in seeds[:3]]
    return made


def tried(case: DriftCase, folder: Path) -> list[SmallestError]:
    """Lets each method follow the rows of a case."""
    if case.set in (FANS, SEEN):
        return _on_fan(case, folder)
    return _on_machine(case)


def _on_fan(case: DriftCase, folder: Path) -> list[SmallestError]:
    speed, room = case.name.split()
    known = {
        one.room: one.rows
        for one in recordings(folder)
        if (one.size, one.speed, one.damage) == ("12cm", speed, NORMAL)
    }
    if case.kind == CALM:
        first, *later = (dealt(known[room], seed) for seed in range(CALM_ROWS // _AT_ONCE + 1))
        return _counted(case, first[:FAN_ROWS], lambda: iter(later), 1)
    train, calm = known[room][:FAN_ROWS], known[room][FAN_ROWS:]
    rows = np.vstack([calm, known["noisy"]])
    return _compared(case, train, rows, len(calm), None, 1)


def dealt(rows: Matrix, seed: int) -> Matrix:
    """Rows like these in an order of chance, block by block, of which none comes twice.

    Each is mixed of two, so that mean and covariance stay: a model of 512 columns that learns the
    same few rows again and again knows nothing but them.
    """
    rng, mean = np.random.default_rng((1, seed)), rows.mean(axis=0)
    starts = rng.integers(0, len(rows) - FAN_BLOCK + 1, (2, _AT_ONCE // FAN_BLOCK, 1))
    one, other = (rows[(some + np.arange(FAN_BLOCK)).ravel()] - mean for some in starts)
    share = np.repeat(rng.uniform(0.2, 0.8, _AT_ONCE // FAN_BLOCK), FAN_BLOCK)[:, None]
    return np.asarray(mean + np.sqrt(share) * one + np.sqrt(1.0 - share) * other)


def _on_machine(case: DriftCase) -> list[SmallestError]:
    law = machine("shared load", _SENSORS, int(case.name))
    memory = float(case.set.split()[-1])
    rng = np.random.default_rng((int(case.name), 7))
    many = LEARNED + (CALM_ROWS if case.kind == CALM else BEFORE + AFTER)
    X = _remembering(law, many, memory, rng)
    train, rows = X[:LEARNED], X[LEARNED:]
    if case.kind == CALM:
        return _counted(case, train, lambda: iter(np.split(rows, CALM_ROWS // _AT_ONCE)), None)
    sensor = int(rng.integers(_SENSORS))
    rows = rows.copy()
    rows[:, sensor] += law.residual[sensor] * _SHAPES[case.kind]
    return _compared(case, train, rows, BEFORE, sensor, None)


def _remembering(law: Machine, rows: int, memory: float, rng: np.random.Generator) -> Matrix:
    """Rows of a machine's law that remember so much of the last one."""
    steps = rng.normal(size=(rows, len(law.mean)))
    states = lfilter([np.sqrt(1 - memory**2)], [1, -memory], steps, axis=0)
    return np.asarray(law.mean + states @ np.linalg.cholesky(law.covariance).T)


class Watching:
    """Elmgrove with its watch, which observes rows: nothing need be shown before it may speak."""

    def __init__(self, train: Matrix, window: int | None) -> None:
        self._detector = Detector.for_data(
            train,
            window="auto" if window is None else window,
            warmup=0,
            threshold=FalseAlarmRate(0.01, 0.0),
        )
        self._detector.learn_many(train)

    def found(self, rows: Matrix) -> list[tuple[int, Drift]]:
        """Takes in rows; lists what was told of a lasting change, and with which of them."""
        told = ((row, one.drift) for row, one in enumerate(self._detector.observe_many(rows)))
        return [(row, one) for row, one in told if one is not None and one.kind != SPIKE]


def _compared(
    case: DriftCase,
    train: Matrix,
    rows: Matrix,
    change: int,
    sensor: int | None,
    window: int | None,
) -> list[SmallestError]:
    told = Watching(train, window).found(rows)
    found = [_judged(case, told, change, sensor)]
    scaled = _scaled(train)
    for name, size in THEIRS.items():
        known = Centroids(scaled(train), size).found(scaled(rows))
        first = next((row - change + 1 for row in known if row >= change), None)
        found.append(SmallestError(case, name, first, len(known)))
    return found


def _judged(
    case: DriftCase, told: list[tuple[int, Drift]], change: int, sensor: int | None
) -> SmallestError:
    after = [(row, drift) for row, drift in told if row >= change]
    if not after:
        return SmallestError(case, OWN, None, len(told))
    row, drift = after[0]
    named = None
    if sensor is not None:
        named = bool(drift.sensors) and drift.sensors[0].sensor == f"column {sensor}"
    onset = row + 1 - drift.rows - change
    return SmallestError(
        case, OWN, row - change + 1, len(told), drift.kind == case.kind, named, abs(onset)
    )


def _counted(
    case: DriftCase, train: Matrix, rows: Callable[[], Iterator[Matrix]], window: int | None
) -> list[SmallestError]:
    """Counts what is told of rows in which nothing changes."""
    own, scaled = Watching(train, window), _scaled(train)
    found = [SmallestError(case, OWN, None, sum(len(own.found(some)) for some in rows()))]
    for name, size in THEIRS.items():
        theirs = Centroids(scaled(train), size)
        found.append(
            SmallestError(case, name, None, sum(len(theirs.found(scaled(some))) for some in rows()))
        )
    return found


class Told(NamedTuple):
    """What one method made of all cases of a set and a kind; None where it tells no such thing.

    ``found`` is the share in which a lasting change was told after it began, ``rows`` the median of
    rows until then; ``kind`` and ``sensor`` are shares of those, ``onset`` a median in rows.
    ``false`` counts what was told where nothing lasting changed, in 10⁵ rows of it.
    """

    set: str
    kind: str
    method: str
    cases: int
    found: float
    rows: float | None
    kind_right: float | None
    sensor_right: float | None
    onset: float | None
    false: float | None


def together(found: Sequence[SmallestError]) -> list[Told]:
    """Puts cases together: a line for each set, kind and method."""
    keys = dict.fromkeys((one.case.set, one.case.kind, one.method) for one in found)
    return [
        _told(*key, [one for one in found if (one.case.set, one.case.kind, one.method) == key])
        for key in keys
    ]


def _told(name: str, kind: str, method: str, found: Sequence[SmallestError]) -> Told:
    hits = [one for one in found if one.rows is not None]
    return Told(
        name,
        kind,
        method,
        len(found),
        len(hits) / len(found),
        _median([one.rows for one in hits]),
        _share([one.kind for one in hits]),
        _share([one.sensor for one in hits]),
        _median([one.onset for one in hits]),
        sum(one.told for one in found) / len(found) if kind == CALM else None,
    )


def _share(known: Sequence[bool | None]) -> float | None:
    told = [one for one in known if one is not None]
    return sum(told) / len(told) if told else None


def _median(known: Sequence[int | None]) -> float | None:
    told = [one for one in known if one is not None]
    return float(median(told)) if told else None


def _scaled(train: Matrix) -> Callable[[Matrix], Matrix]:
    """Scales columns to mean 0 and deviation 1, by the rows learned."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    unit = np.where(deviation > 0.0, deviation, 1.0)
    return lambda rows: np.asarray((rows - mean) / unit)
