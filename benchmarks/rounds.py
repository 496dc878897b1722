"""The order of measuring: in rounds, so that noise on the machine hits all alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from time import sleep

from rich.progress import Progress

from benchmarks.peers import PEERS
from benchmarks.results import Key, Results
from benchmarks.worker import Worker

# Idle threads of OpenBLAS keep looking for work for some 30 ms before they sleep.
_CALM = 0.05


@dataclass(frozen=True)
class Plan:
    """Groups of cases that are measured in turns: so many rounds of batches of so many seconds."""

    groups: tuple[str, ...]
    rounds: int
    seconds: float
    machine: str = "idle"


def plans(quick: bool) -> list[Plan]:
    """What is measured for each number of hidden units."""
    share = 4 if quick else 1
    return [
        Plan(("one row", *PEERS), 40 // share, 0.01),
        Plan(("one row", "literal"), 20 // share, 0.01, "busy"),
        Plan(("bulk",), 12 // share, 0.02),
        Plan(("merging",), 8 // share, 0.02),
    ]


def measure(units: list[int], plans: list[Plan], progress: Progress) -> Results:
    """Every plan for every number of hidden units, with one thread and with the default."""
    results = Results()
    workers = [Worker("1"), Worker("default")]
    task = progress.add_task("", total=len(units) * sum(plan.rounds + 1 for plan in plans))
    try:
        for size in units:
            for plan in plans:
                what = f"Ñ = {size}: {plan.groups[0]}, machine {plan.machine}"
                progress.update(task, description=what)
                with _machine(plan.machine):
                    for _ in _rounds(size, plan, workers, results):
                        progress.advance(task)
    finally:
        for worker in workers:
            worker.close()
    return results


def _rounds(units: int, plan: Plan, workers: list[Worker], results: Results) -> Iterator[None]:
    names = _prepared(units, plan, workers, results)
    yield
    for _ in range(plan.rounds):
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
        except Exception as error:
            # A peer that does not run here is no reason to learn nothing about the others.
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
