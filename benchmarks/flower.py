"""Measures a round in this process and on Flower's simulation: its time and its bytes.

``python -m benchmarks.flower`` (``make bench-flower``: in Flower's own environment). Clients have a
few rows each, so that what is measured is the engine and its messages, not learning.
"""

import sys
import time
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.exchange.output import Output, progress
from elmgrove.algebra.basis import Basis
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.federation.merged import Merged
from elmgrove.rounds.flower import simulate
from elmgrove.rounds.loop import RoundReport
from elmgrove.rounds.plan import Plan, run_plan

ROWS = 24
ROUNDS = 3


class Size(NamedTuple):
    """A layer, and the numbers of clients that are tried with it on both engines."""

    inputs: int
    units: int
    clients: tuple[int, ...]


#: The second is that of the papers' largest detector; 1,000 clients would send 0.65 GB a round.
SIZES = (Size(64, 16, (10, 100, 1000)), Size(561, 128, (10, 100)))
QUICK = (Size(64, 16, (10, 50)),)


def plan_of(size: Size, clients: int, rule: str) -> Plan:
    """Makes a plan with random rows; Fed-ELMS begins with a batch of its own."""
    rng = np.random.default_rng(0)
    basis = Basis(HiddenLayer(size.inputs, size.units, seed=0), size.inputs, score="loss")
    rows = {f"client-{index:04}": rng.normal(size=(ROWS, size.inputs)) for index in range(clients)}
    batch = rng.normal(size=(2 * size.units, size.inputs))
    return Plan(rule, basis, rows, rounds=ROUNDS, batch=batch)


ENGINES = {"local": run_plan, "flower": simulate}


def measured(size: Size, clients: int, rule: str, engine: str) -> tuple[dict[str, Any], Merged]:
    """Measures one run; gives numbers, and the model that it ended with."""
    plan, reports = plan_of(size, clients, rule), list[RoundReport]()
    started = time.perf_counter()
    merged = ENGINES[engine](plan, reports.append)
    whole = time.perf_counter() - started
    # In the first round, processes are started that the others find running.
    later = median(report.seconds for report in reports[1:])
    numbers = {
        "inputs": size.inputs,
        "units": size.units,
        "rule": rule,
        "clients": clients,
        "engine": engine,
        "first round s": reports[0].seconds,
        "round s": later,
        "ms a client": 1e3 * later / clients,
        "whole s": whole,
        "bytes down": reports[-1].down,
        "bytes up": reports[-1].up,
        "answered": len(reports[-1].answered),
    }
    return numbers, merged


COLUMNS = ("layer", "rule", "clients", "engine", "round", "ms/client", "all", "down", "up")


def _row(numbers: dict[str, Any]) -> list[object]:
    layer = f"{numbers['inputs']} × {numbers['units']}"
    known = [numbers[name] for name in ("rule", "clients", "engine", "round s", "ms a client")]
    return [
        layer,
        *known,
        numbers["whole s"],
        *(numbers[name] / 1e3 for name in ("bytes down", "bytes up")),
    ]


def main() -> None:
    """Measures all sizes, rules and engines; writes a table and bench/flower.json."""
    output, found = Output("flower"), list[dict[str, Any]]()
    for size in QUICK if "--quick" in sys.argv else SIZES:
        for clients in size.clients:
            for rule in ("e2lm", "fedavg"):
                ended = list[Merged]()
                for engine in ENGINES:
                    progress.print(f"{size.inputs} × {size.units}, {clients} × {rule}, {engine}")
                    numbers, merged = measured(size, clients, rule, engine)
                    found.append(numbers)
                    ended.append(merged)
                if not ended[0].evidence.close_to(ended[1].evidence, 1e-9):
                    sys.exit(f"{rule}, {clients} clients: the engines differ")
    title = f"A round, median of rounds 2 to {ROUNDS}, in s; kB of the messages of one round"
    output.table(title, COLUMNS, [_row(numbers) for numbers in found])
    output.say("Both engines ended with the same model, to 1e-9, each time.")
    output.write({"rounds": found})


if __name__ == "__main__":
    main()
