"""Measures in rounds, so that noise on the machine hits all cases alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from time import monotonic, sleep

from rich.progress import Progress

from benchmarks.peers import PEERS
from benchmarks.results import Key, Results
from benchmarks.verdicts import SHAPES
from benchmarks.worker import Worker

# Idle threads of OpenBLAS keep looking for work for some 30 ms before they sleep.
_CALM = 0.05
_FEWEST = 2
_TREES = "HalfSpaceTrees by inputs"


@dataclass(frozen=True)
class Plan:
    """Groups of cases that are measured in turn: rounds of batches of so many seconds each.

    ``sizes`` are numbers of hidden units, or of inputs: what the groups are made for.

    Rounds end early at the ``limit`` (in seconds), so that a busy machine does not take all day.
    """

    sizes: tuple[int, ...]
    groups: tuple[str, ...]
    rounds: int
    seconds: float
    limit: float
    machine: str = "idle"


def plans(units: tuple[int, ...], quick: bool) -> list[Plan]:
    """Gives what is measured: for each number of hidden units, and for each of inputs."""
    share = 4 if quick else 1
    of_units = [peer for peer in PEERS if peer != _TREES]
    inputs = tuple(SHAPES)
    return [
        Plan(units, ("one row", *of_units), 40 // share, 0.01, 30 / share),
        Plan(units, ("one row", "literal"), 20 // share, 0.01, 10 / share, "busy"),
        Plan(units, ("bulk",), 12 // share, 0.02, 12 / share),
        Plan(units, ("merging",), 8 // share, 0.02, 12 / share),
        # Long enough for what is computed again every 256 rows to come several times in a batch.
        Plan(inputs, ("observing", _TREES), 40 // share, 0.1, 60 / share),
        Plan(inputs, ("scoring",), 40 // share, 0.02, 30 / share),
    ]


def measure(plans: list[Plan], progress: Progress) -> Results:
    """Measures every plan for every size that it names, with one thread and the default."""
    results = Results()
    workers = [Worker("1"), Worker("default")]
    total = sum(len(plan.sizes) * (plan.rounds + 1) for plan in plans)
    task, finished = progress.add_task("", total=total), 0
    try:
        for plan in plans:
            for size in plan.sizes:
                progress.update(task, description=f"{plan.groups[0]}, {size}, {plan.machine}")
                with _machine(plan.machine):
                    for _ in _rounds(size, plan, workers, results):
                        progress.advance(task)
                finished += plan.rounds + 1
                progress.update(task, completed=finished)
    finally:
        for worker in workers:
            worker.close()
    return results


def _rounds(size: int, plan: Plan, workers: list[Worker], results: Results) -> Iterator[None]:
    names = _prepared(size, plan, workers, results)
    yield
    end = monotonic() + plan.limit
    for done in range(plan.rounds):
        if done >= _FEWEST and monotonic() > end:
            break
        for worker in workers:
            sleep(_CALM)
            for name in names:
                key = Key(size, name, worker.threads, plan.machine)
                results.add(key, worker.time(name, plan.seconds))
        yield
    for worker in workers:
        worker.forget()


def _prepared(size: int, plan: Plan, workers: list[Worker], results: Results) -> list[str]:
    names: list[str] = []
    for group in plan.groups:
        if group in results.failures:
            continue
        try:
            for worker in workers:
                made = worker.prepare(group, size)
            names += made
        except Exception as error:  # where a peer does not run, the others are measured
            if group not in PEERS:
                raise
            results.failures[group] = f"{type(error).__name__}: {error}"
    return names


@contextmanager
def _machine(state: str) -> Iterator[None]:
    """A machine left alone, or one on which another process keeps a core busy."""
    if state == "idle":
        yield
        return
    other = get_context("spawn").Process(target=_spin, daemon=True)
    other.start()
    try:
        yield
    finally:
        other.kill()
        other.join()


def _spin() -> None:
    while True:
        pass
