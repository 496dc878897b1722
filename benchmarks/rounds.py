"""Measures in rounds, so that noise on the machine hits all cases alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from time import monotonic, sleep

from rich.progress import Progress

from benchmarks.peers import PEERS
from benchmarks.results import Key, Results
from benchmarks.worker import Worker

# Idle threads of OpenBLAS keep looking for work for some 30 ms before they sleep.
_CALM = 0.05
_FEWEST = 2


@dataclass(frozen=True)
class Plan:
    """Groups of cases that are measured in turn: rounds of batches of so many seconds each.

    Rounds end early at the ``limit`` (in seconds), so that a busy machine does not take all day.
    """

    groups: tuple[str, ...]
    rounds: int
    seconds: float
    limit: float
    machine: str = "idle"


def plans(quick: bool) -> list[Plan]:
    """Gives what is measured for each number of hidden units."""
    share = 4 if quick else 1
    return [
        Plan(("one row", *PEERS), 40 // share, 0.01, 30 / share),
        Plan(("one row", "literal"), 20 // share, 0.01, 10 / share, "busy"),
        Plan(("bulk",), 12 // share, 0.02, 12 / share),
        Plan(("merging",), 8 // share, 0.02, 12 / share),
    ]


def measure(units: list[int], plans: list[Plan], progress: Progress) -> Results:
    """Measures every plan for every number of hidden units, with one thread and the default."""
    results = Results()
    workers = [Worker("1"), Worker("default")]
    task = progress.add_task("", total=len(units) * sum(plan.rounds + 1 for plan in plans))
    finished = 0
    try:
        for size in units:
            for plan in plans:
                what = f"Ñ = {size}: {plan.groups[0]}, machine {plan.machine}"
                progress.update(task, description=what)
                with _machine(plan.machine):
                    for _ in _rounds(size, plan, workers, results):
                        progress.advance(task)
                finished += plan.rounds + 1
                progress.update(task, completed=finished)
    finally:
        for worker in workers:
            worker.close()
    return results


def _rounds(units: int, plan: Plan, workers: list[Worker], results: Results) -> Iterator[None]:
    names = _prepared(units, plan, workers, results)
    yield
    end = monotonic() + plan.limit
    for done in range(plan.rounds):
        if done >= _FEWEST and monotonic() > end:
            break
        for worker in workers:
            sleep(_CALM)
            for name in names:
                key = Key(units, name, worker.threads, plan.machine)
                results.add(key, worker.time(name, plan.seconds))
        yield
    for worker in workers:
        worker.forget()


def _prepared(units: int, plan: Plan, workers: list[Worker], results: Results) -> list[str]:
    names: list[str] = []
    for group in plan.groups:
        if group in results.failures:
            continue
        try:
            for worker in workers:
                made = worker.prepare(group, units)
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
