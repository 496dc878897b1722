"""A run: pieces of work that are independent of each other, done by a few processes."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.quality import (
    after_learn,
    battery,
    drift,
    first_day,
    fleets,
    mixtures,
    pairs,
    poison,
    silencing,
)
from benchmarks.quality.battery import Case, Flagged
from benchmarks.quality.kinds import MIXTURES
from benchmarks.quality.machines import KINDS, SENSORS
from benchmarks.quality.measure import Quality, Stream, measured, streamed
from benchmarks.quality.methods import Entry, Own, entries
from benchmarks.quality.sets import ARCHIVES, SETS, Placed, devices_of

#: The one set whose devices are also observed as streams.
STREAMED = "SMD"
BATTERY = "simulated"
FLEETS = "fleets"
MIXED = "mixtures"
POISON = "poison"
DRIFT = "drift"
FIRST_DAY = "first day"
AFTER_LEARN = "after learn"
SILENCING = "silencing"
#: What a user is promised, measured on real machines: a section of the page by itself.
PROMISES = (FIRST_DAY, AFTER_LEARN, SILENCING)
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Plan:
    """How much is tried."""

    quick: bool
    #: Seeds of methods that depend on one: of Elmgrove's, and of peers.
    own_seeds: int
    peer_seeds: int
    #: Of the battery.
    sensors: Sequence[int]
    seeds: int
    orders: int
    seeds_with_peers: int


FULL = Plan(False, 5, 2, SENSORS, 10, 3, 3)
QUICK = Plan(True, 2, 1, (1, 4, 16), 2, 2, 1)


@dataclass(frozen=True)
class Record:
    """What one method made of one device, with one seed."""

    set: str
    device: str
    method: str
    seed: int
    quality: Quality
    #: The rows in a window, where Elmgrove chose.
    window: int | None = None


@dataclass
class Results:
    """All that a run measured."""

    records: list[Record] = field(default_factory=list)
    streams: dict[str, Stream] = field(default_factory=dict)
    battery: list[Flagged] = field(default_factory=list)
    choices: list[mixtures.Choice] = field(default_factory=list)
    poisoned: list[poison.Poisoned] = field(default_factory=list)
    drifts: list[drift.SmallestError] = field(default_factory=list)
    days: list[first_day.Day] = field(default_factory=list)
    taught: list[after_learn.Taught] = field(default_factory=list)
    beside: list[silencing.Beside] = field(default_factory=list)
    #: What failed, and with which error.
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Results") -> None:
        """Adds the results of a piece of work."""
        self.records += other.records
        self.streams |= other.streams
        self.battery += other.battery
        self.choices += other.choices
        self.poisoned += other.poisoned
        self.drifts += other.drifts
        self.days += other.days
        self.taught += other.taught
        self.beside += other.beside
        self.failures += other.failures

    def as_json(self) -> dict[str, Any]:
        """Gives all numbers as JSON holds them."""
        return {
            "real": [asdict(one) | {"quality": one.quality._asdict()} for one in self.records],
            "streams": {name: one._asdict() for name, one in self.streams.items()},
            "simulated": battery.as_json(self.battery),
            "mixtures": [asdict(one) for one in self.choices],
            "poison": [one._asdict() | one.case._asdict() for one in self.poisoned],
            "drift": [one._asdict() | one.case._asdict() for one in self.drifts],
            FIRST_DAY: [one._asdict() | one.case._asdict() for one in self.days],
            AFTER_LEARN: [one._asdict() | one.case._asdict() for one in self.taught],
            SILENCING: [one.as_json() for one in self.beside],
            "failures": self.failures,
        }


@dataclass(frozen=True)
class BucketPart:
    """A piece of work: what it is part of, and the call that does it, in any process."""

    part: str
    call: Callable[..., Results]
    arguments: tuple[Any, ...]


def pieces(plan: Plan, folder: Path | None, only: Sequence[str]) -> list[BucketPart]:
    """Lists the work of a run; ``only`` names sets, and none means all that are there."""
    found = [*_real(plan, folder), *_paired(plan, folder), *_in_fleets(plan, folder)]
    found += [*_simulated(plan), *_in_mixtures(plan, folder), *_poisoned(plan, folder)]
    found += [*_drifting(plan, folder), *_first_days(plan, folder)]
    found += [*_after_learn(plan, folder), *_silencing(plan, folder)]
    return [piece for piece in found if not only or piece.part in only]


def missing(folder: Path | None) -> list[str]:
    """Names the sets whose files are not in the folder."""
    kept = [one.name for one in SETS.values() if not one.found(folder)]
    kept += [one.name for one in pairs.SETS.values() if not _is_there(folder, one.file)]
    others = {name: file for name, file in ARCHIVES.items() if name not in SETS}
    return kept + [name for name, file in others.items() if not _is_there(folder, file)]


def names() -> list[str]:
    """Names all parts of a run."""
    return [*SETS, *pairs.SETS, FLEETS, BATTERY, MIXED, POISON, DRIFT, *PROMISES]


def done(work: Sequence[BucketPart], jobs: int) -> Iterator[tuple[BucketPart, Results]]:
    """Does all work in so many processes of one thread each, and yields what each piece gave."""
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    # Peers warn of constant columns, once for each; what comes of them is in the numbers.
    silent = partial(warnings.simplefilter, "ignore")
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=silent) as pool:
        waiting = {pool.submit(piece.call, *piece.arguments): piece for piece in work}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def _is_there(folder: Path | None, file: str) -> bool:
    return folder is not None and (folder / file).exists()


def _real(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    for one in SETS.values():
        if one.found(folder):
            known = devices_of(one.name, folder or Path(), plan.quick)
            for device in known:
                yield BucketPart(one.name, _on_device, (plan, folder or Path(), one.name, device))
            # Each process reads what it needs; this one needs names alone.
            devices_of.cache_clear()


def _paired(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    for one in pairs.SETS.values():
        if folder is not None and _is_there(folder, one.file):
            for case in pairs.cases(one.name, plan.quick):
                yield BucketPart(one.name, _on_pair, (case, folder))


def _in_fleets(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    for name in fleets.FLEETS:
        # A quick run has no fleet of fans: one room.
        if folder is not None and SETS[name].found(folder) and not plan.quick:
            for case in fleets.cases(name, folder, plan.quick):
                yield BucketPart(FLEETS, _on_fleet, (case, folder, plan.quick))
            devices_of.cache_clear()


def _simulated(plan: Plan) -> Iterator[BucketPart]:
    for kind in KINDS:
        for sensors in plan.sensors:
            for seed in range(plan.seeds):
                peers = seed < plan.seeds_with_peers
                case = Case(kind, sensors, seed, plan.orders, peers, not plan.quick)
                yield BucketPart(BATTERY, _on_machine, (case,))


def _in_mixtures(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    for title, one in MIXTURES.items():
        if one.file is None or (not plan.quick and _is_there(folder, one.file)):
            for seed in one.seeds[: 1 if plan.quick else None]:
                yield BucketPart(MIXED, _on_mixture, (title, seed, folder or Path(), plan.quick))


def _poisoned(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    if folder is not None and SETS[poison.FLEET].found(folder) and not plan.quick:
        for case in poison.cases(folder):
            yield BucketPart(POISON, _on_poison, (case, folder))
        devices_of.cache_clear()


def _drifting(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    fans = folder if _is_there(folder, drift.FILE) else None
    for case in drift.cases(fans, plan.quick):
        yield BucketPart(DRIFT, _on_drift, (case, folder or Path()))


def _first_days(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    for case in first_day.cases(folder, plan.quick) if folder is not None else ():
        yield BucketPart(FIRST_DAY, _on_first_day, (case, folder))


def _after_learn(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    for case in after_learn.cases(folder, plan.quick):
        yield BucketPart(AFTER_LEARN, _on_after_learn, (case, folder or Path()))


def _silencing(plan: Plan, folder: Path | None) -> Iterator[BucketPart]:
    for name, file in silencing.FLEETS.items():
        if _is_there(folder, file) and not (plan.quick and name == silencing.FANS):
            yield BucketPart(SILENCING, _on_silencing, (name, folder))


def _seeds(entry: Entry, plan: Plan) -> Iterable[int]:
    if not entry.seeded:
        return range(1)
    return range(plan.own_seeds if entry.name.startswith("Elmgrove") else plan.peer_seeds)


def _on_device(plan: Plan, folder: Path, name: str, device: str) -> Results:
    rows, found = devices_of(name, folder, plan.quick)[device], Results()
    for entry in entries(rows.series):
        for seed in _seeds(entry, plan):
            try:
                method = entry.make(seed)
                quality = measured(method, rows.train, rows.test, rows.labels)
            except Exception as error:  # a peer's failure is a result, and not the run's end
                found.failures.append(f"{entry.name} on {name}, {device}: {error!r}"[:300])
            else:
                window = method.watcher.window if isinstance(method, Own) else None
                found.records.append(Record(name, device, entry.name, seed, quality, window))
    if name == STREAMED:
        found.streams[device] = streamed(rows, seed=0)
    return found


def _on_pair(case: pairs.PairCase, folder: Path) -> Results:
    found = pairs.compared(case, folder)
    made = [Record(case.set, case.device, m, case.trial, quality) for m, quality in found.items()]
    return Results(records=made)


def _on_fleet(case: fleets.FleetCase, folder: Path, quick: bool) -> Results:
    found = fleets.compared(case, folder, quick)
    device = f"{case.device} from {case.start:.0%}"
    return Results(records=[Record(case.title, device, m, 0, q) for m, q in found.items()])


def _on_mixture(title: str, seed: int, folder: Path, quick: bool) -> Results:
    return Results(choices=mixtures.compared(title, seed, folder, quick))


def _on_poison(case: poison.PoisonCase, folder: Path) -> Results:
    return Results(poisoned=poison.tried(case, folder))


def _on_drift(case: drift.DriftCase, folder: Path) -> Results:
    return Results(drifts=drift.tried(case, folder))


def _on_first_day(case: Placed, folder: Path) -> Results:
    return Results(days=[first_day.lived(case, folder)])


def _on_after_learn(case: Placed, folder: Path) -> Results:
    return Results(taught=[after_learn.taught(case, folder)])


def _on_silencing(fleet: str, folder: Path) -> Results:
    return Results(beside=silencing.compared(fleet, folder))


def _on_machine(case: Case) -> Results:
    return Results(battery=battery.tried(case))
